//! What can be seen of a pool: snapshots.

use crate::common::*;
use coldset_pager::observe::{snapshot_all, GroupSnapshot, Lists, ProcessSnapshot, RegionKind};
use coldset_pager::{Advice, Error, FaultMode, Group, Limits, Pool, PoolConfig, SwapConfig};

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

/// Metrics and snapshots go by names: none is there twice, also if slashes make two names one path.
#[test]
fn a_group_has_a_name_of_its_own() {
    let _one = alone();
    let pool = pool("v5");
    let refused = |r: Result<Group, Error>, name: &str, why: &str| {
        let e = r.unwrap_err();
        assert!(matches!(e, Error::GroupName { .. }), "{e:?}");
        let told = e.to_string();
        assert!(
            told.contains(&format!("{name:?}")) && told.contains(why),
            "{told}"
        );
    };
    let none = Limits::new;
    let a = pool.group("a", none()).unwrap();
    refused(pool.group("a", none()), "a", "keep its handle");
    for empty in ["", "/", "//"] {
        refused(pool.group(empty, none()), empty, "it is empty");
        refused(a.group(empty, none()), empty, "it is empty");
    }
    for bad in ["a\0b", "\u{1b}[2J", "two\nlines", "\u{9b}"] {
        refused(pool.group(bad, none()), bad, "control characters");
    }
    let (longest, longer) = ("n".repeat(255), "n".repeat(256));
    pool.group(&longest, none()).unwrap();
    refused(pool.group(&longer, none()), &longer, "longer than 255");
    let b = a.group("b", none()).unwrap();
    assert_eq!((pool.root().name(), b.name()), ("/", "/a/b"));
    refused(pool.group("a/b", none()), "a/b", "keep its handle");
    // Of another group, or of another pool: the paths differ.
    a.group("a", none()).unwrap();
    pool.group("b", none()).unwrap();
    let other = self::pool("v5");
    other.group("a", none()).unwrap();
    // As long as the pool.
    drop(b);
    refused(a.group("b", none()), "b", "keep its handle");
    // Two threads, one name: one of them gets it.
    for n in 0..20 {
        let name = format!("of two {n}");
        let made = std::thread::scope(|s| {
            let both = [(); 2].map(|()| s.spawn(|| pool.group(&name, none()).is_ok()));
            both.map(|t| t.join().unwrap())
        });
        assert_eq!(made.iter().filter(|m| **m).count(), 1);
    }
    let mut names = Vec::new();
    fn each(g: &GroupSnapshot, to: &mut Vec<String>) {
        to.push(g.name.clone());
        g.children.iter().for_each(|c| each(c, to));
    }
    each(&pool.snapshot().groups, &mut names);
    assert_eq!(names.len(), 26);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 26, "{names:?}");
}

/// No series twice, and labels as they are to be written, whatever the names.
#[cfg(feature = "metrics")]
#[test]
fn every_series_is_there_once() {
    use std::collections::BTreeSet;
    use std::io::{Read, Write};
    let _one = alone();
    let config = PoolConfig::new(2 * MIB)
        .fault_mode(FaultMode::Explicit)
        .metrics("127.0.0.1:0");
    let pool = Pool::new(config).unwrap();
    let odd = pool.group("odd \"quoted\"\\", Limits::new()).unwrap();
    for name in ["a", "b"] {
        let _there = (
            pool.group(name, Limits::new()),
            pool.group(name, Limits::new()),
        );
        let _there = (odd.group(name, Limits::new()), odd.group("", Limits::new()));
    }
    let mut to = std::net::TcpStream::connect(pool.metrics_address().unwrap()).unwrap();
    to.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    to.read_to_string(&mut text).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let mut series = BTreeSet::new();
    for line in body.lines().filter(|l| !l.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.insert(name.to_string()), "twice: {name}");
    }
    let groups = series
        .iter()
        .filter(|s| s.starts_with("coldset_group_usage"));
    assert_eq!(groups.count(), 6);
    assert!(body.contains(r#"group="/odd \"quoted\"\\/a""#), "{body}");
    assert!(!body.contains("pgfault"), "{body}");
}
