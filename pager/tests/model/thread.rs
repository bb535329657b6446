//! A thread of a program: its operations on regions, and what each may answer.

use super::fail;
use super::oracle::{Before, Class};
use super::process::{fork, madvise, map_again, record, resize, stop_recording};
use super::program::{Hint, Mode, Op, Reach, Which, BLOCK};
use super::world::{Live, PoolState, World};
use crate::common::{pages_in_memory, Random};
use coldset_pager::{Advice, Error, Limits, PAGE_SIZE};
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// One of a program's threads.
pub struct Thread<'a> {
    world: &'a World,
    t: usize,
}

impl<'a> Thread<'a> {
    pub fn new(world: &'a World, t: usize) -> Self {
        Self { world, t }
    }

    /// Does what `op` says. A wrong answer ends the process.
    pub fn op(&mut self, op: &Op) {
        let explicit = self.world.program.mode == Mode::Explicit;
        match *op {
            Op::SwapFaults { pool, every } => {
                let p = self.world.pool(pool);
                if let Some(faults) = &p.swap_faults {
                    p.failed.store(true, SeqCst);
                    faults.fail_writes.store(every, SeqCst);
                }
            }
            Op::Record { pool } => record(self.world, &self.world.pool(pool)),
            Op::StopRecording { pool } => stop_recording(&self.world.pool(pool)),
            Op::Resize { pool, percent } => resize(&self.world.pool(pool), percent),
            Op::NewPool { pool } => self.world.replace_pool(pool),
            Op::Look { pool } => self.statistics(&self.world.pool(pool)),
            Op::Check { pool } => self.world.pool(pool).pool.check(),
            Op::End { slot, how } => self.world.end(slot, how),
            Op::Touch { slot, .. }
            | Op::Scan { slot, .. }
            | Op::Advise { slot, .. }
            | Op::Discard { slot, .. }
            | Op::Pin { slot, .. }
            | Op::Fix { slot, .. }
            | Op::Limit { slot, .. }
            | Op::Reclaim { slot, .. }
            | Op::Sync { slot, .. }
            | Op::Break { slot, .. }
            | Op::Mprotect { slot, .. }
            | Op::Madvise { slot, .. }
            | Op::Fork { slot, .. }
            | Op::MapAgain { slot } => {
                let Some(live) = self.world.live(slot) else {
                    return;
                };
                self.on_region(&live, op, explicit);
            }
        }
    }

    fn on_region(&mut self, live: &Live, op: &Op, explicit: bool) {
        match *op {
            Op::Touch {
                seed, n, stores, ..
            } => self.touch(live, seed, n, stores, true),
            Op::Scan {
                from, n, stores, ..
            } => {
                let pages = live.truth.pages();
                let first = pages * usize::from(from) / 100;
                for page in first..(first + n as usize).min(pages) {
                    let r = &mut Random::new(page as u64);
                    self.access(live, page, r, stores, true);
                }
            }
            Op::Advise { hint, from, n, .. } => self.advise(live, hint, from, n),
            Op::Discard { seed, blocks, .. } => self.discard(live, seed, blocks),
            Op::Pin {
                seed, n, shared, ..
            } if !explicit => self.pin(live, seed, n, shared),
            Op::Fix { seed, n, .. } if explicit => self.fix(live, seed, n),
            Op::Limit { which, share, .. } => self.limit(live, which, share),
            Op::Reclaim { pages, .. } => {
                let root = live.pool.pool.root();
                let group = live.group.as_ref().unwrap_or(&root);
                if let Err(e) = group.reclaim(u64::from(pages) * PAGE_SIZE as u64) {
                    fail(&format!("reclaim: {e}"));
                }
            }
            Op::Sync { reach, seed, .. } => self.sync(live, reach, seed),
            Op::Break { seed, .. } => self.break_page(live, seed),
            Op::Mprotect { seed, none, .. } if !explicit => self.mprotect(live, seed, none),
            Op::Madvise { seed, .. } if !explicit => madvise(live, seed),
            Op::MapAgain { .. } => map_again(live),
            Op::Fork { calls, .. } if calls || !explicit => fork(live, calls),
            _ => {}
        }
    }

