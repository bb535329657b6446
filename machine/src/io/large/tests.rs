//! Large folios: which ones a write makes, and that nothing is lost on their way.

use super::*;
use crate::config::MachineConfig;
use crate::ctx::InlineClock;
use crate::device::DeviceKind;
use crate::io::read::OpenFile;
use crate::io::read_ahead::ReadAhead;
use crate::machine::MachineRun;
use crate::mem::{MappingFlags, MappingId};
use crate::sim::{Affinity, TimeClass};
use coldset_engine::memcg::CounterKind;
use coldset_engine::presets::preset;
use coldset_engine::Counter;
use std::cell::RefCell;
use std::rc::Rc;

const VARIANTS: [&str; 5] = ["v612", "v618", "v72", "classic", "fifo"];

/// A machine of which each operation runs to its end, in a memcg of `limit` pages.
struct Rig {
    run: MachineRun,
    m: Machine,
    ctx: Ctx,
}

impl Rig {
    fn new(variant: &str, limit: u64, change: impl FnOnce(&mut MachineConfig)) -> Self {
        let mut cfg = MachineConfig::new(preset(variant).unwrap());
        cfg.large_folios = 8;
        cfg.check = true;
        change(&mut cfg);
        let run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(limit);
        let ctx = Ctx::inline(m.create_mm(memcg), memcg, InlineClock::Running);
        Self { run, m, ctx }
    }

    fn write(&mut self, file: ObjectId, pages: Range<u32>) {
        let n = pages.len() as u32;
        let write = self.m.write(&self.ctx, file, pages.start, n, true);
        self.run.run_inline(&self.ctx, write).unwrap();
    }

    fn read(&mut self, file: &OpenFile, pages: Range<u32>) {
        let n = pages.len() as u32;
        let read = self.m.read(&self.ctx, file, pages.start, n);
        self.run.run_inline(&self.ctx, read).unwrap();
    }

    fn access(&mut self, map: MappingId, page: u32, write: bool) {
        let access = self.m.access(&self.ctx, map, page, write);
        self.run.run_inline(&self.ctx, access).unwrap();
    }

    fn fsync(&mut self, file: ObjectId) {
        let sync = self.m.fsync(&self.ctx, file);
        self.run.run_inline(&self.ctx, sync).unwrap();
    }

    fn truncate(&mut self, file: ObjectId, page: u32) {
        let truncate = self.m.truncate(&self.ctx, file, page);
        self.run.run_inline(&self.ctx, truncate);
    }

    /// Evicts what can be, down to `pages`.
    fn shrink(&mut self, pages: u64, limit: u64) {
        let max = self.m.write_max(&self.ctx, self.ctx.memcg, pages);
        let _ = self.run.run_inline(&self.ctx, max);
        let tree = &mut self.m.world_mut().engine.memcgs;
        tree.set_max(self.ctx.memcg, CounterKind::Memory, limit)
            .unwrap();
    }

    fn live(&self, c: Counter) -> i64 {
        self.m.world().engine.memcgs.live(self.ctx.memcg, c)
    }

    /// (first page, pages) of each folio of a file.
    fn folios(&self, file: ObjectId) -> Vec<(u32, u32)> {
        let w = self.m.world();
        let o = w.object(file);
        let mut all = Vec::new();
        let mut at = 0;
        while at < o.pages() {
            match o.word(at).folio() {
                Some(id) => {
                    let pages = pages_of(w.engine.folio(id));
                    all.push((pages.start, pages.len() as u32));
                    at = pages.end;
                }
                None => at += 1,
            }
        }
        all
    }
}

#[test]
fn a_write_makes_the_largest_aligned_folios_that_it_fills() {
    let mut r = Rig::new("v618", 10_000, |_| {});
    let file = r.m.create_file(0, 2000);
    r.write(file, 3..20);
    let first = [(3, 1), (4, 4), (8, 8), (16, 4)];
    assert_eq!(r.folios(file), first);
    // What is there is written in its place, and what is not as large as fits between.
    r.write(file, 0..32);
    let around = [
        (0, 2),
        (2, 1),
        (3, 1),
        (4, 4),
        (8, 8),
        (16, 4),
        (20, 4),
        (24, 8),
    ];
    assert_eq!(r.folios(file), around);
    // At most the greatest order.
    r.write(file, 1024..2048);
    let large: Vec<_> = (4..8).map(|n| (n * 256, 256)).collect();
    assert_eq!(r.folios(file)[around.len()..], large);
    assert_eq!(r.live(Counter::FileDirty), 32 + 1024);
    // A read brings in single pages.
    let other = r.m.create_file(0, 64);
    r.read(&OpenFile::new(other), 0..8);
    assert_eq!(r.folios(other).len(), 8);
    r.m.world().check();
}

