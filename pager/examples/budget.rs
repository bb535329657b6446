//! An array four times as large as its budget, in this program's memory.
//!
//! `cargo run --release -p coldset-pager --example budget [-- BUDGET_MIB]`

use coldset_pager::{Error, Pool, PoolConfig, Result, SwapConfig, PAGE_SIZE};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mib = std::env::args().nth(1).map_or(Ok(64), |a| a.parse());
    let done = match mib {
        Ok(mib) => run(mib),
        Err(e) => {
            eprintln!("the budget is a number of MiB: {e}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Missing(m)) => {
            eprintln!("{m}");
            ExitCode::from(3)
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run(mib: u64) -> Result<()> {
    let budget = mib << 20;
    // Compressed memory counts against the budget; what does not fit goes to a file without a name.
    let swap = SwapConfig::parse(&format!("lz4:{}MiB+temp:{}MiB", 4 * mib, 4 * mib))?;
    let pool = Pool::new(PoolConfig::new(budget).swap(swap))?;
    let mut region = pool.anonymous(4 * budget as usize)?;
    println!(
        "an array of {} MiB in {mib} MiB of memory, policy v5",
        4 * mib
    );
    row(&pool, "made");
    for (i, page) in region.bytes_mut().chunks_mut(PAGE_SIZE).enumerate() {
        let words = page.chunks_exact_mut(8).enumerate();
        words.for_each(|(k, w)| w.copy_from_slice(&word(i, k)));
    }
    row(&pool, "every word stored");
    for _ in 0..4 {
        check(region.bytes(), 16);
    }
    row(&pool, "1/16 read 4 times");
    check(region.bytes(), 1);
    row(&pool, "every word read");
    println!("every word was what had been stored");
    Ok(())
}

fn word(page: usize, k: usize) -> [u8; 8] {
    ((page * 1_000_003) ^ (k / 4)).to_le_bytes()
}

/// Compares the first 1/`share` of the pages.
fn check(bytes: &[u8], share: usize) {
    let pages = bytes.chunks(PAGE_SIZE).enumerate();
    for (i, page) in pages.take(bytes.len() / PAGE_SIZE / share) {
        let mut words = page.chunks_exact(8).enumerate();
        assert!(words.all(|(k, w)| w == word(i, k)), "page {i} is wrong");
    }
}

fn row(pool: &Pool, what: &str) {
    let s = pool.stats();
    let mib = |pages: u64| (pages * PAGE_SIZE as u64) as f64 / f64::from(1 << 20);
    println!(
        "{what:22}  in memory {:5.1} MiB (pages {:.1}, compressed {:.1}), peak {:5.1};  {:7} misses, \
         {:7} pages evicted",
        mib(s.resident_pages + s.store_pages),
        mib(s.resident_pages),
        mib(s.store_pages),
        mib(s.peak_pages),
        s.misses,
        s.evicted
    );
}
