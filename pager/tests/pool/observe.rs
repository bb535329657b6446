//! What can be seen of a pool: snapshots.

use crate::common::*;
use coldset_pager::observe::{snapshot_all, Lists, ProcessSnapshot, RegionKind};
use coldset_pager::{Advice, FaultMode, Limits, Pool, PoolConfig, SwapConfig};

/// A pool in explicit mode, so that everything here runs on any kernel.
fn pool(policy: &str) -> Pool {
    let config = PoolConfig::new(2 * MIB)
        .policy(policy)
        .unwrap()
        .swap(SwapConfig::lz4(32 * MIB))
        .fault_mode(FaultMode::Explicit);
    Pool::new(config).unwrap()
}

#[test]
fn a_snapshot_has_groups_generations_and_regions() {
    let _one = alone();
    let pool = pool("v5");
    let limits = Limits::new().low(MIB).max(MIB + MIB / 2);
    let outer = pool.group("outer", limits).unwrap();
    let inner = outer.group("inner", Limits::new().high(MIB)).unwrap();
    let region = inner.anonymous(4 * MIB as usize).unwrap();
    region.advise(0..region.len(), Advice::Random).unwrap();
    for p in 0..1024 {
        region.fix_mut(p).unwrap()[7] = 1;
    }
    let path = temp("observed");
    std::fs::write(&path, vec![1; 8 * PAGE]).unwrap();
    let file = pool.file_read_only(&path).unwrap();
    file.fix(0).unwrap();
    let s = pool.snapshot();
    assert_eq!((s.policy.as_str(), s.budget_bytes), ("v5", 2 * MIB));
    assert_eq!(s.fault_mode, "explicit");
    assert!(s.resident_bytes + s.store_bytes <= s.peak_bytes);
    assert!(s.counters["misses"] >= 1025 && s.counters["evicted"] > 500);
    assert_eq!(s.latency["miss"].count, s.counters["misses"]);
    assert_eq!(s.latency["evict"].count, s.counters["evicted"]);
    assert!(s.latency["miss"].median_ns() > 0);
    assert!(s.levels["anon_pages"] > 0 && s.events["pgsteal_anon"] > 500);
    assert_eq!(s.groups.name, "/");
    let outer = &s.groups.children[0];
    assert_eq!(outer.name, "/outer");
    assert_eq!((outer.low_bytes, outer.high_bytes), (MIB, None));
    assert_eq!(outer.max_bytes, Some(MIB + MIB / 2));
    let inner = &outer.children[0];
    assert_eq!(inner.name, "/outer/inner");
    assert_eq!(inner.high_bytes, Some(MIB));
    assert!(inner.usage_bytes > 0 && inner.usage_bytes <= outer.usage_bytes);
    assert!(inner.events["events_high"] > 0, "{:?}", inner.events);
    let Lists::Generations {
        min_seq_anon,
        max_seq,
        generations,
        ..
    } = &inner.lists
    else {
        panic!("{:?}", inner.lists)
    };
    assert!(min_seq_anon <= max_seq && generations.last().unwrap().seq == *max_seq);
    let pages: u64 = generations.iter().map(|g| g.anon_pages).sum();
    // Of a group, what is zero is left out.
    let level = |name| inner.levels.get(name).copied().unwrap_or(0);
    let listed = level("inactive_anon") + level("active_anon");
    assert_eq!(pages as i64, listed, "{inner:?}");
    assert_eq!(s.regions.len(), 2);
    assert_eq!(s.regions[0].kind, RegionKind::Anonymous);
    assert_eq!(s.regions[0].group, "/outer/inner");
    assert_eq!(s.regions[1].kind, RegionKind::FileReadOnly);
    let resident: u64 = s.regions.iter().map(|r| r.resident_bytes).sum();
    assert_eq!(resident, s.resident_bytes);
    drop(file);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn classic_has_active_and_inactive_lists() {
    let _one = alone();
    let pool = pool("classic");
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    for p in 0..1024 {
        region.fix_mut(p).unwrap()[7] = 1;
    }
    let s = pool.snapshot();
    let Lists::Classic {
        inactive_anon,
        active_anon,
        ..
    } = s.groups.lists
    else {
        panic!("{:?}", s.groups.lists)
    };
    assert!(inactive_anon + active_anon > 0);
    assert_eq!(inactive_anon as i64, s.levels["inactive_anon"]);
    assert_eq!(active_anon as i64, s.levels["active_anon"]);
}

#[test]
fn all_pools_as_json_and_back() {
    let _one = alone();
    let (a, b) = (pool("v5"), pool("classic"));
    let all = snapshot_all();
    assert_eq!(all.pid, std::process::id());
    assert_eq!(all.pools.len(), 2);
    assert!(all.pools[0].pool < all.pools[1].pool);
    let text = serde_json::to_string(&all).unwrap();
    let back: ProcessSnapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(back, all);
    drop(a);
    assert_eq!(snapshot_all().pools[0].policy, "classic");
    drop(b);
    assert!(snapshot_all().pools.is_empty());
}
