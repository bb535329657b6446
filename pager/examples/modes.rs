//! What a miss costs, handled in the thread that missed and by handler threads.
//!
//! `cargo run --release -p coldset-pager --example modes` (as root)
//!
//! Random reads over LZ4-compressed memory of four times the budget, no read-ahead. Modes alternate; figures are
//! medians of five.

use coldset_pager::sys::clock::{now, process_cpu};
use coldset_pager::{Advice, FaultMode, Pool, PoolConfig, SwapConfig};

const PAGE: usize = 4096;
const BUDGET: u64 = 32 << 20;
const PAGES: usize = 4 * BUDGET as usize / PAGE;
const READS: usize = 60_000;

fn main() {
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        for (costs, mode) in costs.iter_mut().zip([FaultMode::Sigbus, FaultMode::Thread]) {
            match Pool::new(
                PoolConfig::new(BUDGET)
                    .fault_mode(mode)
                    .swap(SwapConfig::lz4(1 << 30))
                    .store_outside_budget(),
            ) {
                Ok(pool) => costs.push(measure(&pool)),
                Err(e) => return println!("{mode:?}: {e}"),
            }
        }
    }
    let [a, b] = costs.map(|mut c| {
        c.sort_unstable();
        let wall = c[c.len() / 2].0;
        c.sort_unstable_by_key(|c| c.1);
        (wall as f64 / 1e3, c[c.len() / 2].1 as f64 / 1e3)
    });
    for (name, c) in [("SIGBUS", a), ("handler threads", b)] {
        println!(
            "{name:16} {:6.1} us wall, {:6.1} us CPU a read that misses: x{:.2}, x{:.2}",
            c.0,
            c.1,
            c.0 / a.0,
            c.1 / a.1
        );
    }
}

/// Nanoseconds a miss: wall and CPU. Reads that hit cost next to nothing.
fn measure(pool: &Pool) -> (u64, u64) {
    let mut region = pool.anonymous(PAGES * PAGE).unwrap();
    for (i, p) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
        for (k, b) in p[..PAGE / 2].iter_mut().enumerate() {
            *b = (k / 7 * i) as u8;
        }
    }
    region.advise(0..region.len(), Advice::Random).unwrap();
    let misses = pool.stats().misses;
    let (wall, cpu) = (now(), process_cpu());
    let (mut x, mut sum) = (1u64, 0u64);
    for _ in 0..READS {
        x = x
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let page = (x >> 33) as usize % PAGES;
        sum += u64::from(region.bytes()[page * PAGE + 64]);
    }
    std::hint::black_box(sum);
    let n = pool.stats().misses - misses;
    ((now() - wall) / n, (process_cpu() - cpu) / n)
}