#[test]
fn parts_of_pages_and_small_writes_make_single_pages() {
    let mut r = Rig::new("v618", 10_000, |_| {});
    let file = r.m.create_file(0, 100);
    let m = r.m.clone();
    r.run
        .run_inline(&r.ctx, m.write(&r.ctx, file, 0, 16, false))
        .unwrap();
    r.write(file, 32..33);
    assert_eq!(r.folios(file).len(), 17);
    // Nor does a file system that has no large folios make any.
    r.m.world_mut().set_large_folios(0, 0);
    r.write(file, 64..96);
    assert_eq!(r.folios(file).len(), 17 + 32);
}

#[test]
fn a_charge_that_fails_is_tried_for_a_smaller_folio() {
    // Nothing can be reclaimed for a second: what fills the memcg is locked into memory, or dirty.
    let mut r = Rig::new("v618", 500, |c| c.devices = vec![DeviceKind::Delayed]);
    let locked = r.m.create_file(0, 390);
    let map = r.m.mmap(r.ctx.mm, locked, 0, 390, MappingFlags::LOCKED);
    (0..390).for_each(|page| r.access(map, page, false));
    let file = r.m.create_file(0, 128);
    r.write(file, 0..64);
    assert_eq!(r.folios(file), [(0, 64)]);
    // Fewer than 64 are left: 18 reclaims for nothing, then a folio of half the size.
    let before = r.live(Counter::EventsMax);
    r.write(file, 64..96);
    assert_eq!(r.live(Counter::EventsMax), before);
    let left = 500 - r.m.world().engine.memcgs[r.ctx.memcg].memory().usage();
    assert!(left < 16, "{left} pages are left");
    let m = r.m.clone();
    let write = m.write(&r.ctx, file, 112, 16, true);
    let _ = r.run.run_inline(&r.ctx, write);
    let attempts = r.live(Counter::EventsMax) - before;
    assert!(attempts >= 18, "{attempts} reclaims");
    let sizes: Vec<u32> = r.folios(file).iter().map(|f| f.1).collect();
    assert_eq!(sizes[..4], [64, 32, 8, 4], "{sizes:?}");
    r.m.world().check();
}

#[test]
fn a_large_folio_is_one_request_and_one_victim() {
    for variant in VARIANTS {
        let mut r = Rig::new(variant, 2000, |c| c.devices = vec![DeviceKind::Hdd]);
        let file = r.m.create_file(0, 512);
        r.write(file, 0..512);
        r.fsync(file);
        assert_eq!(r.live(Counter::Written), 512, "{variant}");
        assert_eq!(r.live(Counter::Pgpgout), 512 * 4, "{variant}");
        assert_eq!(r.live(Counter::FileDirty) + r.live(Counter::Writeback), 0);
        r.shrink(300, 2000);
        // Each of the pages of one of them has its shadow, and is a refault when it is read.
        assert_eq!(r.folios(file).len(), 1, "{variant}");
        let gone = 256 - r.folios(file)[0].0;
        let before = r.live(Counter::RefaultFile);
        r.read(&OpenFile::new(file), gone..gone + 256);
        assert_eq!(r.live(Counter::RefaultFile) - before, 256, "{variant}");
        r.m.world().check();
    }
}

/// The windows behind a mark, not those of a miss. Each asks for folios two orders larger than the last one had, and is cut
/// to a multiple of that (as kernels do: `windows_fill_the_folios_of_a_kernel`).
#[test]
fn windows_behind_a_mark_are_read_into_larger_folios() {
    let mut r = Rig::new("v618", 10_000, |c| {
        c.read_ahead = ReadAhead::Windows { kb: 512 };
        c.kernel_memory = true;
    });
    let file = r.m.create_file(0, 1000);
    let open = OpenFile::new(file);
    (0..21).for_each(|page| r.read(&open, page..page + 1));
    let first = [
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 4),
        (8, 4),
        (12, 4),
        (16, 4),
    ];
    let next = [(20, 4), (24, 8), (32, 16), (48, 16)];
    assert_eq!(r.folios(file), [&first[..], &next[..]].concat());
    r.read(&open, 21..1000);
    assert!(r.folios(file).iter().any(|f| f.1 == 128));
    r.m.world().check();
}

