use super::*;
use crate::device::{DeviceError, FailRule, FailWhen, FaultPlan, Op};
use crate::sim::Affinity;
use crate::{Ctx, FileSystem, InlineClock, MachineConfig, MachineRun, MappingFlags, OpenFile};
use coldset_engine::presets::preset;
use coldset_engine::{Counter, Flags, ObjectId};

mod folios;
mod model;

/// Pages of the files.
const FILE: u32 = 1024;
/// What a request may have, pages.
const REQUEST: u32 = 128;

/// Programs, and the pages that Linux 6.18.15 and 7.2.12 had in the cache after each read that it had not before: a
/// cold file of 1024 pages on ext4 with folios of one page, seen by `mincore`. A line: name,
/// `read_ahead_kb`, advice, and `PAGE+PAGES=FROM-TO,...` for each read; R and N are advice in between.
const KERNEL: &str = include_str!("kernel.txt");

fn runs(pages: impl Iterator<Item = u32>) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

fn advice(letter: &str) -> Option<Advice> {
    match letter.to_ascii_lowercase().as_str() {
        "n" => Some(Advice::Normal),
        "r" => Some(Advice::Random),
        "s" => Some(Advice::Sequential),
        _ => None,
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap()
}

/// What reads a file, and has a page cache.
trait Reader {
    fn advise(&mut self, advice: Advice);
    fn read(&mut self, page: u32, pages: u32);
    fn is_cached(&self, page: u32) -> bool;

    fn cached(&self) -> Vec<u32> {
        (0..FILE).filter(|&p| self.is_cached(p)).collect()
    }
}

/// What a program does.
enum Step<'a> {
    Advise(Advice),
    Call(Call<'a>),
}

/// A call of a program, and what it has brought into the cache of a kernel.
struct Call<'a> {
    text: &'a str,
    writes: bool,
    page: u32,
    pages: u32,
    seen: &'a str,
}

/// The name of the program of a line, its `read_ahead_kb`, and what it does.
fn program(line: &str) -> (&str, u32, impl Iterator<Item = Step<'_>>) {
    let mut words = line.split(' ');
    let (name, kb) = (words.next().unwrap(), number(words.next().unwrap()));
    let step = |word| match advice(word) {
        Some(advice) => Step::Advise(advice),
        None => Step::Call(call(word)),
    };
    (name, kb, words.map(step))
}

fn call(word: &str) -> Call<'_> {
    let (text, seen) = word.split_once('=').unwrap();
    let (page, pages) = text.split_once('+').unwrap_or((text, "1"));
    let write = page.strip_prefix('w');
    Call {
        text,
        writes: write.is_some(),
        page: number(write.unwrap_or(page)),
        pages: number(pages),
        seen,
    }
}

fn as_the_kernel<R: Reader>(new: impl Fn(u32) -> R) {
    assert!(KERNEL.lines().count() > 40);
    for line in KERNEL.lines() {
        let (name, kb, steps) = program(line);
        let mut reader = new(kb);
        for step in steps {
            let call = match step {
                Step::Advise(advice) => {
                    reader.advise(advice);
                    continue;
                }
                Step::Call(call) => call,
            };
            let before = reader.cached();
            reader.read(call.page, call.pages);
            let new = reader.cached().into_iter();
            let new = runs(new.filter(|p| before.binary_search(p).is_err()));
            let seen: Vec<Range<u32>> = call
                .seen
                .split(',')
                .filter_map(|run| run.split_once('-'))
                .map(|(from, to)| number(from)..number(to))
                .collect();
            assert_eq!(new, seen, "{name}: {}", call.text);
        }
    }
}

/// The state machine with a page cache that nothing leaves.
struct Cache {
    file: FileWindow,
    limits: Limits,
    /// By page: cached, and marked.
    pages: Vec<Option<bool>>,
    windows: Vec<(u32, u32, Window)>,
}

impl Cache {
    fn new(kb: u32) -> Self {
        Self {
            file: FileWindow::NEW,
            limits: Limits::new(kb, u64::from(REQUEST) * PAGE_SIZE, 0, WindowRules::V72),
            pages: vec![None; FILE as usize],
            windows: Vec::new(),
        }
    }

    fn bring_in(&mut self, at: u32, pages: u32, window: Window) {
        for page in window.clone().within(FILE).pages {
            let slot = &mut self.pages[page as usize];
            slot.get_or_insert(window.mark == Some(page));
        }
        self.windows.push((at, pages, window));
    }
}

impl Reader for Cache {
    fn advise(&mut self, advice: Advice) {
        self.file = self.file.advise(advice);
    }