    // ------------------------------------------------------------ loads and stores

    /// `n` accesses. Without `others`, not to pages that others may hold on to.
    fn touch(&self, live: &Live, seed: u32, n: u32, stores: u8, others: bool) {
        let mut r = Random::new(u64::from(seed));
        let pages = live.truth.pages() as u64;
        for _ in 0..n {
            let page = match r.below(4) {
                0 => r.below(pages),
                _ => r.skewed(pages),
            };
            self.access(live, page as usize, &mut r, stores, others);
        }
    }

    fn access(&self, live: &Live, page: usize, r: &mut Random, stores: u8, others: bool) {
        let (truth, t) = (&live.truth, self.t);
        let class = truth.class(page);
        let store = live.writable() && r.below(100) < u64::from(stores);
        match class {
            Class::Own(owner) if owner != t => {
                if others && !truth.hidden(page) {
                    live.check(page, t);
                }
            }
            _ if !store => live.check(page, t),
            Class::Own(_) if r.below(2) == 0 => live.store(page, |s| truth.store_full(page, s)),
            Class::Shared if r.below(2) == 0 => live.count(page),
            _ => live.store(page, |s| truth.store_word(page, t, s)),
        }
    }

    /// The first page of one of this thread's blocks.
    fn own_block(&self, live: &Live, seed: u32) -> Option<usize> {
        let own = live.truth.blocks(Class::Own(self.t));
        let n = own.len().max(1) as u64;
        own.get(Random::new(u64::from(seed)).below(n) as usize)
            .copied()
    }

    // ------------------------------------------------------------ calls

    fn advise(&self, live: &Live, hint: Hint, from: u8, n: u32) {
        let pages = live.truth.pages();
        let first = pages * usize::from(from) / 100;
        let end = (first + n as usize).min(pages);
        let range = first * PAGE_SIZE..(end * PAGE_SIZE).min(live.truth.len());
        let advice = match hint {
            Hint::Normal => Advice::Normal,
            Hint::Random => Advice::Random,
            Hint::Sequential => Advice::Sequential,
            Hint::WillNeed => Advice::WillNeed,
        };
        match live.region().advise(range, advice) {
            Ok(()) => {}
            Err(Error::NoMemory { .. }) if live.pool.failed.load(SeqCst) => {}
            Err(e) => fail(&format!("advise {hint:?}: {e}")),
        }
    }

