use super::*;
use crate::io::read_ahead::{ReadAhead, WindowRules};
use crate::mem::{MappingId, Slot};
use crate::{Ctx, InlineClock, MachineConfig, MachineRun, MappingFlags, OpenFile};
use coldset_engine::presets::preset;
use coldset_engine::{Flags, ObjectId};
use std::ops::Range;

/// Pages of the file.
const FILE: u32 = 4096;

/// Programs, and the pages that a kernel had in the cache after each step that it had not before: a cold file on ext4 with
/// folios of one page, seen by `mincore`. A line: which kernel (6: Linux 6.18.15, 7: 7.2.12, b: both),
/// name, `read_ahead_kb`, advice for the mapping, pages of fault-around, and the steps:
///
/// - `PAGE=FROM-TO,...` a load; `PAGE*` if the new pages are a whole window round it, `PAGE.` if only
///   itself; `FROM..TO` loads that brought in nothing
/// - `wPAGE` a store, `rPAGE+N` a read through the descriptor
/// - `z` the mapping loses its entries, `DPAGE+N` pages leave the cache, too
/// - `aX` advice, `gN` pages of fault-around
const KERNEL: &str = include_str!("kernel.txt");

/// A program that maps a file.
struct Program {
    run: MachineRun,
    ctx: Ctx,
    object: ObjectId,
    file: OpenFile,
    map: MappingId,
}

fn flags(advice: &str) -> MappingFlags {
    match advice {
        "n" => MappingFlags::empty(),
        "r" => MappingFlags::NO_RECENCY,
        "s" => MappingFlags::NO_RECENCY | MappingFlags::SEQUENTIAL,
        _ => panic!("{advice}"),
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap()
}

/// `PAGE+N`.
fn pages(text: &str) -> Range<u32> {
    let (page, n) = text.split_once('+').unwrap();
    number(page)..number(page) + number(n)
}

impl Program {
    fn new(kernel: &str, kb: u32, around: u32, advice: &str) -> Self {
        let mut cfg = MachineConfig::new(preset(kernel).unwrap());
        cfg.read_ahead = ReadAhead::Windows { kb };
        cfg.fault_around = around;
        let run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(2 * FILE as u64);
        let mm = m.create_mm(memcg);
        let object = m.create_file(0, FILE);
        Self {
            ctx: Ctx::inline(mm, memcg, InlineClock::Running),
            object,
            file: OpenFile::new(object),
            map: m.mmap(mm, object, 0, FILE, flags(advice)),
            run,
        }
    }

    fn faults(&self, change: impl FnOnce(&mut FaultWindow)) {
        let w = &mut *self.run.machine.world_mut();
        change(&mut w.mappings[self.map.0 as usize].faults);
    }

    fn touch(&mut self, page: u32, write: bool) {
        let m = self.run.machine.clone();
        let access = m.access(&self.ctx, self.map, page, write);
        self.run.run_inline(&self.ctx, access).unwrap();
    }

    /// A read of the descriptor that was mapped: one state is for both.
    fn read(&mut self, pages: Range<u32>) {
        self.faults(|faults| self.file.update_window(|w| *w = faults.window));
        let m = self.run.machine.clone();
        let read = m.read(&self.ctx, &self.file, pages.start, pages.len() as u32);
        self.run.run_inline(&self.ctx, read).unwrap();
        self.faults(|faults| self.file.update_window(|w| faults.window = *w));
    }

    /// The same mapping without its entries.
    fn zap(&mut self) {
        let m = self.run.machine.clone();
        let (flags, faults) = {
            let w = m.world();
            let old = &w.mappings[self.map.0 as usize];
            (old.flags, old.faults)
        };
        m.munmap(&self.ctx, self.map);
        self.map = m.mmap(self.ctx.mm, self.object, 0, FILE, flags);
        self.faults(|new| *new = faults);
    }

    fn drop_pages(&mut self, pages: Range<u32>) {
        self.zap();
        let w = &mut *self.run.machine.world_mut();
        for page in pages {
            let object = &mut w.objects[self.object.idx()];
            if let Slot::Folio(id) = object.slot(page) {
                object.set_slot(page, Slot::Empty);
                if let Some(c) = &mut object.contents {
                    c.disk[page as usize] = c.memory[page as usize];
                }
                w.engine.clear_dirty(id);
                w.engine.folio_clear(id, Flags::OWNED);
                w.engine.folio_put(id, 1);
            }
        }
    }

    fn cached(&self) -> Vec<u32> {
        let w = self.run.machine.world();
        let cached = |page: &u32| w.object(self.object).word(*page).folio().is_some();
        (0..FILE).filter(cached).collect()
    }

    /// Does a step, and compares.
    fn step(&mut self, name: &str, kb: u32, step: &str) {
        let (what, seen) = step.split_once('=').unwrap_or((step, ""));
        if let Some((from, to)) = what.split_once("..") {
            let before = self.cached();
            for page in number(from)..=number(to) {
                self.touch(page, false);
            }
            return assert_eq!(self.cached(), before, "{name}: {step}");
        }
        let before = self.cached();
        let mut expected: Vec<u32> = before.clone();
        let rest = &what[1..];
        match &what[..1] {
            "a" => {
                let w = &mut *self.run.machine.world_mut();
                w.mappings[self.map.0 as usize].flags = flags(rest);
            }
            "g" => self.run.machine.world_mut().fault_around = number(rest),
            "z" => self.zap(),
            "D" => {
                self.drop_pages(pages(rest));
                expected.retain(|p| !pages(rest).contains(p));
            }
            "r" => self.read(pages(rest)),
            "w" => self.touch(number(rest), true),
            _ => {
                let page = number(what.trim_end_matches(['*', '.']));
                match what.bytes().last() {
                    Some(b'*') => expected.extend(page - kb / 8..page + kb / 8),
                    Some(b'.') => expected.push(page),
                    _ => {}
                }
                self.touch(page, false);
            }
        }
        for run in seen.split(',').filter_map(|run| run.split_once('-')) {
            expected.extend(number(run.0)..number(run.1));
        }
        expected.sort_unstable();
        assert_eq!(self.cached(), expected, "{name}: {step}");
    }
}

fn as_the_kernel(letter: &str, preset: &str) {
    let mut programs = 0;
    for line in KERNEL.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        if ![letter, "b"].contains(&word()) {
            continue;
        }
        let (name, kb, advice, around) = (word(), number(word()), word(), number(word()));
        let mut program = Program::new(preset, kb, around, advice);
        for step in words {
            program.step(name, kb, step);
        }
        programs += 1;
    }
    assert_eq!(programs, 142);
}