    fn read(&mut self, page: u32, pages: u32) {
        let end = (page + pages).min(FILE);
        let mut at = page;
        while at < end {
            let cache = &self.pages;
            match cache[at as usize] {
                None => {
                    let before = |most: u32| {
                        let range = at.saturating_sub(most)..at;
                        range
                            .rev()
                            .take_while(|&p| cache[p as usize].is_some())
                            .count() as u32
                    };
                    let window = self.file.miss(self.limits, at, end - at, before);
                    self.bring_in(at, end - at, window);
                    assert!(self.is_cached(at));
                    continue;
                }
                Some(true) => {
                    let missing = |most: u32| {
                        let last = (at + most).min(FILE - 1);
                        (at + 1..=last).find(|&p| cache[p as usize].is_none())
                    };
                    let window = self
                        .file
                        .marked(self.limits, &(at..at + 1), end - at, missing);
                    self.pages[at as usize] = Some(false);
                    if let Some(window) = window {
                        self.bring_in(at, end - at, window);
                    }
                }
                Some(false) => {}
            }
            at += 1;
        }
        self.file = self.file.ended(end);
    }

    fn is_cached(&self, page: u32) -> bool {
        self.pages[page as usize].is_some()
    }
}

#[test]
fn windows_are_those_of_a_kernel() {
    as_the_kernel(Cache::new);
}

/// The machine.
struct Host {
    run: MachineRun,
    ctx: Ctx,
    object: ObjectId,
    file: OpenFile,
}

impl Host {
    fn new(read_ahead: ReadAhead, limit: u64) -> Self {
        Self::on(FileSystem::Ext4, read_ahead, limit)
    }

    fn on(file_system: FileSystem, read_ahead: ReadAhead, limit: u64) -> Self {
        let mut cfg = MachineConfig::new(preset("v5").unwrap());
        cfg.file_system = file_system;
        cfg.read_ahead = read_ahead;
        Self::of(cfg, limit)
    }

    fn of(mut cfg: MachineConfig, limit: u64) -> Self {
        cfg.check = true;
        let run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(limit);
        let mm = m.create_mm(memcg);
        let object = m.create_file(0, FILE);
        Self {
            run,
            ctx: Ctx::inline(mm, memcg, InlineClock::Running),
            object,
            file: OpenFile::new(object),
        }
    }

    fn windows(kb: u32) -> Self {
        Self::new(ReadAhead::Windows { kb }, 4096)
    }

    fn try_read(&mut self, page: u32, pages: u32) -> Result<(), crate::OpError> {
        let m = self.run.machine.clone();
        self.run
            .run_inline(&self.ctx, m.read(&self.ctx, &self.file, page, pages))
    }

    /// A store into a cached page, and nobody looks at dirty limits after it.
    fn write(&mut self, page: u32) {
        let mut w = self.run.machine.world_mut();
        let id = w.object(self.object).word(page).folio().unwrap();
        w.write_cached(&self.ctx, self.object, page, id);
    }

    fn flags(&self, page: u32) -> Flags {
        let w = self.run.machine.world();
        let id = w.object(self.object).word(page).folio().unwrap();
        w.engine.folio(id).word().flags()
    }

    fn set(&mut self, page: u32, flags: Flags) {
        let mut w = self.run.machine.world_mut();
        let id = w.object(self.object).word(page).folio().unwrap();
        w.engine.folio_set(id, flags);
    }

    fn count(&self, counter: Counter) -> i64 {
        let w = self.run.machine.world();
        w.engine.memcgs.live(self.ctx.memcg, counter)
    }
}

impl Reader for Host {
    fn advise(&mut self, advice: Advice) {
        self.file.advise(advice);
    }

    /// A page by the way of replays, more by that of tasks.
    fn read(&mut self, page: u32, pages: u32) {
        let pages = pages.min(FILE - page);
        if pages > 1 {
            return self.try_read(page, pages).unwrap();
        }
        let hits = {
            let mut w = self.run.machine.world_mut();
            w.read_hits(0, &self.file, std::iter::once(page))
        };
        if hits == 0 {
            self.run.read(&self.ctx, &self.file, page).unwrap();
        }
    }

    fn is_cached(&self, page: u32) -> bool {
        let w = self.run.machine.world();
        w.object(self.object).word(page).folio().is_some()
    }
}

#[test]
fn the_machine_reads_what_a_kernel_reads() {
    as_the_kernel(Host::windows);
}

#[test]
fn pages_read_ahead_count_as_read() {
    let mut h = Host::windows(128);
    h.read(0, 1);
    assert_eq!(h.cached(), [0, 1, 2, 3]);
    assert_eq!(h.count(Counter::Pgpgin), 16);
    assert!(h.flags(1).contains(Flags::RECLAIM), "the mark");
    h.read(1, 1);
    assert!(!h.flags(1).contains(Flags::RECLAIM));
    assert!(h.flags(4).contains(Flags::RECLAIM));
    assert_eq!(h.count(Counter::Pgpgin), 48);
}

