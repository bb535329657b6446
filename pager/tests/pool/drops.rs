//! Memory that is dropped while others reclaim: regions made and dropped, ranges thrown away, pools closed.
//! Nothing hangs, nothing aborts, and no page of anybody else is lost, with every policy and fault mode.

#![allow(unsafe_code, reason = "threads share a region")]

use crate::common::*;
use coldset_pager::{Advice, FaultMode, FlushConfig, Pool, PoolConfig, Region, SwapConfig};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

const POLICIES: [&str; 3] = ["v5", "classic", "s3fifo"];
const MODES: [FaultMode; 3] = [FaultMode::Sigbus, FaultMode::Thread, FaultMode::Explicit];

fn pool(mode: FaultMode, policy: &str) -> Option<Pool> {
    let config = PoolConfig::new(2 * MIB)
        .swap(SwapConfig::lz4(64 * MIB))
        .store_outside_budget()
        .fault_mode(mode)
        .policy(policy)
        .unwrap()
        .flush(FlushConfig {
            interval: Duration::from_millis(5),
            expire: Duration::from_millis(5),
            ..FlushConfig::default()
        });
    faulting(config)
}

/// Stores `v` in a word of a page; what was there.
fn swap(r: &Region, page: usize, v: u64) -> u64 {
    if r.is_explicit() {
        // One thread a page: nobody else has it.
        let mut g = r.fix_mut(page).unwrap();
        let old = u64::from_le_bytes(g[64..72].try_into().unwrap());
        g[64..72].copy_from_slice(&v.to_le_bytes());
        return old;
    }
    // SAFETY: inside the region, aligned, used by one thread.
    unsafe {
        let p = r.as_ptr().add(page * PAGE + 64).cast::<u64>();
        p.replace(v)
    }
}

/// A file of zeroes; gone when dropped.
struct Zeroes(PathBuf);

impl Zeroes {
    fn new(pages: usize) -> Self {
        let path = temp("drops");
        let f = std::fs::File::create(&path).unwrap();
        f.set_len((pages * PAGE) as u64).unwrap();
        Self(path)
    }
}

impl Drop for Zeroes {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

/// Versions of pages that only this thread uses.
fn keep(r: &Region, pages: std::ops::Range<usize>, seed: u64, stop: &AtomicBool) -> u64 {
    let mut random = Random::new(seed);
    let mut versions = vec![0; pages.len()];
    let mut rounds = 0;
    while !stop.load(Relaxed) {
        let i = random.below(pages.len() as u64) as usize;
        let old = swap(r, pages.start + i, versions[i] + 1);
        assert_eq!(old, versions[i], "page {}", pages.start + i);
        versions[i] += 1;
        rounds += 1;
    }
    rounds
}

/// Regions of all kinds, used and dropped.
fn drop_regions(pool: &Pool, file: &Zeroes, seed: u64, stop: &AtomicBool) -> u64 {
    let mut random = Random::new(seed);
    let mut made = 0;
    while !stop.load(Relaxed) {
        let pages = 1 + random.below(96) as usize;
        let r = match random.below(3) {
            0 => pool.file_read_only(&file.0).unwrap(),
            _ => pool.anonymous(pages * PAGE).unwrap(),
        };
        if !r.is_read_only() {
            for p in 0..pages {
                assert_eq!(swap(&r, p, made + 1), 0, "a page of somebody else");
            }
            for p in 0..pages {
                assert_eq!(swap(&r, p, 7), made + 1);
            }
        }
        made += 1;
    }
    made
}

/// Ranges of a region thrown away, whoever is about to evict them.
fn discard(r: &Region, pages: std::ops::Range<usize>, seed: u64, stop: &AtomicBool) -> u64 {
    let mut random = Random::new(seed);
    let mut done = 0;
    while !stop.load(Relaxed) {
        let n = 1 + random.below(32) as usize;
        let first = pages.start + random.below((pages.len() - n) as u64) as usize;
        for p in first..first + n {
            swap(r, p, done + 1);
        }
        r.advise(first * PAGE..(first + n) * PAGE, Advice::DontNeed)
            .unwrap();
        for p in first..first + n {
            assert_eq!(swap(r, p, 0), 0, "page {p} was thrown away");
        }
        done += 1;
    }
    done
}

#[test]
fn memory_dropped_beside_reclaim() {
    let _alone = alone();
    let time = soak(0.6);
    for mode in MODES {
        for policy in POLICIES {
            let Some(p) = pool(mode, policy) else { break };
            let file = Zeroes::new(64);
            let big = p.anonymous(8 * MIB as usize).unwrap();
            let group = p.root();
            let stop = AtomicBool::new(false);
            let (kept, made, discarded) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|s| {
                let (big, stop, p, file) = (&big, &stop, &p, &file);
                let (kept, made, discarded) = (&kept, &made, &discarded);
                for i in 0..2 {
                    let mine = i * 512..(i + 1) * 512;
                    s.spawn(move || kept.fetch_add(keep(big, mine, i as u64, stop), Relaxed));
                    s.spawn(move || made.fetch_add(drop_regions(p, file, i as u64, stop), Relaxed));
                    let mine = 1024 + i * 512..1024 + (i + 1) * 512;
                    s.spawn(move || discarded.fetch_add(discard(big, mine, 9, stop), Relaxed));
                }
                s.spawn(move || {
                    while !stop.load(Relaxed) {
                        group.reclaim(64 * PAGE as u64).unwrap();
                        std::thread::yield_now();
                    }
                });
                std::thread::sleep(time);
                stop.store(true, Relaxed);
            });
            let n = |a: &AtomicU64| a.load(Relaxed);
            println!(
                "{mode:?} {policy}: {} stores kept, {} regions dropped, {} ranges discarded, {} evictions",
                n(&kept),
                n(&made),
                n(&discarded),
                p.stats().evicted
            );
            assert!(n(&made) > 0 && n(&discarded) > 0 && p.stats().evicted > 0);
        }
    }
}

