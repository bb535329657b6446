//! What the tests share: patterns, the stress program, an independent look at memory.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(unsafe_code, reason = "threads share words of a region")]

pub mod cgroup;
pub mod child;

use coldset_pager::{Error, Feature, Group, Limits, Pool, PoolConfig, Region};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

pub const PAGE: usize = 4096;
pub const MIB: u64 = 1 << 20;

/// The documented bound: a chunk of compressed memory for each thread that evicts at the same time;
/// no test has more than eight.
pub const STORE_SLACK: u64 = 8 * 16;

/// Whose turn it is in this process.
static TURNS: RwLock<()> = RwLock::new(());

/// Tests of one program measure memory of the whole process: one at a time.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.write().unwrap_or_else(|e| e.into_inner())
}

/// For a test that measures nothing of the process and would spoil it for one that does: beside others of its kind.
pub fn together() -> RwLockReadGuard<'static, ()> {
    TURNS.read().unwrap_or_else(|e| e.into_inner())
}

/// How long a stress test runs: `COLDSET_SOAK_SECONDS`, else `default` seconds.
pub fn soak(default: f64) -> Duration {
    let s = std::env::var("COLDSET_SOAK_SECONDS").ok();
    let s = s.map_or(default, |s| {
        s.parse().expect("COLDSET_SOAK_SECONDS is a number")
    });
    Duration::from_secs_f64(s)
}

/// A pool whose misses fault; none, with a message, where the kernel or a container forbids it.
pub fn faulting(config: PoolConfig) -> Option<Pool> {
    match Pool::new(config) {
        Ok(p) => Some(p),
        Err(Error::Missing(m)) => {
            println!("skipped, explicit mode is tested instead: {m}");
            assert_ne!(
                m.feature,
                Feature::PageSize,
                "the tests need pages of 4 KiB"
            );
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A file name of this test's own.
pub fn temp(what: &str) -> PathBuf {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("coldset-{what}-{}-{n}", std::process::id()))
}

/// A small generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Skewed: small numbers more often.
    pub fn skewed(&mut self, n: u64) -> u64 {
        let a = self.below(n) as u128;
        let b = self.below(n) as u128;
        (a * b / u128::from(n)) as u64
    }
}

/// Pages that files in memory of the pager hold, as the kernel counts them.
pub fn pages_in_memory() -> u64 {
    let mut pages = 0;
    for e in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let name = std::fs::read_link(e.path()).unwrap_or_default();
        if name.to_string_lossy().starts_with("/memfd:coldset") {
            pages += std::fs::metadata(e.path()).map_or(0, |m| m.blocks() * 512 / PAGE as u64);
        }
    }
    pages
}

/// Samples memory every 10 ms until `stop`; the highest sum of pages and store.
pub fn watch(pools: &[&Pool], stop: &AtomicBool) -> u64 {
    let mut peak = 0;
    let look = || {
        let stats = pools.iter().map(|p| p.stats());
        stats.fold((0, 0), |(store, evicted), s| {
            (store + s.store_pages, evicted + s.evicted)
        })
    };
    while !stop.load(Relaxed) {
        // Pages that have become contents of the store between two looks would count twice. The smaller store of the
        // two is not enough: it may have shrunk and grown again, if this thread had to wait meanwhile.
        let (before, evicted) = look();
        let pages = pages_in_memory();
        let (after, evicted_then) = look();
        let sum = pages + before.min(after);
        peak = peak.max(sum.saturating_sub(evicted_then - evicted));
        std::thread::sleep(Duration::from_millis(10));
    }
    peak
}

/// Anonymous pages of the whole process, as the kernel counts them.
pub fn anonymous_pages() -> u64 {
    pages_of("RssAnon:")
}

/// Pages of the tables that map its memory.
pub fn page_tables() -> u64 {
    pages_of("VmPTE:")
}

fn pages_of(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix(name));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() / 4
}

/// As [`watch`], in explicit mode, where pages are private memory of the process: the highest count of
/// the pool's, and of the kernel's beyond what there was before. The latter has everything in it that
/// the test itself allocates.
pub fn watch_explicit(pool: &Pool, stop: &AtomicBool) -> (u64, u64) {
    let before = anonymous_pages();
    let (mut counted, mut grown) = (0, 0);
    while !stop.load(Relaxed) {
        let s = pool.stats();
        counted = counted.max(s.resident_pages + s.store_pages);
        grown = grown.max(anonymous_pages().saturating_sub(before));
        std::thread::sleep(Duration::from_millis(10));
    }
    (counted, grown)
}

/// Stress by guards, and a watcher beside it, with the bound checked.
pub fn stress_explicit(
    pool: &Pool,
    region: &Region,
    time: Duration,
    stores_percent: u64,
) -> Stressed {
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let watcher = s.spawn(|| watch_explicit(pool, &stop));
        let stressed = stress(region, Access::Guards, 3, time, stores_percent);
        stop.store(true, Relaxed);
        let (counted, grown) = watcher.join().unwrap();
        let bound = pool.budget() / PAGE as u64 + STORE_SLACK;
        assert!(counted <= bound, "{counted} pages of {bound}");
        // Stacks, buffers of those who miss and evict, and what the threads remember.
        let own = 4 * MIB / PAGE as u64;
        assert!(grown <= bound + own, "{grown} pages of {bound} and {own}");
        stressed
    })
}

