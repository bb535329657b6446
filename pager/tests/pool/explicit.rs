//! Access by guards: the same states, engine and stores, on any kernel.

use crate::common::*;
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{
    probe, Error, FaultMode, Feature, FlushConfig, Limits, Pool, PoolConfig, SwapConfig,
};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

fn config(budget: u64) -> PoolConfig {
    PoolConfig::new(budget).fault_mode(FaultMode::Explicit)
}

#[test]
fn no_store_is_lost_with_guards() {
    let _one = alone();
    let budget = 8 * MIB;
    for policy in ["v5", "classic"] {
        let config = config(budget).policy(policy).unwrap();
        let pool = Pool::new(config.swap(SwapConfig::lz4(64 * MIB))).unwrap();
        let group = pool.group("guards", Limits::new()).unwrap();
        let region = group.anonymous(24 * MIB as usize).unwrap();
        let stop = AtomicBool::new(false);
        let stressed = std::thread::scope(|s| {
            let meddler = s.spawn(|| meddle(&group, budget, &stop, &|_| ()));
            let stressed = stress_explicit(&pool, &region, soak(2.0), 50);
            stop.store(true, Relaxed);
            meddler.join().unwrap();
            stressed
        });
        drop(region);
        let stats = pool.stats();
        println!(
            "explicit {policy}: {} operations, {} evicted, peak {} of {}",
            stressed.operations, stats.evicted, stats.peak_pages, stats.budget_pages
        );
        assert_eq!((stressed.lost, stressed.errors), (None, 0));
        assert!(stats.evicted > 1000, "{stats:?}");
        assert!(stats.peak_pages <= stats.budget_pages + STORE_SLACK);
        assert_eq!((stats.resident_pages, stats.swap_slots.0), (0, 0));
    }
}

/// Reads and writes of the swap fail: guards give errors, and no contents are lost.
#[test]
fn no_store_is_lost_with_guards_while_swap_fails() {
    let _one = alone();
    let path = temp("explicit-swap");
    let file = Arc::new(FileStorage::create(&path, 64 * MIB).unwrap());
    let plan = Arc::new(FaultPlan::default());
    plan.fail_reads.store(50, Relaxed);
    plan.fail_writes.store(7, Relaxed);
    plan.short.store(11, Relaxed);
    let swap = Arc::new(FaultyStorage::new(file, plan.clone()));
    let config = config(4 * MIB).swap(SwapConfig::none().and_storage(swap, 64 * MIB));
    let pool = Pool::new(config).unwrap();
    let region = pool.anonymous(12 * MIB as usize).unwrap();
    let stressed = stress_explicit(&pool, &region, soak(2.5), 50);
    drop(region);
    let stats = pool.stats();
    println!(
        "explicit, failing swap: {} operations, {} errors, {} evicted",
        stressed.operations, stressed.errors, stats.evicted
    );
    assert_eq!(stressed.lost, None);
    assert!(stressed.errors > 0 && stats.store_errors > 0 && stats.evicted > 1000);
    std::fs::remove_file(path).unwrap();
}

/// Compressed memory cannot take what does not compress: that ends in an error, not in waiting.
#[test]
fn contents_that_do_not_compress_run_out_of_memory() {
    let _one = alone();
    let pool = Pool::new(config(4 * MIB).swap(SwapConfig::lz4(64 * MIB))).unwrap();
    let region = pool.anonymous(16 * MIB as usize).unwrap();
    let mut x = 1u64;
    let mut noise = |page: &mut [u8]| {
        for b in page {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1);
            *b = (x >> 56) as u8;
        }
    };
    let mut failed = None;
    for p in 0..region.len() / PAGE {
        match region.fix_mut(p) {
            Ok(mut page) => noise(&mut page),
            Err(e) => {
                failed = Some((p, e));
                break;
            }
        }
    }
    let (page, e) = failed.expect("16 MiB of noise do not fit into 4 MiB");
    assert!(matches!(e, Error::NoMemory { .. }), "{e}");
    assert!(page >= 512, "only {page} pages did fit");
    assert_eq!(pool.root().reclaim(4 * MIB).unwrap(), 0);
}

#[test]
fn no_store_to_a_file_is_lost_with_guards() {
    let _one = alone();
    let flush = FlushConfig {
        interval: Duration::from_millis(20),
        expire: Duration::from_millis(60),
        ..FlushConfig::default()
    };
    let pool = Pool::new(config(4 * MIB).flush(flush)).unwrap();
    let path = temp("explicit-file");
    let bytes = 12 * MIB;
    std::fs::File::create(&path)
        .unwrap()
        .set_len(bytes)
        .unwrap();
    let plan = Arc::new(FaultPlan::default());
    plan.fail_writes.store(9, Relaxed);
    let file = Arc::new(FileStorage::open(&path, true).unwrap());
    let faulty = Arc::new(FaultyStorage::new(file, plan.clone()));
    let region = pool.root().storage(faulty, bytes, true).unwrap();
    let stressed = stress_explicit(&pool, &region, soak(2.5), 40);
    assert_eq!(stressed.lost, None);
    let stats = pool.stats();
    assert!(stats.evicted > 1000 && stats.written_back > 0, "{stats:?}");
    plan.fail_writes.store(0, Relaxed);
    let _ = region.sync(0..region.len());
    region.sync(0..region.len()).unwrap();
    compare_file(&path, &stressed);
    drop(region);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn guards_keep_pages_and_exclude_writers() {
    let _one = alone();
    let pool = Pool::new(config(MIB).swap(SwapConfig::lz4(16 * MIB))).unwrap();
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    let a = region.fix(3).unwrap();
    let b = region.fix(3).unwrap();
    assert!(a.iter().chain(b.iter()).all(|&b| b == 0));
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            region.fix_mut(3).unwrap()[0] = 1;
            done.store(true, SeqCst);
        });
        pool.root().reclaim(4 * MIB).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        assert!(!done.load(SeqCst) && a[0] == 0);
        assert_eq!(region.resident(3 * PAGE..4 * PAGE).unwrap(), 1);
        drop((a, b));
        writer.join().unwrap();
    });
    assert_eq!(region.fix(3).unwrap()[0], 1);
    assert!(region.fix(1024).is_err(), "beyond the end");
}

