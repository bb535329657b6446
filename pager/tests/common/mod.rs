//! What the tests share: patterns, the stress program, an independent look at memory.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(unsafe_code, reason = "threads share words of a region")]

use coldset_pager::{Pool, Region};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub const PAGE: usize = 4096;
pub const MIB: u64 = 1 << 20;

/// Tests of one program measure memory of the whole process: one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Seconds a stress test runs: `COLDSET_STRESS_SECONDS`, else `default`.
pub fn seconds(default: f64) -> Duration {
    let s = std::env::var("COLDSET_STRESS_SECONDS").ok();
    let s = s.map_or(default, |s| {
        s.parse().expect("COLDSET_STRESS_SECONDS is a number")
    });
    Duration::from_secs_f64(s)
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
    while !stop.load(Relaxed) {
        let store: u64 = pools.iter().map(|p| p.stats().store_pages).sum();
        peak = peak.max(pages_in_memory() + store);
        std::thread::sleep(Duration::from_millis(10));
    }
    peak
}

/// Where a thread's counter lies in a page: scattered, so that pages are not of one word.
fn at(page: usize, thread: usize) -> usize {
    (page * 40 + thread * 8 + page / 7 * 512) % (PAGE / 8 / 8 * 8) & !7
}

/// Address of a counter.
fn slot(base: *mut u8, page: usize, thread: usize) -> *const AtomicU64 {
    // 8 threads at most have distinct words: `at` of page + thread * 8 bytes.
    let offset = (at(page, 0) + thread * 8) % PAGE;
    base.wrapping_add(page * PAGE + offset) as *const AtomicU64
}

/// What a stress run came to.
#[derive(Debug, Default)]
pub struct Stressed {
    pub operations: u64,
    pub stores: u64,
    /// First wrong value: (page, thread, expected, found).
    pub lost: Option<(usize, usize, u64, u64)>,
}

/// `threads` threads count in words of their own on pages of the region, and compare with what they
/// remember at every access. Stops early if a value is wrong.
pub fn stress(region: &Region, threads: usize, time: Duration, stores_percent: u64) -> Stressed {
    assert!(threads <= 8);
    let pages = region.len() / PAGE;
    let base = region.as_ptr() as usize;
    let wrong = AtomicBool::new(false);
    let end = Instant::now() + time;
    let results: Vec<Stressed> = std::thread::scope(|s| {
        let wrong = &wrong;
        let handles: Vec<_> = (0..threads)
            .map(|t| {
                s.spawn(move || {
                    let base = base as *mut u8;
                    let mut expected = vec![0u64; pages];
                    let mut r = Random::new(t as u64 + 1);
                    let mut out = Stressed::default();
                    let check = |p: usize, want: u64, out: &mut Stressed| {
                        // SAFETY: the word lies in the region, which outlives the scope; all access
                        // to it is atomic.
                        let word = unsafe { &*slot(base, p, t) };
                        let found = word.load(Relaxed);
                        if found != want {
                            out.lost.get_or_insert((p, t, want, found));
                            wrong.store(true, Relaxed);
                        }
                        word
                    };
                    while !wrong.load(Relaxed) && Instant::now() < end {
                        for _ in 0..256 {
                            let p = match r.below(16) {
                                0 => r.below(pages as u64),
                                _ => r.skewed(pages as u64),
                            } as usize;
                            let word = check(p, expected[p], &mut out);
                            out.operations += 1;
                            if r.below(100) < stores_percent {
                                expected[p] += 1 + r.below(1 << 30);
                                word.store(expected[p], Relaxed);
                                out.stores += 1;
                            }
                        }
                    }
                    for (p, &want) in expected.iter().enumerate() {
                        if !wrong.load(Relaxed) {
                            check(p, want, &mut out);
                        }
                    }
                    out
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let mut all = Stressed::default();
    for r in results {
        all.operations += r.operations;
        all.stores += r.stores;
        all.lost = all.lost.or(r.lost);
    }
    all
}
