//! No store is lost, the budget holds, and the test would notice if it were otherwise.

use crate::common::*;
use coldset_engine::presets::{PRESETS, SUFFIXES};
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{Error, Group, Limits, Pool, PoolConfig, SwapConfig};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

/// A region's stress, a watcher, and somebody who reclaims and changes limits meanwhile.
fn run(pool: &Pool, bytes: u64, time: Duration, more: &(dyn Fn(u64) + Sync)) -> (Stressed, u64) {
    let group: Group = pool.group("stress", Limits::new()).unwrap();
    let region = group.anonymous(bytes as usize).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&[pool], &stop));
        let meddler = s.spawn(|| meddle(&group, pool.budget(), &stop, more));
        let stressed = stress(&region, Access::Faulting, 3, time, 50);
        stop.store(true, Relaxed);
        meddler.join().unwrap();
        (stressed, watcher.join().unwrap())
    })
}

fn anonymous(policy: &str, swap: SwapConfig, time: Duration, more: &(dyn Fn(u64) + Sync)) {
    let _one = alone();
    let budget = 16 * MIB;
    let config = PoolConfig::new(budget).policy(policy).unwrap().swap(swap);
    let Some(pool) = faulting(config) else { return };
    let (stressed, peak) = run(&pool, 48 * MIB, time, more);
    let stats = pool.stats();
    println!(
        "{policy}: {} operations, {} stores, peak {peak} pages of {}, {} evicted, {} misses, {} \
         store errors, lost {:?}",
        stressed.operations,
        stressed.stores,
        stats.budget_pages,
        stats.evicted,
        stats.misses,
        stats.store_errors,
        stressed.lost
    );
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
    anonymous("v5", SwapConfig::lz4(128 * MIB), soak(8.0), &|_| ());
}

#[test]
fn no_store_is_lost_classic() {
    anonymous("classic", SwapConfig::lz4(128 * MIB), soak(2.0), &|_| ());
}

#[test]
fn no_store_is_lost_base() {
    anonymous("base", SwapConfig::lz4(128 * MIB), soak(2.0), &|_| ());
}

#[test]
fn no_store_is_lost_with_a_swap_file() {
    let path = temp("swap");
    let swap = SwapConfig::file(&path, 128 * MIB);
    anonymous("v5", swap, soak(2.0), &|_| ());
    // Not made where the test is skipped.
    let _ = std::fs::remove_file(path);
}

#[test]
fn no_store_is_lost_in_an_encrypted_swap_file() {
    let swap = SwapConfig::none().and_temporary(128 * MIB).encrypt(true);
    anonymous("v5", swap, soak(2.0), &|_| ());
}

#[test]
fn no_store_is_lost_when_compressed_memory_overflows_into_a_file() {
    let path = temp("over");
    let swap = SwapConfig::lz4(128 * MIB)
        .memory_limit(MIB)
        .and_file(&path, 128 * MIB);
    anonymous("merged", swap, soak(2.0), &|_| ());
    // Not made where the test is skipped.
    let _ = std::fs::remove_file(path);
}

/// Writes to swap fail now and then, for want of space too, are short, and slow.
#[test]
fn no_store_is_lost_while_swap_fails() {
    let path = temp("faulty");
    let file = Arc::new(FileStorage::create(&path, 128 * MIB).unwrap());
    let plan = Arc::new(FaultPlan::default());
    let faulty = Arc::new(FaultyStorage::new(file, plan.clone()));
    let swap = SwapConfig::none().and_storage(faulty, 128 * MIB);
    let p = plan.clone();
    anonymous("v5", swap, soak(2.0), &move |r| {
        p.fail_writes.store([0, 2, 3, 7][r as usize % 4], Relaxed);
        let error = [libc::EIO, libc::ENOSPC][r as usize / 4 % 2];
        p.write_error.store(error as u32, Relaxed);
        p.short.store([0, 2, 5][r as usize / 8 % 3], Relaxed);
        p.slow_us.store([0, 0, 300][r as usize / 24 % 3], Relaxed);
    });
    println!("{} injected failures", plan.failed.load(Relaxed));
    // Not made where the test is skipped.
    let _ = std::fs::remove_file(path);
}