#[test]
fn reading_ahead_with_large_folios_ends_where_memory_is_short() {
    for variant in VARIANTS {
        let mut r = Rig::new(variant, 300, |c| {
            c.read_ahead = ReadAhead::Windows { kb: 512 };
        });
        let file = r.m.create_file(0, 3000);
        let open = OpenFile::new(file);
        for page in 0..3000 {
            r.read(&open, page..page + 1);
        }
        assert!(r.live(Counter::Pgpgin) >= 3000 * 4, "{variant}");
        r.m.world().check();
    }
}

/// However many of its pages are read one after the other, or mapped, it is one access.
#[test]
fn a_run_through_a_large_folio_is_one_access() {
    let mut r = Rig::new("classic", 10_000, |_| {});
    let file = r.m.create_file(0, 256);
    r.write(file, 0..256);
    let open = OpenFile::new(file);
    (0..256).for_each(|page| r.read(&open, page..page + 1));
    assert_eq!(r.live(Counter::Pgactivate), 0);
    // Another descriptor is another one: referenced twice, hence activated.
    r.read(&OpenFile::new(file), 7..8);
    r.run.catch_up(&r.ctx);
    assert_eq!(r.live(Counter::Pgactivate), 256);
}

#[test]
fn mapped_pages_of_a_large_folio_leave_with_it() {
    for variant in VARIANTS {
        let mut r = Rig::new(variant, 1000, |c| c.fault_around = 16);
        let file = r.m.create_file(0, 256);
        r.write(file, 0..256);
        r.fsync(file);
        let map = r.m.mmap(r.ctx.mm, file, 0, 256, MappingFlags::empty());
        r.access(map, 5, false);
        r.access(map, 100, true);
        let mapcount = |r: &Rig| {
            let w = r.m.world();
            let id = w.object(file).word(0).folio().unwrap();
            w.engine.folio(id).mapcount()
        };
        // Sixteen round the load, one for the store.
        assert_eq!(mapcount(&r), 17, "{variant}");
        assert_eq!(
            r.live(Counter::FileDirty),
            256,
            "one store makes all of it dirty"
        );
        r.fsync(file);
        assert_eq!(r.live(Counter::FileDirty), 0);
        r.access(map, 100, true);
        assert_eq!(
            r.live(Counter::FileDirty),
            256,
            "the entry was write-protected"
        );
        r.fsync(file);
        for _ in 0..5 {
            r.shrink(0, 1000);
        }
        assert_eq!(r.folios(file), [], "{variant}");
        assert_eq!(r.m.world().mm(r.ctx.mm).file, 0);
        r.access(map, 100, false);
        r.m.world().check();
    }
}

#[test]
fn truncation_splits_what_it_cuts() {
    for variant in VARIANTS {
        let mut r = Rig::new(variant, 10_000, |_| {});
        let file = r.m.create_file(0, 1024);
        r.write(file, 0..1024);
        let map = r.m.mmap(r.ctx.mm, file, 0, 1024, MappingFlags::empty());
        for page in [10, 99, 100, 300] {
            r.access(map, page, true);
        }
        r.truncate(file, 100);
        let rest: Vec<_> = (0..100).map(|page| (page, 1)).collect();
        assert_eq!(r.folios(file), rest, "{variant}");
        assert_eq!(r.live(Counter::FileDirty), 100, "{variant}");
        assert_eq!(r.live(Counter::FilePages), 100, "{variant}");
        assert_eq!(r.m.world().mm(r.ctx.mm).file, 2, "{variant}");
        r.m.world().check();
        let before = r.live(Counter::Written);
        r.fsync(file);
        assert_eq!(r.live(Counter::Written) - before, 100, "{variant}");
        // What was cut off is zeros, and can be written again.
        r.read(&OpenFile::new(file), 90..200);
        r.write(file, 256..512);
        assert_eq!(r.folios(file).last(), Some(&(256, 256)));
        r.m.world().check();
    }
}

