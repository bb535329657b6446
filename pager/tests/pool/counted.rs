//! Counters by the kernel's names: what the pager reads, writes and serves is in them, and nothing else is offered.

use crate::common::*;
use coldset_engine::Counter;
use coldset_pager::observe::is_counted;
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{Advice, FaultMode, Group, Limits, Pool, PoolConfig, Region, SwapConfig};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// One thread, no read-ahead: each miss is for one page.
fn pool(swap: SwapConfig) -> Pool {
    let config = PoolConfig::new(2 * MIB)
        .swap(swap)
        .fault_mode(FaultMode::Explicit)
        .background(false)
        .read_ahead(1);
    Pool::new(config).unwrap()
}

/// Pages that differ, and compress to an eighth.
fn fill(region: &Region) {
    let mut r = Random::new(region.len() as u64);
    for p in 0..region.len() / PAGE {
        let mut page = region.fix_mut(p).unwrap();
        page[..PAGE / 8]
            .chunks_exact_mut(8)
            .for_each(|w| w.copy_from_slice(&r.next().to_le_bytes()));
    }
}

fn read(region: &Region) {
    (0..region.len().div_ceil(PAGE)).for_each(|p| drop(region.fix(p).unwrap()));
}

/// Major faults, pages in from swap and out to it, KiB read and written.
fn counted(group: &Group) -> [u64; 5] {
    [
        Counter::Pgmajfault,
        Counter::Pswpin,
        Counter::Pswpout,
        Counter::Pgpgin,
        Counter::Pgpgout,
    ]
    .map(|c| group.counter(c).unwrap() as u64)
}

fn swapped(swap: SwapConfig, kib_a_page: u64) {
    let pool = pool(swap);
    let outer = pool.group("outer", Limits::new()).unwrap();
    let inner = outer.group("inner", Limits::new()).unwrap();
    let other = pool.group("other", Limits::new()).unwrap();
    let region = inner.anonymous(4 * MIB as usize).unwrap();
    fill(&region);
    assert_eq!(counted(&inner)[0], 0, "fresh zeroes need no I/O");
    read(&region);
    let s = pool.stats();
    assert!(s.swapped_in > 500 && s.swapped_out > 500, "{s:?}");
    let want = [
        s.swapped_in,
        s.swapped_in,
        s.swapped_out,
        s.swapped_in * kib_a_page,
        s.swapped_out * kib_a_page,
    ];
    for group in [&inner, &outer, &pool.root()] {
        assert_eq!(counted(group), want, "{}", group.name());
    }
    assert_eq!(counted(&other), [0; 5]);
    // Everywhere the same.
    let whole = pool.snapshot();
    let names = ["pgmajfault", "pswpin", "pswpout", "pgpgin", "pgpgout"];
    for (name, want) in names.into_iter().zip(want) {
        let want = want as i64;
        assert_eq!(s.engine(name), Some(want), "{name}");
        assert_eq!(whole.events[name], want, "{name}");
        let of_group = &whole.groups.children[0].children[0].events;
        assert_eq!(of_group.get(name).copied().unwrap_or(0), want, "{name}");
    }
}

#[test]
fn swap_in_memory() {
    let _one = alone();
    swapped(SwapConfig::lz4(16 * MIB), 0);
}

#[test]
fn swap_in_a_file() {
    let _one = alone();
    swapped(SwapConfig::none().and_temporary(16 * MIB), 4);
}

/// Maps of files: reads and writes in KiB, the last page by its bytes. What is brought in for nobody is no fault.
#[test]
fn files() {
    let _one = alone();
    let pool = pool(SwapConfig::none());
    let path = temp("counted");
    let len = 10 * PAGE - 1000;
    std::fs::write(&path, vec![1; len]).unwrap();
    let (group, kib) = (
        pool.group("files", Limits::new()).unwrap(),
        len.div_ceil(1024),
    );
    let region = group.file(&path).unwrap();
    read(&region);
    read(&region);
    assert_eq!(counted(&group), [10, 0, 0, kib as u64, 0]);
    region.advise(0..len, Advice::DontNeed).unwrap();
    region.advise(0..len, Advice::WillNeed).unwrap();
    assert_eq!(counted(&group), [10, 0, 0, 2 * kib as u64, 0]);
    region.fix_mut(2).unwrap()[0] = 2;
    region.fix_mut(9).unwrap()[0] = 2;
    region.sync(0..len).unwrap();
    let last = (len - 9 * PAGE).div_ceil(1024) as u64;
    assert_eq!(counted(&group), [10, 0, 0, 2 * kib as u64, 4 + last]);
    // By an eviction.
    region.fix_mut(3).unwrap()[0] = 2;
    region.advise(0..len, Advice::DontNeed).unwrap();
    assert_eq!(counted(&group)[4], 8 + last);
    drop(region);
    std::fs::remove_file(path).unwrap();
}

/// A counter that would be 0 whatever happens is not there.
#[test]
fn what_only_a_kernel_counts_is_not_offered() {
    let _others = together();
    let pool = pool(SwapConfig::lz4(16 * MIB));
    let (stats, whole) = (pool.stats(), pool.snapshot());
    for &c in Counter::ALL {
        let there = [
            pool.root().counter(c).is_some(),
            stats.engine(c.name()).is_some(),
            whole.events.contains_key(c.name()) || whole.levels.contains_key(c.name()),
        ];
        assert_eq!(there, [is_counted(c); 3], "{}", c.name());
    }
    for name in [
        "pgfault",
        "swap_ra",
        "nr_tlb_remote_flush",
        "thp_fault_alloc",
    ] {
        assert_eq!(stats.engine(name), None);
    }
}

/// Reads that fail are errors of the store as writes are.
#[test]
fn failed_reads_and_writes_are_store_errors() {
    let _one = alone();
    let path = temp("failing");
    let file = Arc::new(FileStorage::create(&path, 16 * MIB).unwrap());
    let plan = Arc::new(FaultPlan::default());
    let faulty = Arc::new(FaultyStorage::new(file.clone(), plan.clone()));
    let pool = pool(SwapConfig::none().and_storage(faulty.clone(), 16 * MIB));
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    fill(&region);
    assert_eq!(pool.stats().store_errors, 0);
    plan.fail_reads.store(1, Relaxed);
    let failed = (0..1024).filter(|&p| region.fix(p).is_err()).count() as u64;
    let s = pool.stats();
    assert!(failed > 500, "{failed}");
    assert_eq!((s.store_errors, s.failed_misses), (failed, failed));
    // Of a map as of swap.
    let map = pool.root().storage(faulty, MIB, false).unwrap();
    assert!(map.fix(0).is_err());
    assert_eq!(pool.stats().store_errors, failed + 1);
    plan.fail_reads.store(0, Relaxed);
    plan.fail_writes.store(1, Relaxed);
    let freed = pool.root().reclaim(MIB).unwrap_or(0);
    assert!(pool.stats().store_errors > failed + 1, "{freed} bytes");
    plan.fail_writes.store(0, Relaxed);
    drop((region, map));
    std::fs::remove_file(path).unwrap();
}