/// Every policy, and every suffix behind one of them. A pool that finds itself at odds with its policy ends the process:
/// each has one of its own.
#[test]
fn reclaim_beside_stores_under_every_policy() {
    const NAME: &str = "reclaim_beside_stores_under_every_policy";
    if let Some(policy) = child::role() {
        reclaim_beside_stores(&policy, soak(0.4));
        return;
    }
    let _one = alone();
    let presets = PRESETS.iter().map(|p| p.names[0].to_owned());
    let suffixes = SUFFIXES.iter().map(|s| format!("base+{}", s.name));
    // A pool refuses what is about flushes of translations.
    let refused = |policy: &str| {
        let config = PoolConfig::new(2 * MIB).policy(policy).unwrap();
        matches!(Pool::new(config), Err(Error::Setting { .. }))
    };
    let suffixes = suffixes.filter(|policy| !refused(policy));
    let mut failed = Vec::new();
    for policy in presets.chain(suffixes) {
        let out = child::run(NAME, &policy);
        if !out.status.success() {
            println!("{policy}: {}", child::text(&out));
            failed.push(policy);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Files and anonymous memory, much larger than the budget: while the batches of one reclaim leave, misses and ends of
/// writes move pages that another is about to take.
fn reclaim_beside_stores(policy: &str, time: Duration) {
    let config = PoolConfig::new(2 * MIB).policy(policy).unwrap();
    let Some(pool) = faulting(config.swap(SwapConfig::lz4(64 * MIB))) else {
        return;
    };
    let bytes = 8 * MIB as usize;
    let paths = [temp("beside"), temp("beside")];
    let files = paths.each_ref().map(|path| {
        std::fs::write(path, vec![0; bytes]).unwrap();
        pool.file(path).unwrap()
    });
    let anonymous = pool.anonymous(bytes).unwrap();
    let stop = AtomicBool::new(false);
    let until_stop = |what: &dyn Fn()| {
        while !stop.load(Relaxed) {
            what();
        }
    };
    let stressed = std::thread::scope(|s| {
        s.spawn(|| until_stop(&|| assert!(pool.root().reclaim(4 * MIB).is_ok())));
        s.spawn(|| until_stop(&|| files.iter().for_each(|f| f.sync(0..bytes).unwrap())));
        let regions = [&files[0], &files[1], &anonymous];
        let stores = regions.map(|r| s.spawn(move || stress(r, Access::Faulting, 1, time, 50)));
        let stressed = stores.map(|h| h.join().unwrap());
        stop.store(true, Relaxed);
        stressed
    });
    for one in &stressed {
        assert_eq!(one.lost, None, "{policy}");
    }
    let stats = pool.stats();
    assert!(stats.evicted > 1000, "{policy}: {stats:?}");
    for ((file, path), one) in files.into_iter().zip(&paths).zip(&stressed) {
        file.close().unwrap();
        compare_file(path, one);
        std::fs::remove_file(path).unwrap();
    }
}

/// The same stress with contents copied before the page is taken away.
#[test]
fn a_planted_bug_is_noticed() {
    let _one = alone();
    let config = PoolConfig::new(4 * MIB)
        .swap(SwapConfig::lz4(64 * MIB))
        .plant_copy_then_punch();
    let Some(pool) = faulting(config) else { return };
    let region = pool.anonymous(8 * MIB as usize).unwrap();
    let stressed = stress(&region, Access::Faulting, 3, Duration::from_secs(60), 90);
    let found = stressed.lost.expect("a store was lost and nobody noticed");
    println!("noticed after {} stores: {found:?}", stressed.stores);
}

#[test]
fn two_pools_do_not_mix() {
    let _one = alone();
    let make = |policy| {
        let config = PoolConfig::new(8 * MIB).policy(policy).unwrap();
        faulting(config.swap(SwapConfig::lz4(64 * MIB)))
    };
    let (Some(a), Some(b)) = (make("v5"), make("classic")) else {
        return;
    };
    let (ra, rb) = (
        a.anonymous(24 * MIB as usize).unwrap(),
        b.anonymous(24 * MIB as usize).unwrap(),
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&[&a, &b], &stop));
        let other = s.spawn(|| stress(&rb, Access::Faulting, 2, soak(2.0), 50));
        let this = stress(&ra, Access::Faulting, 2, soak(2.0), 50);
        assert_eq!(this.lost, None);
        assert_eq!(other.join().unwrap().lost, None);
        stop.store(true, Relaxed);
        assert!(watcher.join().unwrap() <= 16 * MIB / PAGE as u64 + 2 * STORE_SLACK);
    });
    for p in [&a, &b] {
        let s = p.stats();
        let bound = s.budget_pages + STORE_SLACK;
        assert!(s.evicted > 1000 && s.peak_pages <= bound, "{s:?}");
    }
}

/// Above `high` a group is reclaimed and its threads wait, and it still gets on.
#[test]
fn a_group_above_high_stays_near_it() {
    let _one = alone();
    let config = PoolConfig::new(16 * MIB).swap(SwapConfig::lz4(64 * MIB));
    let Some(pool) = faulting(config) else { return };
    let group = pool.group("g", Limits::new().high(4 * MIB)).unwrap();
    let mut region = group.anonymous(8 * MIB as usize).unwrap();
    region
        .bytes_mut()
        .iter_mut()
        .step_by(PAGE)
        .for_each(|b| *b = 1);
    assert!(group.usage() <= 5 * MIB, "{}", group.usage());
    assert!(region.bytes().iter().step_by(PAGE).all(|&b| b == 1));
}