#[test]
fn faults_read_what_618_reads() {
    as_the_kernel("6", "base");
}

#[test]
fn faults_read_what_72_reads() {
    as_the_kernel("7", "v72");
}

/// Misses, hits, and how many misses after them are read round.
fn rounds(advice: Advice, misses: u32, hits: u32) -> usize {
    let limits = Limits::new(128, 0, 0, WindowRules::V72);
    let mut faults = FaultWindow::NEW;
    let miss = |faults: &mut FaultWindow| faults.miss(limits, 500, advice, |_| 0);
    for _ in 0..misses {
        miss(&mut faults);
    }
    faults.hit(hits);
    (0..200).filter(|_| miss(&mut faults).is_some()).count()
}

#[test]
fn random_faults_switch_it_off_and_hits_count_back() {
    let normal = Advice::Normal;
    assert_eq!(rounds(normal, 0, 0), 100);
    assert_eq!(rounds(normal, 0, 50), 100, "hits are not saved up");
    assert_eq!(rounds(normal, 112, 0), 0);
    assert_eq!(rounds(normal, 112, 12), 0);
    assert_eq!(rounds(normal, 112, 13), 1);
    assert_eq!(
        rounds(normal, 1024, 940),
        40,
        "no more than 1000 are remembered"
    );
    assert_eq!(rounds(Advice::Random, 0, 0), 0);
    assert_eq!(
        rounds(Advice::Sequential, 1000, 0),
        200,
        "nothing is counted"
    );
}

#[test]
fn without_windows_a_fault_reads_its_page() {
    for advice in [Advice::Normal, Advice::Sequential, Advice::Random] {
        let mut faults = FaultWindow::NEW;
        let window = faults.miss(Limits::new(0, 0, 0, WindowRules::V72), 500, advice, |_| 0);
        assert_eq!(window, None);
    }
}

/// A page with the mark, of which `also` is true, is touched. Returns new pages, and whether the mark is
/// still there.
fn touch_marked(also: Flags, advice: &str) -> (usize, bool) {
    let mut p = Program::new("v72", 128, 1, advice);
    p.read(100..101);
    let id = |p: &Program| {
        let w = p.run.machine.world();
        w.object(p.object).word(100).folio().unwrap()
    };
    let folio = id(&p);
    let marked = Flags::RECLAIM | also;
    p.run.machine.world_mut().engine.folio_set(folio, marked);
    p.touch(100, false);
    let w = p.run.machine.world();
    let still = w.engine.folio(folio).has(Flags::RECLAIM);
    drop(w);
    (p.cached().len() - 1, still)
}

#[test]
fn a_fault_takes_the_mark_that_reclaim_has_left() {
    assert_eq!(touch_marked(Flags::empty(), "n"), (31, false));
    assert_eq!(touch_marked(Flags::WRITEBACK, "n"), (0, true));
    assert_eq!(touch_marked(Flags::empty(), "r"), (0, true));
}