/// Somebody who reclaims and changes limits until `stop`, and does `more` now and then.
pub fn meddle(group: &Group, budget: u64, stop: &AtomicBool, more: &dyn Fn(u64)) {
    let mut r = Random::new(99);
    while !stop.load(Relaxed) {
        match r.below(6) {
            0 => drop(group.reclaim(64 * PAGE as u64).unwrap()),
            1 => group.set(Limits::new().max(budget / 2)).unwrap(),
            2 => group.set(Limits::new().max(budget)).unwrap(),
            3 => group
                .set(Limits::new().low(budget / 4).min(budget / 8))
                .unwrap(),
            4 => group.set(Limits::new().low(0).min(0)).unwrap(),
            _ => more(r.next()),
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Where the counter of a thread lies in a page: scattered, so that pages differ. Threads are less
/// than eight.
pub fn at(page: usize, thread: usize) -> usize {
    (page * 448) % (PAGE - 64) / 64 * 64 + thread * 8
}

/// How a stress test gets at the words of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Through the mapping.
    Faulting,
    /// With guards. Errors of the store are the caller's to see.
    Guards,
}

/// Loads a word and, if asked, stores another; what it held.
fn access(
    r: &Region,
    how: Access,
    page: usize,
    offset: usize,
    new: impl FnOnce(u64) -> Option<u64>,
) -> Result<u64, Error> {
    match how {
        Access::Faulting => {
            // SAFETY: the word lies in the region, which is borrowed; all access to it is atomic.
            let word = unsafe { &*(r.as_ptr().add(page * PAGE + offset) as *const AtomicU64) };
            let found = word.load(Relaxed);
            if let Some(v) = new(found) {
                word.store(v, Relaxed);
            }
            Ok(found)
        }
        Access::Guards => {
            let read = |page: &[u8]| u64::from_ne_bytes(page[offset..][..8].try_into().unwrap());
            let found = read(&r.fix(page)?);
            if let Some(v) = new(found) {
                let mut guard = r.fix_mut(page)?;
                assert_eq!(read(&guard), found, "nobody else writes this word");
                guard[offset..][..8].copy_from_slice(&v.to_ne_bytes());
            }
            Ok(found)
        }
    }
}

/// What a stress run came to.
#[derive(Debug, Default)]
pub struct Stressed {
    pub operations: u64,
    pub stores: u64,
    /// Accesses that failed with an error (guards only).
    pub errors: u64,
    /// First wrong value: (page, thread, expected, found).
    pub lost: Option<(usize, usize, u64, u64)>,
    /// How long the slowest thread has looked at all of its words in the end.
    pub looked: Duration,
    /// What each thread has left in each page.
    pub finals: Vec<Vec<u64>>,
}

/// `threads` threads count in words of their own on pages of the region, and compare with what they
/// remember at every access. Stops early if a value is wrong. All pages must be zero before.
pub fn stress(
    region: &Region,
    how: Access,
    threads: usize,
    time: Duration,
    stores_percent: u64,
) -> Stressed {
    assert!(threads < 8);
    let wrong = AtomicBool::new(false);
    let end = Instant::now() + time;
    let results: Vec<Stressed> = std::thread::scope(|s| {
        let wrong = &wrong;
        let handles: Vec<_> = (0..threads)
            .map(|t| s.spawn(move || stress_one(region, how, t, end, stores_percent, wrong)))
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let mut all = Stressed::default();
    for r in results {
        all.operations += r.operations;
        all.stores += r.stores;
        all.errors += r.errors;
        all.lost = all.lost.or(r.lost);
        all.looked = all.looked.max(r.looked);
        all.finals.extend(r.finals);
    }
    all
}

fn stress_one(
    region: &Region,
    how: Access,
    t: usize,
    end: Instant,
    stores_percent: u64,
    wrong: &AtomicBool,
) -> Stressed {
    let pages = region.len() / PAGE;
    let mut expected = vec![0u64; pages];
    let mut r = Random::new(t as u64 + 1);
    let mut out = Stressed::default();
    while !wrong.load(Relaxed) && Instant::now() < end {
        for _ in 0..64 {
            let p = match r.below(16) {
                0 => r.below(pages as u64),
                _ => r.skewed(pages as u64),
            } as usize;
            let new = expected[p] + 1 + r.below(1 << 30);
            let store = r.below(100) < stores_percent;
            let done = access(region, how, p, at(p, t), |found| {
                if found != expected[p] {
                    out.lost.get_or_insert((p, t, expected[p], found));
                    wrong.store(true, Relaxed);
                    return None;
                }
                store.then(|| {
                    expected[p] = new;
                    out.stores += 1;
                    new
                })
            });
            out.operations += 1;
            out.errors += u64::from(done.is_err());
        }
    }
    let start = Instant::now();
    for (p, &want) in expected.iter().enumerate() {
        // A store that fails on demand does not fail for ever.
        while !wrong.load(Relaxed) {
            match access(region, how, p, at(p, t), |_| None) {
                Ok(found) if found == want => break,
                Ok(found) => {
                    out.lost.get_or_insert((p, t, want, found));
                    wrong.store(true, Relaxed);
                }
                Err(_) => out.errors += 1,
            }
        }
    }
    out.looked = start.elapsed();
    out.finals.push(expected);
    out
}

/// Compares a file, read past the pager, with what a stress run has left in it.
pub fn compare_file(path: &std::path::Path, s: &Stressed) {
    let bytes = std::fs::read(path).unwrap();
    for (t, pages) in s.finals.iter().enumerate() {
        for (p, &want) in pages.iter().enumerate() {
            let found = &bytes[p * PAGE + at(p, t)..][..8];
            assert_eq!(
                u64::from_ne_bytes(found.try_into().unwrap()),
                want,
                "page {p} of thread {t} in the file"
            );
        }
    }
}
