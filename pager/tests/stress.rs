//! No store is lost, the budget holds, and the test would notice if it were otherwise.

mod common;

use coldset_pager::{Group, Limits, Pool, PoolConfig, SwapConfig};
use common::*;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

/// The documented bound: a chunk of compressed memory for each of up to four threads that evict.
const STORE_SLACK: u64 = 4 * 16;

/// A pool, its region's stress, a watcher, and somebody who reclaims and changes limits meanwhile.
fn run(config: PoolConfig, bytes: u64, budget: u64) -> (Stressed, u64, Pool) {
    let pool = Pool::new(config).unwrap();
    let group = pool.group("stress", Limits::new()).unwrap();
    let region = group.anonymous(bytes as usize).unwrap();
    let stop = AtomicBool::new(false);
    let (stressed, peak) = std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&[&pool], &stop));
        let meddler = s.spawn(|| meddle(&group, budget, &stop));
        let stressed = stress(&region, 3, seconds(3.0), 50);
        stop.store(true, Relaxed);
        meddler.join().unwrap();
        (stressed, watcher.join().unwrap())
    });
    drop(region);
    (stressed, peak, pool)
}

fn meddle(group: &Group, budget: u64, stop: &AtomicBool) {
    let mut r = Random::new(99);
    while !stop.load(Relaxed) {
        match r.below(3) {
            0 => drop(group.reclaim(64 * PAGE as u64)),
            1 => group.set(Limits::new().max(budget / 2)).unwrap(),
            _ => group.set(Limits::new().max(budget)).unwrap(),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn anonymous(policy: &str, swap: SwapConfig) {
    let _one = alone();
    let budget = 16 * MIB;
    let config = PoolConfig::new(budget).policy(policy).unwrap().swap(swap);
    let (stressed, peak, pool) = run(config, 48 * MIB, budget);
    let stats = pool.stats();
    println!("{policy}: {stressed:?}, peak {peak} pages, {stats:?}");
    assert_eq!(stressed.lost, None, "{policy}");
    assert!(stats.evicted > 2000, "{stats:?}");
    let bound = budget / PAGE as u64 + STORE_SLACK;
    assert!(peak <= bound, "{policy}: {peak} pages in memory");
    assert!(stats.peak_pages <= bound, "{policy}: {stats:?}");
    assert_eq!(stats.resident_pages, 0, "the region has been dropped");
    assert_eq!(stats.swap_slots.0, 0);
    assert_eq!(stats.store_bytes, 0);
    assert_eq!(pages_in_memory(), 0);
}

#[test]
fn no_store_is_lost_v5() {
    anonymous("v5", SwapConfig::lz4(128 * MIB));
}

#[test]
fn no_store_is_lost_classic() {
    anonymous("classic", SwapConfig::lz4(128 * MIB));
}

#[test]
fn no_store_is_lost_base() {
    anonymous("base", SwapConfig::lz4(128 * MIB));
}

#[test]
fn no_store_is_lost_with_a_swap_file() {
    let path = std::env::temp_dir().join(format!("coldset-swap-{}", std::process::id()));
    anonymous("v5", SwapConfig::file(&path, 128 * MIB));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn no_store_is_lost_when_compressed_memory_overflows_into_a_file() {
    let path = std::env::temp_dir().join(format!("coldset-over-{}", std::process::id()));
    let swap = SwapConfig::lz4(128 * MIB)
        .memory_limit(MIB)
        .and_file(&path, 128 * MIB);
    anonymous("merged", swap);
    std::fs::remove_file(path).unwrap();
}

/// The same stress with contents copied before the page is taken away.
#[test]
fn a_planted_bug_is_noticed() {
    let _one = alone();
    let config = PoolConfig::new(4 * MIB)
        .swap(SwapConfig::lz4(64 * MIB))
        .plant_copy_then_punch();
    let pool = Pool::new(config).unwrap();
    let region = pool.anonymous(8 * MIB as usize).unwrap();
    let stressed = stress(&region, 3, Duration::from_secs(60), 90);
    assert!(stressed.lost.is_some(), "{stressed:?}");
}

#[test]
fn two_pools_do_not_mix() {
    let _one = alone();
    let make = |policy| {
        Pool::new(
            PoolConfig::new(8 * MIB)
                .policy(policy)
                .unwrap()
                .swap(SwapConfig::lz4(64 * MIB)),
        )
        .unwrap()
    };
    let (a, b) = (make("v5"), make("classic"));
    let (ra, rb) = (
        a.anonymous(24 * MIB as usize).unwrap(),
        b.anonymous(24 * MIB as usize).unwrap(),
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&[&a, &b], &stop));
        let other = s.spawn(|| stress(&rb, 2, seconds(2.0), 50));
        assert_eq!(stress(&ra, 2, seconds(2.0), 50).lost, None);
        assert_eq!(other.join().unwrap().lost, None);
        stop.store(true, Relaxed);
        assert!(watcher.join().unwrap() <= 16 * MIB / PAGE as u64 + 2 * STORE_SLACK);
    });
    for p in [&a, &b] {
        let s = p.stats();
        assert!(
            s.evicted > 1000 && s.peak_pages <= s.budget_pages + STORE_SLACK,
            "{s:?}"
        );
    }
}