/// A sync beside guards writes all pages but those that are being written to, says which, and leaves readers alone.
#[test]
fn a_sync_beside_guards_leaves_out_what_is_being_written() {
    let _others = together();
    let path = temp("explicit-guards");
    std::fs::write(&path, vec![0; 8 * PAGE]).unwrap();
    let pool = Pool::new(config(MIB)).unwrap();
    let region = pool.file(&path).unwrap();
    (0..8).for_each(|p| region.fix_mut(p).unwrap().fill(7));
    let on_disk = || -> Vec<u8> {
        let bytes = std::fs::read(&path).unwrap();
        bytes.chunks(PAGE).map(|p| p[17]).collect()
    };
    let reader = region.fix(2).unwrap();
    let pinned = region.pin(3 * PAGE..5 * PAGE, false).unwrap();
    region.sync(0..region.len()).unwrap();
    assert_eq!(on_disk(), [7; 8]);
    let mut writer = region.fix_mut(6).unwrap();
    (0..8)
        .filter(|&p| !(2..5).contains(&p) && p != 6)
        .for_each(|p| region.fix_mut(p).unwrap().fill(8));
    writer.fill(8);
    for _ in 0..2 {
        match region.sync(0..region.len()) {
            Err(e @ Error::Fixed { at }) => {
                assert_eq!(at, 6 * PAGE);
                assert!(e.to_string().contains("drop its guard"), "{e}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(on_disk(), [8, 8, 7, 7, 7, 8, 7, 8]);
    }
    region.sync(0..6 * PAGE).unwrap();
    drop(writer);
    region.sync(0..region.len()).unwrap();
    assert_eq!(on_disk(), [8, 8, 7, 7, 7, 8, 8, 8]);
    drop((reader, pinned));
    drop(region);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_missing_feature_is_one_clear_error_or_the_fallback() {
    let _others = together();
    for feature in Feature::ALL {
        let config = PoolConfig::new(MIB).deny(feature);
        let Err(Error::Missing(missing)) = Pool::new(config.clone()) else {
            panic!("{feature:?} was denied");
        };
        let text = missing.to_string();
        // Unless this very machine lacks one that is tried before.
        if probe(&[]).is_ok() {
            assert_eq!(missing.feature, feature);
        }
        assert!(text.contains(missing.feature.name()), "{text}");
        assert!(
            text.contains("FaultMode::Explicit") && text.lines().count() == 1,
            "{text}"
        );
        let pool = Pool::new(config.fault_mode(FaultMode::Auto)).unwrap();
        assert!(pool.fallback().is_some());
        let region = pool.anonymous(PAGE).unwrap();
        region.fix_mut(0).unwrap()[1] = 2;
        assert_eq!(region.fix(0).unwrap()[1], 2);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let _others = together();
    let pool = Pool::new(config(MIB).swap(SwapConfig::lz4(MIB))).unwrap();
    assert!(matches!(
        pool.anonymous(3 * MIB as usize),
        Err(Error::Overcommit { .. })
    ));
    assert!(matches!(pool.anonymous(0), Err(Error::Setting { .. })));
    assert!(matches!(
        Pool::new(config(4096)),
        Err(Error::Setting { .. })
    ));
    assert!(PoolConfig::new(MIB).policy("nonsense").is_err());
    assert!(PoolConfig::new(MIB).switch("nonsense=1").is_err());
    let flush = config(MIB).switch("batched_dirty_flush=v2").unwrap();
    assert!(matches!(Pool::new(flush), Err(Error::Setting { .. })));
    assert!(
        pool.root().set(Limits::new().max(MIB)).is_err(),
        "the budget"
    );
    assert!(pool.file("/nonexistent/coldset").is_err());
}

/// All pages pinned: an error, not a wait for ever.
#[test]
fn a_budget_full_of_guards_is_an_error() {
    let _one = alone();
    let pool = Pool::new(config(MIB).swap(SwapConfig::lz4(16 * MIB))).unwrap();
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    let mut guards = Vec::new();
    let refused = loop {
        match region.fix(guards.len()) {
            Ok(g) => guards.push(g),
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::NoMemory { .. }), "{refused}");
    assert!(guards.len() >= 200, "{} pages of 256", guards.len());
    let n = guards.len();
    drop(guards);
    region.fix(n).unwrap();
}
