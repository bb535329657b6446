//! Sequences of pages, and running them on memory.

use crate::rows::Pattern;
use coldset_pager::PAGE_SIZE;
use std::time::Instant;

/// One arm's work.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub pattern: Pattern,
    /// Pages of data, and of the budget.
    pub pages: usize,
    pub budget: usize,
    pub ops: usize,
    pub threads: usize,
    pub stores: u32,
}

/// A small generator; the same for every arm.
struct Draw(u64);

impl Draw {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// Zipf 0.99 by inversion of a table.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(n: usize) -> Self {
        let mut sum = 0.0;
        let weight = |k: usize| 1.0 / (k as f64).powf(0.99);
        Self(
            (1..=n)
                .map(|k| {
                    sum += weight(k);
                    sum
                })
                .collect(),
        )
    }

    fn rank(&self, d: &mut Draw) -> usize {
        let total = self.0[self.0.len() - 1];
        let u = (d.next() >> 11) as f64 / (1u64 << 53) as f64 * total;
        self.0.partition_point(|&c| c < u).min(self.0.len() - 1)
    }
}

/// Where a rank lies: a permutation of the pages, drawn from `seed`.
fn scattered(pages: usize, seed: u64) -> Vec<u32> {
    let mut at: Vec<u32> = (0..pages as u32).collect();
    let mut d = Draw::new(seed);
    for i in (1..pages).rev() {
        at.swap(i, d.below(i + 1));
    }
    at
}

impl Work {
    /// Pages that each thread uses, in order.
    pub fn sequences(&self) -> Vec<Vec<u32>> {
        let each = self.ops / self.threads;
        (0..self.threads)
            .map(|t| self.sequence(each, t as u64))
            .collect()
    }

    /// What runs before the clock does: the same kind of work, other draws, half as much.
    pub fn warm_up(&self) -> Vec<Vec<u32>> {
        let each = self.ops / self.threads / 2;
        (0..self.threads)
            .map(|t| self.sequence(each, t as u64 + 1000))
            .collect()
    }

    fn sequence(&self, ops: usize, thread: u64) -> Vec<u32> {
        let mut d = Draw::new(7 + thread);
        let hot = self.budget / 2;
        match self.pattern {
            Pattern::Uniform => (0..ops).map(|_| d.below(self.pages) as u32).collect(),
            Pattern::Scan | Pattern::CopiedScan | Pattern::ColdScan | Pattern::Sort => {
                (0..ops).map(|i| (i % self.pages) as u32).collect()
            }
            Pattern::Resident => (0..ops).map(|_| d.below(hot) as u32).collect(),
            Pattern::Cold | Pattern::Start => {
                let mut lies = scattered(self.pages, 1);
                lies.truncate(ops);
                lies
            }
            Pattern::Mixed if thread.is_multiple_of(2) => {
                let lies = scattered(self.pages, 1);
                (0..ops).map(|_| lies[d.below(hot)]).collect()
            }
            Pattern::Mixed => {
                let from = d.below(self.pages);
                (from..from + ops)
                    .map(|i| (i % self.pages) as u32)
                    .collect()
            }
            Pattern::Zipf => {
                let zipf = Zipf::new(self.pages);
                let lies = scattered(self.pages, 1);
                (0..ops).map(|_| lies[zipf.rank(&mut d)]).collect()
            }
            Pattern::Phases => {
                let lies = scattered(self.pages, 1);
                let set = (self.budget * 3 / 4).min(self.pages / 4);
                (0..ops)
                    .map(|i| lies[i * 4 / ops * set + d.below(set)])
                    .collect()
            }
            Pattern::HotAndScan => {
                let lies = scattered(self.pages, 1);
                // Not where the warm-up began: what that has read would be found again.
                let mut scan = d.below(self.pages);
                (0..ops)
                    .map(|i| {
                        if i % 2 == 0 {
                            return lies[d.below(hot)];
                        }
                        scan += 1;
                        (scan % self.pages) as u32
                    })
                    .collect()
            }
        }
    }

    /// Pages that occur at all.
    pub fn distinct(&self, sequences: &[Vec<u32>]) -> u64 {
        let mut seen = vec![false; self.pages];
        let all = sequences.iter().flatten();
        all.filter(|&&p| !std::mem::replace(&mut seen[p as usize], true))
            .count() as u64
    }

    /// Runs the sequences on memory. Returns wall seconds, and nanoseconds of each operation.
    pub fn run(&self, base: usize, sequences: &[Vec<u32>]) -> (f64, Vec<u32>) {
        // Reading the clock costs as much as an operation that hits.
        let timed = self.pattern != Pattern::Resident;
        let start = Instant::now();
        let mut all = Vec::new();
        std::thread::scope(|s| {
            let threads: Vec<_> = sequences
                .iter()
                .map(|seq| s.spawn(move || one_thread(base, seq, self.stores, timed)))
                .collect();
            for t in threads {
                all.extend(t.join().expect("a thread of the benchmark"));
            }
        });
        (start.elapsed().as_secs_f64(), all)
    }
}

fn one_thread(base: usize, seq: &[u32], stores: u32, timed: bool) -> Vec<u32> {
    let mut took = Vec::with_capacity(if timed { seq.len() } else { 0 });
    let mut sum = 0u64;
    for (i, &page) in seq.iter().enumerate() {
        let at = base + page as usize * PAGE_SIZE + i * 64 % PAGE_SIZE;
        let start = timed.then(Instant::now);
        for word in 0..8 {
            // SAFETY: inside the mapping, which outlives the threads; threads of this benchmark race
            // with each other only, and none cares for the value.
            sum = sum.wrapping_add(unsafe { (at as *const u64).add(word).read_volatile() });
        }
        if (i as u32).wrapping_mul(37) % 100 < stores {
            // SAFETY: as above; rows with stores have writable mappings.
            unsafe { (at as *mut u64).write_volatile(sum) };
        }
        if let Some(start) = start {
            took.push(start.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
        }
    }
    std::hint::black_box(sum);
    took
}

/// Uses one word of every page, in order.
pub fn sweep(base: usize, pages: usize) {
    let mut sum = 0u64;
    for page in 0..pages {
        // SAFETY: inside the mapping that the caller has at `base`; nobody stores to it yet.
        sum =
            sum.wrapping_add(unsafe { ((base + page * PAGE_SIZE) as *const u64).read_volatile() });
    }
    std::hint::black_box(sum);
}

/// Words of noise between words that repeat: of one in two, LZ4 makes two thirds to three quarters.
pub fn fill(block: &mut [u8], seed: u64) {
    fill_one_in(block, seed, 2);
}

/// One word in `n` is noise.
pub fn fill_one_in(block: &mut [u8], seed: u64, n: usize) {
    let mut d = Draw::new(seed);
    for (i, w) in block.chunks_exact_mut(8).enumerate() {
        let noise = d.next();
        let v = if i.is_multiple_of(n) {
            noise
        } else {
            i as u64 / 16
        };
        w.copy_from_slice(&v.to_le_bytes());
    }
}
