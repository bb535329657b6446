//! The program whose system calls fail: it uses all that the pager has, and knows what must be where.
//!
//! What it knows of its file lies in a second file, which it has mapped before the first call can fail: so it is there
//! however the program ends.

use crate::common::*;
use coldset_pager::{Advice, Error, FlushConfig, Limits, Pool, PoolConfig, Region, SwapConfig};
use std::io::BufRead;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Pages of the file that is written, and of the one that is only read.
pub const PAGES: usize = 700;
/// Words of a page that are used: the first and the last.
const WORDS: usize = 2;
/// Pages of anonymous memory.
const MEMORY: usize = 1200;
const BUDGET: u64 = 2 * MIB;
/// Threads that load and store: each has pages of its own.
const THREADS: usize = 2;
const ROUNDS: usize = 1000;

/// How a program ends that has been refused something it cannot do without.
pub const REFUSED: i32 = 3;
/// How one ends that has found a wrong byte.
pub const WRONG: i32 = 70;

/// What a word of the read-only file holds.
pub fn constant(word: usize) -> u64 {
    word as u64 * 0x9E37_79B9 + 1
}

/// What is known of the words of the file: what was stored last, and what a sync has acknowledged.
pub struct Truth {
    words: &'static [[AtomicU64; 2]],
}

impl Truth {
    pub const BYTES: usize = PAGES * WORDS * 16;

    /// From a file of that length.
    pub fn map(path: &Path) -> Self {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, shared) = (file.as_raw_fd(), libc::MAP_SHARED);
        // SAFETY: a new mapping, never unmapped, of a file that is as long and only used by atomics.
        let words = unsafe {
            let p = libc::mmap(std::ptr::null_mut(), Self::BYTES, prot, shared, fd, 0);
            assert_ne!(p, libc::MAP_FAILED);
            std::slice::from_raw_parts(p.cast(), PAGES * WORDS)
        };
        Self { words }
    }

    fn stored(&self, word: usize) -> &AtomicU64 {
        &self.words[word][0]
    }

    /// Words of the file, as read past the pager, that are neither what was acknowledged nor anything stored later.
    pub fn lost(&self, bytes: &[u8]) -> Vec<String> {
        let mut lost = Vec::new();
        for (w, [stored, acknowledged]) in self.words.iter().enumerate() {
            let found = u64::from_ne_bytes(bytes[offset(w)..][..8].try_into().unwrap());
            let (least, most) = (acknowledged.load(SeqCst), stored.load(SeqCst));
            if !(least..=most).contains(&found) {
                lost.push(format!("word {w}: {found}, not {least} to {most}"));
            }
        }
        lost
    }
}

/// Where a word lies in its region.
pub fn offset(word: usize) -> usize {
    let last = (word % WORDS) * (PAGE - 8);
    word / WORDS * PAGE + last
}

fn word(r: &Region, word: usize) -> &AtomicU64 {
    // SAFETY: in the region, which is borrowed; all access to it is atomic.
    unsafe { &*(r.as_ptr().add(offset(word)) as *const AtomicU64) }
}

/// A refusal of what the program can do without: it is told, and goes on.
fn told<T>(what: &str, done: Result<T, Error>) -> Option<T> {
    done.map_err(|e| println!("error: {what}: {e}")).ok()
}

/// The same of what it cannot.
fn needed<T>(what: &str, done: Result<T, Error>) -> T {
    told(what, done).unwrap_or_else(|| std::process::exit(REFUSED))
}

fn check(what: &str, at: usize, found: u64, want: u64) {
    if found != want {
        println!("wrong: word {at} of {what} is {found}, not {want}");
        std::process::exit(WRONG);
    }
}