#[test]
fn a_folio_under_writeback_is_truncated_when_it_is_written() {
    let mut r = Rig::new("v72", 10_000, |c| c.devices = vec![DeviceKind::Delayed]);
    let file = r.m.create_file(0, 256);
    r.write(file, 0..256);
    r.m.wake_flushers(coldset_engine::writeback::FlushReason::Sync);
    let until = r.ctx.now() + 100_000_000;
    r.run.run_until(until);
    r.run.catch_up(&r.ctx);
    assert_eq!(r.live(Counter::Writeback), 256);
    r.truncate(file, 1);
    assert!(r.ctx.now() > until + 800_000_000, "a write takes a second");
    assert_eq!(r.folios(file), [(0, 1)]);
    r.m.world().check();
}

/// A random program on 6.18.15 and 7.2.12 cuts a file and goes on reading where it was: 6 and 8 % fewer pages are read than
/// if the device still had them.
#[test]
fn what_was_cut_off_is_read_without_the_device_until_it_is_written() {
    for write in [false, true] {
        let mut r = Rig::new("v72", 10_000, |c| c.large_folios = 0);
        let file = r.m.create_file(0, 64);
        let open = OpenFile::new(file);
        let read = |r: &mut Rig, pages: Range<u32>| {
            let before = r.live(Counter::Pgpgin);
            r.read(&open, pages);
            (r.live(Counter::Pgpgin) - before) / 4
        };
        assert_eq!(read(&mut r, 0..64), 64);
        r.truncate(file, 16);
        assert_eq!(read(&mut r, 8..24), 0);
        if write {
            r.write(file, 20..22);
            r.fsync(file);
            r.truncate(file, 21);
        }
        r.shrink(0, 10_000);
        assert_eq!(r.folios(file), []);
        assert_eq!(read(&mut r, 12..24), 4 + i64::from(write));
        r.m.world().check();
    }
}

/// What was stored last, kept beside the machine: stores to each page since it was truncated.
type Truth = Rc<RefCell<Vec<u32>>>;

struct Draws(u64);

impl Draws {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

/// One operation of those of [`nothing_that_was_stored_is_lost`] on pages that no other task uses.
async fn operation(
    m: &Machine,
    ctx: &Ctx,
    open: &OpenFile,
    map: MappingId,
    pages: Range<u32>,
    d: &mut Draws,
    truth: &Truth,
) -> Result<(), OpError> {
    let file = open.object;
    let page = pages.start + d.below(pages.len() as u32);
    let most = (pages.end - page).min(1 << d.below(11));
    let n = 1 + d.below(most);
    let stored = |pages: Range<u32>| {
        for page in pages {
            truth.borrow_mut()[page as usize] += 1;
        }
    };
    match d.below(16) {
        0..=3 => {
            m.write(ctx, file, page, n, true).await?;
            stored(page..page + n);
        }
        // Aligned, as large folios want it.
        4..=6 => {
            let from = page & !255;
            if from >= pages.start && from + 256 <= pages.end {
                m.write(ctx, file, from, 256, true).await?;
                stored(from..from + 256);
            }
        }
        7 => {
            m.write(ctx, file, page, n.min(4), false).await?;
            stored(page..page + n.min(4));
        }
        8..=9 => m.read(ctx, open, page, n).await?,
        10..=11 => {
            m.access(ctx, map, page, true).await?;
            stored(page..page + 1);
        }
        12..=13 => m.access(ctx, map, page, false).await?,
        14 => m.fsync(ctx, file).await?,
        _ => {
            let next = ctx.now() + u64::from(d.below(40_000_000));
            ctx.sleep_until(TimeClass::Idle, next).await;
        }
    }
    Ok(())
}

/// The device has, and reads of the file give, what was stored last. Every load has compared already.
fn compare(w: &World, file: ObjectId, truth: &[u32], what: &str) {
    let c = w.object(file).contents.as_ref();
    for (page, &stored) in truth.iter().enumerate() {
        let (disk, memory) = c.map_or((0, 0), |c| (c.disk[page], c.stored[page]));
        assert_eq!((disk, memory), (stored, stored), "{what}: page {page}");
    }
}

/// Random operations of one task, truncation among them, on all kinds of machines.
#[test]
fn nothing_that_was_stored_is_lost() {
    let mut ended = 0;
    'seeds: for seed in 0..40u64 {
        let mut d = Draws(seed * 977 + 5);
        let variant = VARIANTS[seed as usize % VARIANTS.len()];
        let limit = u64::from(200 + d.below(1200));
        let what = format!("seed {seed}, {variant}, limit {limit}");
        let mut r = Rig::new(variant, limit, |c| {
            c.large_folios = [8, 9, 4, 2][d.below(4) as usize];
            c.kernel_memory = d.below(2) == 0;
            c.fault_around = 1 << d.below(5);
            c.ram = (d.below(3) == 0).then_some(4096);
            c.read_ahead = ReadAhead::Windows {
                kb: [0, 64, 512][d.below(3) as usize],
            };
            c.devices = vec![[DeviceKind::Nvme, DeviceKind::Hdd][d.below(2) as usize]];
            c.seed = seed;
        });
        const PAGES: u32 = 2048;
        let file = r.m.create_file(0, PAGES);
        let map = r.m.mmap(r.ctx.mm, file, 0, PAGES, MappingFlags::empty());
        let truth: Truth = Rc::new(RefCell::new(vec![0; PAGES as usize]));
        let open = OpenFile::new(file);
        let m = r.m.clone();
        for step in 0..250 {
            match d.below(20) {
                0 => {
                    let from = d.below(PAGES);
                    r.truncate(file, from);
                    truth.borrow_mut()[from as usize..].fill(0);
                }
                1 => r.shrink(limit / 3, limit),
                _ => {
                    let ctx = &r.ctx;
                    let operation = operation(&m, ctx, &open, map, 0..PAGES, &mut d, &truth);
                    let done = r.run.run_inline(ctx, operation);
                    m.world_mut().engine.memcgs.fold();
                    match done {
                        Ok(()) => {}
                        // Before the series a writer may be killed. What it had begun is not known.
                        Err(OpError::NoMemory) => {
                            m.world().check();
                            continue 'seeds;
                        }
                        Err(error) => panic!("{what}, step {step}: {error}"),
                    }
                }
            }
            if step % 25 == 0 {
                r.m.world().check();
            }
        }
        r.fsync(file);
        compare(&r.m.world(), file, &truth.borrow(), &what);
        r.read(&open, 0..PAGES);
        r.m.world().check();
        ended += 1;
    }
    assert!(ended >= 30, "{ended} of 40 programs ended");
}

