//! Compressed memory before a file: what comes from each, and what goes to it. `scripts/zswap-on-kernels` does the same work on
//! kernels with zswap.
//!
//! `cargo run --release -p coldset-pager --example before_file [-- SWAP OPERATIONS WORK,STORES...]`
//!
//! A work is `phase` (twice the budget is written and forgotten, then three quarters of it are used), `phase-150` (then one and
//! a half times), `zipf`, `uniform` or `loop` (of three times the budget); STORES is how many percent of the operations store.

use coldset_pager::{Pool, PoolConfig, Region, Stats, SwapConfig, PAGE_SIZE};
use std::process::ExitCode;

type Failure = Box<dyn std::error::Error>;

const BUDGET: usize = 64 << 20;

/// Random numbers of 53 bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Words of a small vocabulary: LZ4 makes it less than half.
fn fill(region: &mut Region, first: u64) {
    let words = [
        "page ", "folio ", "reclaim ", "memory ", "budget ", "cold ", "set ", "the ",
    ];
    for (seed, page) in (first..).zip(region.bytes_mut().chunks_mut(PAGE_SIZE)) {
        let mut r = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut text = std::iter::repeat_with(|| words[r.below(8)].bytes()).flatten();
        page.iter_mut()
            .for_each(|b| *b = text.next().expect("no end"));
    }
}

/// Pages in the order of their popularity, and sums of it.
fn popularity(pages: usize, r: &mut Random) -> (Vec<usize>, Vec<f64>) {
    let mut order: Vec<usize> = (0..pages).collect();
    (1..pages).rev().for_each(|i| order.swap(i, r.below(i + 1)));
    let mut sum = 0.0;
    let sums = (1..=pages).map(|i| {
        sum += (i as f64).powf(-0.99);
        sum
    });
    (order, sums.collect())
}

/// Pages that have been read from the file, and written to it.
fn moved(stats: &Stats) -> (u64, u64) {
    let named = |name| stats.engine.iter().find(|(n, _)| *n == name);
    let pages = |name| named(name).map_or(0, |(_, kib)| *kib as u64 * 1024 / PAGE_SIZE as u64);
    (pages("pgpgin"), pages("pgpgout"))
}

fn run(swap: &str, operations: usize, work: &str, stores: usize) -> Result<(), Failure> {
    let pool = Pool::new(PoolConfig::new(BUDGET as u64).swap(SwapConfig::parse(swap)?))?;
    let budget = BUDGET / PAGE_SIZE;
    let pages = match work {
        "phase" => budget * 75 / 100,
        "phase-150" => budget * 150 / 100,
        "zipf" | "uniform" | "loop" => budget * 3,
        _ => {
            return Err(format!(
                "no work is named '{work}': phase, phase-150, zipf, uniform or loop"
            )
            .into())
        }
    };
    let mut cold = None;
    if work.starts_with("phase") {
        fill(cold.insert(pool.anonymous(2 * BUDGET)?), 1);
    }
    let mut used = pool.anonymous(pages * PAGE_SIZE)?;
    fill(&mut used, 1 << 40);
    let mut r = Random(7);
    let (order, sums) = popularity(pages, &mut r);
    let mut before = pool.stats();
    for k in 0..2 * operations {
        if k == operations {
            before = pool.stats();
        }
        let page = match work {
            "zipf" => {
                let x = r.next() as f64 / (1u64 << 53) as f64 * sums[pages - 1];
                order[sums.partition_point(|&s| s < x).min(pages - 1)]
            }
            "loop" => k % pages,
            _ => r.below(pages),
        };
        let at = page * PAGE_SIZE;
        if stores > 0 && r.below(100) < stores {
            used.bytes_mut()[at + 64] = k as u8;
        } else {
            std::hint::black_box(used.bytes()[at + 128]);
        }
    }
    let stats = pool.stats();
    let ((was_in, was_out), (come_in, gone_out)) = (moved(&before), moved(&stats));
    let each = |n: u64| n as f64 / operations as f64;
    println!(
        "@RESULT {work},{stores} misses={:.3} from_disk={:.3} to_disk={:.3} resident={} compressed={} compressed_pages={}",
        each(stats.misses - before.misses),
        each(come_in - was_in),
        each(gone_out - was_out),
        stats.resident_pages,
        stats.store_pages,
        stats.swap.lz4_pages + stats.swap.zstd_pages + stats.swap.raw_pages,
    );
    Ok(())
}

fn all() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let swap = args.first().map_or("lz4:256MiB+temp:256MiB", |s| s);
    let operations = args.get(1).map_or(Ok(100_000), |n| n.parse())?;
    let standard = ["phase,0", "zipf,20"].map(String::from);
    for work in args.get(2..).unwrap_or(&standard) {
        let (work, stores) = work.split_once(',').unwrap_or((work, "0"));
        run(swap, operations, work, stores.parse()?)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