/// The program, in a folder with its files.
pub fn run(dir: &Path) {
    let truth = Truth::map(&dir.join("truth"));
    let (go, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..THREADS)
            .map(|t| {
                let (go, truth) = (&go, &truth);
                s.spawn(move || {
                    while go.load(SeqCst) == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    // SAFETY: of a value that lives until the workers have ended.
                    let regions = unsafe { &*(go.load(SeqCst) as *const [Region; 3]) };
                    work(t, regions, truth);
                })
            })
            .collect();
        println!("ready");
        // However it ends: this call may be one that fails.
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        let swap = SwapConfig::lz4(MIB).and_temporary(8 * MIB);
        let flush = FlushConfig {
            interval: Duration::from_millis(20),
            expire: Duration::from_millis(40),
            ..FlushConfig::default()
        };
        let config = PoolConfig::new(BUDGET).swap(swap).flush(flush);
        let config = config
            .background(true)
            .full_wait(Duration::from_millis(100));
        let pool = needed("the pool", Pool::new(config));
        let group = needed("a group", pool.group("files", Limits::new().max(BUDGET)));
        let regions = [
            needed("memory", pool.anonymous(MEMORY * PAGE)),
            needed("the file", group.file(dir.join("data"))),
            needed(
                "the read-only file",
                group.file_read_only(dir.join("constant")),
            ),
        ];
        go.store(&raw const regions as usize, SeqCst);
        s.spawn(|| {
            for worker in workers {
                worker.join().unwrap();
            }
            over.store(true, SeqCst);
        });
        meddle(&pool, &regions, &truth, dir, &over);
        // What failed may not fail again.
        for _ in 0..3 {
            let stored = stored(&truth);
            if told("the last sync", regions[1].sync(0..PAGES * PAGE)).is_some() {
                acknowledge(&truth, &stored);
                break;
            }
        }
        let [memory, file, constant] = regions;
        for (what, region) in [
            ("memory", memory),
            ("the file", file),
            ("constants", constant),
        ] {
            told(what, region.close());
        }
        let s = pool.stats();
        let left = (s.resident_pages, s.swap_slots.0, s.store_bytes);
        if left != (0, 0, 0) {
            println!("wrong: left in the books: {left:?}");
            std::process::exit(WRONG);
        }
        told("the pool's sync", pool.sync());
    });
    println!("done");
}

fn stored(truth: &Truth) -> Vec<u64> {
    (0..PAGES * WORDS)
        .map(|w| truth.stored(w).load(SeqCst))
        .collect()
}

fn acknowledge(truth: &Truth, stored: &[u64]) {
    for (w, v) in stored.iter().enumerate() {
        truth.words[w][1].store(*v, SeqCst);
    }
}

/// What a thread does: loads, stores, and the comparison of all that it has stored in the end.
fn work(t: usize, [memory, file, constants]: &[Region; 3], truth: &Truth) {
    let mut r = Random::new(t as u64 + 7);
    let mut held = vec![0u64; MEMORY * WORDS];
    let mut own = |n: usize| (r.skewed((n * WORDS / THREADS) as u64) as usize) * THREADS + t;
    for round in 1..=ROUNDS {
        let w = own(MEMORY);
        check("memory", w, word(memory, w).load(SeqCst), held[w]);
        if round % 3 > 0 {
            held[w] = round as u64;
            word(memory, w).store(held[w], SeqCst);
        }
        let w = own(PAGES);
        let last = truth.stored(w).load(SeqCst);
        check("the file", w, word(file, w).load(SeqCst), last);
        if round % 5 == 0 {
            // First: it may be in the file as soon as it is stored.
            truth.stored(w).store(round as u64, SeqCst);
            word(file, w).store(round as u64, SeqCst);
        }
        let w = own(PAGES);
        check("constants", w, word(constants, w).load(SeqCst), constant(w));
    }
    for w in (t..MEMORY * WORDS).step_by(THREADS) {
        check("memory", w, word(memory, w).load(SeqCst), held[w]);
    }
    for w in (t..PAGES * WORDS).step_by(THREADS) {
        let last = truth.stored(w).load(SeqCst);
        check("the file", w, word(file, w).load(SeqCst), last);
    }
}

/// All else that a program may do, until its threads are done.
fn meddle(pool: &Pool, regions: &[Region; 3], truth: &Truth, dir: &Path, over: &AtomicBool) {
    let mut r = Random::new(99);
    let [memory, file, constants] = regions;
    for i in 0.. {
        if over.load(SeqCst) {
            break;
        }
        let first = r.below(PAGES as u64 - 40) as usize;
        let some = first * PAGE..(first + 40) * PAGE;
        match i % 11 {
            0 | 6 => {
                let stored = stored(truth);
                if told("sync", file.sync(0..PAGES * PAGE)).is_some() {
                    acknowledge(truth, &stored);
                }
            }
            1 => drop(told("reclaim", pool.root().reclaim(MIB / 2))),
            2 => drop(told("resize", pool.resize(BUDGET / 4 * 3))),
            3 => drop(told("advice", memory.advise(some, Advice::WillNeed))),
            4 => drop(told("advice", constants.advise(some, Advice::DontNeed))),
            5 => drop(told("advice", file.advise(some, Advice::DontNeed))),
            7 => drop(told("pin", constants.pin(some, false))),
            8 => drop(told("resize", pool.resize(BUDGET))),
            9 => {
                if told("journal", pool.record(dir.join("journal"))).is_some() {
                    told("journal", pool.stop_recording());
                }
            }
            _ => {
                if let Some(small) = told("a region", pool.anonymous(64 * PAGE)) {
                    (0..64).for_each(|p| word(&small, p * WORDS).store(5, SeqCst));
                    told("a region", small.close());
                }
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