/// The same by four tasks at once on two CPUs, each in pages of its own; folios under I/O meet reclaim,
/// faults and each other's fsync.
#[test]
fn tasks_beside_each_other_lose_nothing() {
    let mut ended = 0;
    for seed in 0..20u64 {
        let variant = VARIANTS[seed as usize % VARIANTS.len()];
        let mut cfg = MachineConfig::new(preset(variant).unwrap());
        cfg.cpus = 2;
        cfg.large_folios = 8;
        cfg.check = true;
        cfg.seed = seed;
        cfg.devices = vec![[DeviceKind::Nvme, DeviceKind::Hdd][seed as usize / 5 % 2]];
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(1500);
        const EACH: u32 = 768;
        let file = m.create_file(0, 4 * EACH);
        let truth: Truth = Rc::new(RefCell::new(vec![0; 4 * EACH as usize]));
        let left = Rc::new(RefCell::new(4));
        for task in 0..4u32 {
            let mm = m.create_mm(memcg);
            let map = m.mmap(mm, file, 0, 4 * EACH, MappingFlags::empty());
            let (truth, left) = (truth.clone(), left.clone());
            let mut d = Draws(seed * 31 + u64::from(task));
            m.spawn("task", Affinity::Any, mm, move |m, ctx| async move {
                let open = OpenFile::new(file);
                let pages = task * EACH..(task + 1) * EACH;
                for _ in 0..120 {
                    let done = operation(&m, &ctx, &open, map, pages.clone(), &mut d, &truth).await;
                    match done {
                        Ok(()) => {}
                        Err(OpError::NoMemory) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
                m.fsync(&ctx, file).await.unwrap();
                *left.borrow_mut() -= 1;
                if *left.borrow() == 0 {
                    m.sim.stop();
                }
            });
        }
        run.executor.run();
        let what = format!("seed {seed}, {variant}");
        m.world().check();
        if *left.borrow() > 0 {
            // What a task had begun when it was killed is not known.
            assert!(!m.world().ooms().is_empty(), "{what}");
            continue;
        }
        ended += 1;
        compare(&m.world(), file, &truth.borrow(), &what);
    }
    assert!(ended >= 15, "{ended} of 20 programs ended");
}