    /// Anonymous memory: one's own blocks, and the wild ones. Files: any, for nothing is lost.
    fn discard(&self, live: &Live, seed: u32, blocks: u32) {
        let mut r = Random::new(u64::from(seed));
        let truth = &live.truth;
        let all = (truth.pages() / BLOCK) as u64;
        if all == 0 {
            return;
        }
        for _ in 0..blocks {
            let first = r.below(all) as usize * BLOCK;
            let class = truth.class(first);
            if !live.is_file() && class != Class::Wild && class != Class::Own(self.t) {
                continue;
            }
            let range = first * PAGE_SIZE..((first + BLOCK) * PAGE_SIZE).min(truth.len());
            let pages = first..first + BLOCK;
            pages.clone().for_each(|p| truth.discard_begins(p));
            let drop_it = || live.region().advise(range.clone(), Advice::DontNeed);
            let mut done = drop_it();
            let own = class == Class::Own(self.t) && !live.is_file();
            if own && live.explicit {
                // Others look at this thread's pages, and fix them for that moment.
                for _ in 0..1000 {
                    if !matches!(done, Err(Error::Mode(_))) {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                    done = drop_it();
                }
            }
            pages.for_each(|p| truth.discard_ends(p));
            match done {
                Ok(()) => {}
                Err(Error::Mode(_)) if own => {
                    fail("nobody has pinned these pages, and DontNeed says that somebody has");
                }
                // Pinned by others, or fixed.
                Err(Error::Mode(_)) if class != Class::Own(self.t) || live.explicit => {}
                Err(Error::Io { .. }) if live.has_failed() => {}
                Err(e) => fail(&format!("DontNeed: {e}")),
            }
        }
    }

    fn pin(&self, live: &Live, seed: u32, n: u32, shared: bool) {
        let Some(first) = self.own_block(live, seed) else {
            return;
        };
        let bytes = first * PAGE_SIZE..(first + BLOCK) * PAGE_SIZE;
        let region = live.region();
        let write = live.writable();
        let (mut one, mut other) = (None, None);
        let range = if shared {
            let p = one.insert(live.patiently("pin", || region.pin_shared(bytes.clone(), write)));
            p.range()
        } else {
            let p = other.insert(live.patiently("pin", || region.pin(bytes.clone(), write)));
            p.range()
        };
        if range != bytes {
            fail(&format!("a pin of {bytes:?} keeps {range:?}"));
        }
        let (mut out, mut back) = pipe();
        let base = region.as_ptr() as usize;
        let kept = |when: &str| {
            let there = region.resident(bytes.clone());
            if !matches!(there, Ok(BLOCK)) {
                fail(&format!(
                    "{when}, of {BLOCK} pinned pages {there:?} are in memory"
                ));
            }
        };
        kept("at first");
        self.write_out(live, first, &mut out, &mut back);
        self.touch(live, seed, n, 50, false);
        kept("after other accesses");
        self.write_out(live, first, &mut out, &mut back);
        if write {
            // The kernel stores a page.
            let page = first + BLOCK - 1;
            let version = live.truth.begin_full(page);
            let contents = live.truth.bytes_of(page, self.t, version);
            back.write_all(&contents).expect("a pipe has room");
            // SAFETY: reads into a page that only this thread uses, and which is pinned.
            let got = unsafe {
                let at = (base + page * PAGE_SIZE) as *mut libc::c_void;
                libc::read(out.as_raw_fd(), at, PAGE_SIZE)
            };
            if got != PAGE_SIZE as isize {
                let e = std::io::Error::last_os_error();
                fail(&format!("read(2) into a pinned page: {got}, {e}"));
            }
            live.truth.end_full(page, version);
            live.check(page, self.t);
        }
        drop((one, other));
        live.check(first, self.t);
    }

    /// The kernel reads the pages of a pinned block.
    fn write_out(&self, live: &Live, first: usize, out: &mut File, back: &mut File) {
        let base = live.region().as_ptr() as usize;
        for page in first..first + BLOCK {
            // SAFETY: reads a page that only this thread stores to, and which is pinned.
            let put = unsafe {
                let at = (base + page * PAGE_SIZE) as *const libc::c_void;
                libc::write(back.as_raw_fd(), at, PAGE_SIZE)
            };
            if put != PAGE_SIZE as isize {
                let e = std::io::Error::last_os_error();
                fail(&format!("write(2) of pinned page {page}: {put}, {e}"));
            }
            let mut bytes = [0; PAGE_SIZE];
            out.read_exact(&mut bytes).expect("what was written");
            let before = live.truth.before(page);
            let look = |w: usize| u64::from_ne_bytes(bytes[w * 8..][..8].try_into().unwrap());
            if let Err(e) = live.truth.check(page, self.t, &before, &look) {
                fail(&format!("what write(2) read of a pinned page: {e}"));
            }
        }
    }

    /// Guards on two pages that nobody else uses, while other pages are used.
    fn fix(&self, live: &Live, seed: u32, n: u32) {
        let Some(first) = self.own_block(live, seed) else {
            return;
        };
        let (a, b) = (first + BLOCK - 2, first + BLOCK - 1);
        let region = live.region();
        let reader = live.patiently("fix", || region.fix(a));
        let held: Vec<u8> = reader.to_vec();
        let mut writer = live
            .writable()
            .then(|| live.patiently("fix_mut", || region.fix_mut(b)));
        for i in 0..n {
            let page = Random::new(u64::from(seed ^ i)).below(live.truth.pages() as u64) as usize;
            if page != a && page != b {
                self.access(live, page, &mut Random::new(u64::from(i)), 40, false);
            }
        }
        if let Some(w) = &mut writer {
            let version = live.truth.begin_full(b);
            w.copy_from_slice(&live.truth.bytes_of(b, self.t, version));
            live.truth.end_full(b, version);
        }
        if held[..] != reader[..] {
            fail(&format!(
                "page {a} has changed while it was fixed for reading"
            ));
        }
        drop((reader, writer));
        live.check(a, self.t);
        live.check(b, self.t);
    }

    fn limit(&self, live: &Live, which: Which, share: u8) {
        let Some(group) = &live.group else { return };
        let budget = live.pool.plan.budget_pages as u64;
        let share = u64::from(share);
        let pages = |percent: u64| budget * percent / 100 * PAGE_SIZE as u64;
        let limits = match which {
            Which::Min => Limits::new().min(pages(share / 16)),
            Which::Low => Limits::new().low(pages(share / 8)),
            Which::High => Limits::new().high(pages(70 + share / 2)),
            Which::Max => Limits::new().max(pages(70 + share / 2)),
        };
        if let Err(e) = group.set(limits) {
            fail(&format!("limits: {e}"));
        }
    }

    fn statistics(&self, p: &PoolState) {
        let threads = self.world.program.threads.len();
        let stats = p.pool.stats();
        let (now, bound) = (stats.resident_pages + stats.store_pages, p.bound(threads));
        if now > bound || stats.peak_pages > bound {
            fail(&format!(
                "{now} pages now, {} at most, in a budget of {} (bound {bound})",
                stats.peak_pages, stats.budget_pages
            ));
        }
        drop(p.pool.snapshot());
        // Pools that have been replaced live on in their regions; whether the kernel tells threads of
        // misses is tried with 2 MiB, each time that somebody asks for them.
        let program = &self.world.program;
        let replaced = |op: &Op| matches!(op, Op::NewPool { .. });
        if program.regions.iter().any(|r| r.handler_threads)
            || program.threads.iter().flatten().any(replaced)
        {
            return;
        }
        let kernel = pages_in_memory();
        let pools = 0..self.world.pools.len();
        let bound: u64 = pools.map(|i| self.world.pool(i).bound(threads)).sum();
        if kernel > bound {
            fail(&format!(
                "{kernel} pages in memory by the kernel's count (bound {bound})"
            ));
        }
    }

    // ------------------------------------------------------------ files

    /// What is known of some pages before a sync.
    fn before(&self, live: &Live, pages: Range<usize>) -> Vec<(usize, Before)> {
        pages.map(|p| (p, live.truth.before(p))).collect()
    }

    fn sync(&self, live: &Live, reach: Reach, seed: u32) {
        let Some(first) = self.own_block(live, seed) else {
            return;
        };
        // Others only look at them: they are synced whoever else has fixed them.
        let pages = first..first + BLOCK;
        let some = |r: &mut Random| r.below(live.truth.pages() as u64) as usize;
        let mut r = Random::new(u64::from(seed) + 1);
        let mut before = self.before(live, pages.clone());
        let own = before.len();
        if reach != Reach::Own {
            before.extend(
                (0..16)
                    .map(|_| some(&mut r))
                    .map(|p| (p, live.truth.before(p))),
            );
        }
        let done = match reach {
            Reach::Own => live.region().sync(bytes(&pages)),
            Reach::Region => live.region().sync(0..live.region().len()),
            Reach::Pool => live.pool.pool.sync(),
        };
        match done {
            Ok(()) if live.writable() => {
                live.check_file(&before, self.t, &format!("after sync of {reach:?}"));
            }
            Ok(()) => {}
            // Others are writing to pages of theirs, of this region or another; none of which is this thread's.
            Err(Error::Fixed { .. }) if live.explicit && reach != Reach::Own => {
                if reach == Reach::Region && live.writable() {
                    let what = format!("after sync of {reach:?} beside guards");
                    live.check_file(&before[..own], self.t, &what);
                }
            }
            Err(Error::Io { .. }) if live.has_failed() => {}
            // Another file, or the swap.
            Err(Error::Io { .. }) if reach == Reach::Pool && live.pool.failed.load(SeqCst) => {}
            Err(e) => fail(&format!("sync of {reach:?}, {:?} region: {e}", live.kind)),
        }
    }

    fn break_page(&self, live: &Live, seed: u32) {
        let (Some(storage), Some(first)) = (&live.storage, self.own_block(live, seed)) else {
            return;
        };
        let pages = first + BLOCK - 2..first + BLOCK;
        let page = pages.start;
        let region = live.region();
        live.pool.failed.store(true, SeqCst);
        storage.set_broken(&[page], true);
        live.store(page, |s| live.truth.store_full(page, s));
        for round in 0..3 {
            match region.sync(bytes(&pages)) {
                Ok(()) => fail(&format!(
                    "page {page} cannot be written, and sync of its range says OK (try {round})"
                )),
                Err(Error::Io { .. }) => {}
                Err(e) => fail(&format!("sync of a range that cannot be written: {e}")),
            }
            self.touch(live, seed ^ round, 16, 30, true);
        }
        storage.set_broken(&[page], false);
        let (mut quiet, mut last) = (0, None);
        loop {
            let before = self.before(live, pages.clone());
            match region.sync(bytes(&pages)) {
                Ok(()) => {
                    return live.check_file(&before, self.t, "after it could be written again")
                }
                Err(Error::Io { .. }) => {}
                Err(e) => fail(&format!("sync: {e}")),
            }
            // Others may have broken theirs meanwhile, of which this one may be told.
            let faults = storage.faults();
            quiet = if faults.0 == 0 && last == Some(faults) {
                quiet + 1
            } else {
                0
            };
            last = Some(faults);
            if quiet > 3 {
                fail("all pages can be written again, and sync goes on saying that they cannot");
            }
        }
    }

    // ------------------------------------------------------------ behind its back

    fn mprotect(&self, live: &Live, seed: u32, none: bool) {
        let Some(first) = self.own_block(live, seed) else {
            return;
        };
        let pages = first + BLOCK - 2..first + BLOCK;
        let at = live.region().as_ptr() as usize + pages.start * PAGE_SIZE;
        let protect = |prot| {
            // SAFETY: pages that only this thread uses; not while they may not be.
            let done = unsafe { libc::mprotect(at as *mut libc::c_void, 2 * PAGE_SIZE, prot) };
            assert_eq!(done, 0, "mprotect: {}", std::io::Error::last_os_error());
        };
        protect(if none {
            libc::PROT_NONE
        } else {
            libc::PROT_READ
        });
        if !none {
            pages.clone().for_each(|p| live.check(p, self.t));
        }
        let r = &mut Random::new(u64::from(seed));
        for _ in 0..64 {
            let page = r.below(live.truth.pages() as u64) as usize;
            if !pages.contains(&page) {
                self.access(live, page, r, 30, true);
            }
        }
        protect(match live.writable() {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        });
        for p in pages {
            live.check(p, self.t);
            if live.writable() {
                live.store(p, |s| live.truth.store_full(p, s));
            }
        }
    }
}

fn bytes(pages: &Range<usize>) -> Range<usize> {
    pages.start * PAGE_SIZE..pages.end * PAGE_SIZE
}

fn pipe() -> (File, File) {
    let (a, b) = rustix::pipe::pipe().expect("a pipe");
    (File::from(a), File::from(b))
}