/// The last handle goes while its threads are at work.
#[test]
fn nothing_is_charged_once_its_region_is_gone() {
    let _alone = alone();
    for mode in MODES {
        for policy in POLICIES {
            let Some(p) = pool(mode, policy) else { break };
            // Few enough to be still in the batch of pages that wait for the lists.
            let charged = || p.stats().engine("anon_pages").unwrap();
            let r = p.anonymous(16 * PAGE).unwrap();
            for page in 0..3 {
                swap(&r, page, 1);
            }
            assert!(charged() > 0, "{mode:?}, {policy}");
            drop(r);
            assert_eq!(charged(), 0, "{mode:?}, {policy}");
        }
    }
}

#[test]
fn pools_closed_at_work() {
    let _alone = alone();
    for mode in MODES {
        for policy in POLICIES {
            for round in 0..4u64 {
                let Some(p) = pool(mode, policy) else { break };
                let file = Zeroes::new(700);
                let a = p.anonymous(3 * MIB as usize).unwrap();
                let f = p.file(&file.0).unwrap();
                for page in 0..700 {
                    swap(&a, page, round + 1);
                    swap(&f, page, round + 2);
                }
                drop(p);
                drop(a);
                f.close().unwrap();
                let bytes = std::fs::read(&file.0).unwrap();
                for page in bytes.chunks(PAGE) {
                    assert_eq!(page[64..72], (round + 2).to_le_bytes());
                }
            }
        }
    }
}

/// A pool with a region that a reader in order fills and throws away, round after round.
fn read_and_throw_away(p: &Pool, mode: FaultMode, mut goes_on: impl FnMut(u64) -> bool) {
    let r = p.anonymous(4 * MIB as usize).unwrap();
    let pages = r.len() / PAGE;
    for round in 0.. {
        if !goes_on(round) {
            return;
        }
        for page in 0..pages * 3 / 4 {
            swap(&r, page, round);
        }
        r.advise(0..r.len(), Advice::DontNeed).unwrap();
        // The thread is behind the reader: it has orders left.
        std::thread::sleep(Duration::from_millis(1));
        // Each of the two handler threads may hold the message of an access from before. One fills its page,
        // the other, if that one is a little further on, two.
        let late = if mode == FaultMode::Thread { 3 } else { 0 };
        let resident = r.resident(0..r.len()).unwrap();
        assert!(resident <= late, "{mode:?}, round {round}: {resident}");
    }
}

fn larger_pool(mode: FaultMode) -> Option<Pool> {
    let config = PoolConfig::new(8 * MIB)
        .fault_mode(mode)
        .swap(SwapConfig::lz4(64 * MIB));
    faulting(config.store_outside_budget())
}

/// What a reader in order has had read ahead does not come back after it was thrown away.
#[test]
fn read_ahead_ends_where_pages_are_thrown_away() {
    let _alone = alone();
    for mode in MODES {
        if let Some(p) = larger_pool(mode) {
            read_and_throw_away(&p, mode, |round| round < 100);
        }
    }
}

/// Nor where the thread that reads ahead has served a miss before its handler thread, which gets no CPU:
/// it comes with the message when the pages are gone.
#[test]
fn late_messages_bring_nothing_back() {
    let _alone = alone();
    let Some(p) = larger_pool(FaultMode::Thread) else {
        return;
    };
    // The threads start with the first region, and have their names a little later.
    let _first = p.anonymous(PAGE).unwrap();
    let patience = Instant::now() + Duration::from_secs(10);
    while run_when_idle("coldset-miss") < 2 {
        assert!(Instant::now() < patience, "no handler threads");
        std::thread::yield_now();
    }
    let end = Instant::now() + soak(5.0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            s.spawn(|| {
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // A failure stops the others, too.
        let _stop = StopAtEnd(&stop);
        read_and_throw_away(&p, FaultMode::Thread, |_| Instant::now() < end);
    });
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Gives threads of this name CPU time that nobody else wants. Returns how many.
fn run_when_idle(name: &str) -> usize {
    let mut found = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let comm = std::fs::read_to_string(task.path().join("comm"));
        if !comm.is_ok_and(|c| c.trim() == name) {
            continue;
        }
        let tid = task.file_name().to_str().unwrap().parse().unwrap();
        let none = libc::sched_param { sched_priority: 0 };
        // SAFETY: reads the parameter, and changes nothing but when the thread runs.
        let done = unsafe { libc::sched_setscheduler(tid, libc::SCHED_IDLE, &none) };
        found += usize::from(done == 0);
    }
    found
}