#[test]
fn a_dirty_page_set_aside_by_reclaim_starts_a_window() {
    let mut h = Host::windows(128);
    h.read(100, 1);
    h.set(100, Flags::RECLAIM);
    h.advise(Advice::Random);
    h.read(100, 1);
    assert_eq!(
        h.cached(),
        [100, 101, 102, 103],
        "1 + 1 pages asked for, doubled, cut"
    );
    assert!(!h.flags(100).contains(Flags::RECLAIM), "taken");
}

/// Linux 6.18.15, 6,000 pages, each written before it was read: 378 requests to the device on ext4, 5,997 on f2fs.
#[test]
fn a_write_takes_the_mark_of_a_page_on_f2fs_and_leaves_it_on_ext4() {
    for (file_system, stays) in [(FileSystem::Ext4, true), (FileSystem::F2fs, false)] {
        let mut h = Host::on(file_system, ReadAhead::Windows { kb: 128 }, 4096);
        h.read(0, 1);
        assert!(h.flags(1).contains(Flags::RECLAIM), "read-ahead's");
        // A page that is dirty already has that of reclaim.
        for whose in ["read-ahead's", "reclaim's"] {
            h.write(1);
            let marked = h.flags(1).contains(Flags::RECLAIM);
            assert_eq!(marked, stays, "{file_system}, {whose}");
            h.set(1, Flags::RECLAIM);
        }
    }
}

#[test]
fn a_mark_under_writeback_is_left_to_reclaim() {
    let mut h = Host::windows(128);
    h.read(100, 1);
    let both = Flags::RECLAIM | Flags::WRITEBACK;
    h.set(100, both);
    h.read(100, 1);
    assert_eq!(h.cached(), [100]);
    assert!(h.flags(100).contains(both));
}

#[test]
fn without_windows_marks_are_left_alone() {
    for read_ahead in [ReadAhead::Windows { kb: 0 }, ReadAhead::Fixed(0)] {
        let mut h = Host::new(read_ahead, 4096);
        h.read(100, 1);
        h.set(100, Flags::RECLAIM);
        h.read(100, 2);
        assert_eq!(h.cached(), [100, 101]);
        assert!(h.flags(100).contains(Flags::RECLAIM));
    }
}

#[test]
fn a_device_has_its_own() {
    let mut h = Host::windows(128);
    let none = ReadAhead::Windows { kb: 0 };
    h.run.machine.world_mut().set_read_ahead(0, none);
    h.read(0, 3);
    assert_eq!(h.cached(), [0, 1, 2]);
}

#[test]
fn cached_pages_in_a_window_are_left_out_of_its_requests() {
    let mut h = Host::windows(128);
    h.read(5, 1);
    h.read(9, 1);
    h.read(0, 4);
    assert_eq!(h.cached(), [0, 1, 2, 3, 4, 5, 6, 7, 9]);
    assert_eq!(h.count(Counter::Pgpgin), 9 * 4);
    assert!(h.flags(4).contains(Flags::RECLAIM));
}

#[test]
fn refaults_of_pages_read_ahead_are_counted() {
    let mut h = Host::new(ReadAhead::Windows { kb: 128 }, 256);
    for _ in 0..2 {
        for page in 0..FILE {
            h.read(page, 1);
        }
    }
    let (read, refaults) = (h.count(Counter::Pgpgin) / 4, h.count(Counter::RefaultFile));
    assert!(read >= i64::from(2 * FILE - 256), "{read}");
    assert_eq!(refaults, read - i64::from(FILE), "all but the first reads");
    assert!(h.run.machine.world().ooms().is_empty());
}

#[test]
fn a_window_ends_where_memory_is_short() {
    let mut h = Host::new(ReadAhead::Windows { kb: 128 }, 64);
    let m = h.run.machine.clone();
    let anon = m.create_anon(62);
    let map = m.mmap(h.ctx.mm, anon, 0, 62, MappingFlags::empty());
    let file = OpenFile::new(h.object);
    m.spawn(
        "reader",
        Affinity::Any,
        h.ctx.mm,
        move |m, ctx| async move {
            for page in 0..62 {
                m.access(&ctx, map, page, true).await.unwrap();
            }
            m.read(&ctx, &file, 0, 1).await.unwrap();
            m.sim.stop();
        },
    );
    h.run.executor.run();
    assert_eq!(h.cached(), [0, 1], "the window would be four pages");
    assert!(m.world().ooms().is_empty());
}

#[test]
fn a_device_error_is_the_readers_only_for_what_it_asked_for() {
    let mut h = Host::windows(128);
    let broken = FaultPlan {
        fail: vec![FailRule {
            op: Some(Op::Read),
            when: FailWhen::Ppm(1_000_000),
            error: DeviceError::Io,
        }],
        slow: Vec::new(),
    };
    h.read(0, 1);
    h.run.machine.world_mut().set_faults(0, broken);
    h.read(1, 1);
    assert_eq!(h.cached(), [0, 1, 2, 3], "its window has failed");
    assert!(h.try_read(4, 1).is_err());
    assert_eq!(h.cached(), [0, 1, 2, 3]);
}
