//! Swap that is no larger than it must be: what has been granted can be used, by several threads at a time.

#![allow(unsafe_code, reason = "threads share a region")]

use crate::common::*;
use coldset_pager::{FaultMode, Pool, PoolConfig, SwapConfig};

/// Words of random pages counted up by threads of their own pages; nothing fails, nothing is lost.
fn use_all(pool: &Pool, bytes: u64, threads: usize, rounds: usize) {
    let region = pool.anonymous(bytes as usize).unwrap();
    let pages = bytes as usize / PAGE;
    std::thread::scope(|s| {
        for t in 0..threads {
            let region = &region;
            s.spawn(move || {
                let mine: Vec<usize> = (t..pages).step_by(threads).collect();
                let mut random = Random::new(t as u64);
                let mut versions = vec![0u64; mine.len()];
                // Contents that no compression makes smaller.
                for &p in &mine {
                    // SAFETY: pages of this thread alone, inside the region.
                    let page = unsafe {
                        std::slice::from_raw_parts_mut(region.as_ptr().add(p * PAGE), PAGE)
                    };
                    for w in page.chunks_exact_mut(8).skip(1) {
                        w.copy_from_slice(&random.next().to_le_bytes());
                    }
                }
                for _ in 0..rounds {
                    let i = random.below(mine.len() as u64) as usize;
                    // SAFETY: as above, aligned.
                    unsafe {
                        let word = region.as_ptr().add(mine[i] * PAGE).cast::<u64>();
                        assert_eq!(word.read_volatile(), versions[i], "page {}", mine[i]);
                        // Also loads alone, after which the copy in the swap is kept.
                        if random.below(2) == 0 {
                            versions[i] += 1;
                            word.write_volatile(versions[i]);
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn swap_as_large_as_the_data() {
    let _others = together();
    for policy in ["v5", "classic", "s3fifo"] {
        for threads in [1, 4] {
            let config = PoolConfig::new(4 * MIB)
                .swap(SwapConfig::none().and_temporary(16 * MIB))
                .fault_mode(FaultMode::Sigbus)
                .policy(policy)
                .unwrap();
            let Some(pool) = faulting(config) else { return };
            use_all(&pool, 16 * MIB, threads, 8_000);
        }
    }
}

/// All that is granted: budget and swap together, also where compressed memory, which takes of the budget, comes first and
/// nothing compresses.
#[test]
fn everything_that_is_granted() {
    let _others = together();
    let swaps = [
        SwapConfig::none().and_temporary(16 * MIB),
        SwapConfig::lz4(16 * MIB).and_temporary(16 * MIB),
        SwapConfig::lz4(8 * MIB)
            .memory_limit(64 * MIB)
            .and_temporary(16 * MIB),
    ];
    for swap in swaps {
        for threads in [1, 4] {
            let config = PoolConfig::new(4 * MIB).swap(swap.clone());
            let Some(pool) = faulting(config) else { return };
            let granted = (1..=20)
                .rev()
                .map(|m| m * MIB)
                .find(|&m| pool.anonymous(m as usize).is_ok());
            use_all(&pool, granted.unwrap(), threads, 6_000);
            let stats = pool.stats();
            assert_eq!(stats.failed_misses, 0, "{stats:?}");
        }
    }
}
