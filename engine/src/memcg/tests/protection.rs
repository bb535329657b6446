//! Effective protection.

use super::*;

fn memcg(t: &mut MemcgTree, parent: MemcgId, low: u64, own_usage: u64) -> MemcgId {
    let id = t.create(parent).unwrap();
    t.set_low(id, low).unwrap();
    fill(t, id, own_usage);
    id
}

fn elows(t: &mut MemcgTree, root: MemcgId, ids: &[MemcgId]) -> Vec<u64> {
    let order: Vec<_> = t.preorder(root).collect();
    for id in order {
        t.calculate_protection(root, id);
    }
    ids.iter().map(|&id| t[id].memory().elow()).collect()
}

fn without_recursion() -> MemcgTree {
    MemcgTree::new(MemcgConfig {
        recursive_protection: false,
        ..MemcgConfig::default()
    })
    .unwrap()
}

#[test]
fn m3_protection() {
    for (mut t, c_elow) in [(without_recursion(), 1024), (tree(), 1536)] {
        let a = memcg(&mut t, ROOT, 2048, 0);
        let b = memcg(&mut t, a, 1024, 512);
        let c = memcg(&mut t, a, 1024, 2560);
        assert_eq!(usage(&t, a), 3072);
        assert_eq!(t[a].memory().children_low_usage(), 1536);
        assert_eq!(elows(&mut t, ROOT, &[a, b, c]), [2048, 512, c_elow]);
        assert!(t.below_low(ROOT, b));
        assert!(!t.below_low(ROOT, c));
        // A target ignores its own protection, and its children are protected relative to it.
        assert!(!t.below_low(b, b));
        assert_eq!(elows(&mut t, a, &[b, c]), [1024, 1024]);
    }
}

#[test]
fn m3_overcommit() {
    let mut t = tree();
    let p = memcg(&mut t, ROOT, 600, 0);
    let a = memcg(&mut t, p, 500, 500);
    let b = memcg(&mut t, p, 500, 300);
    assert_eq!(elows(&mut t, ROOT, &[a, b]), [375, 225]);
}

#[test]
fn m3_no_claims() {
    let mut t = tree();
    let p = memcg(&mut t, ROOT, 1000, 0);
    let a = memcg(&mut t, p, 0, 3000);
    let b = memcg(&mut t, p, 0, 1000);
    assert_eq!(elows(&mut t, ROOT, &[a, b]), [750, 250]);
}

#[test]
fn m4_scaling() {
    assert_eq!(
        scale_by_protection(100_000, 100_000, 0, 80_000, false),
        (20_001, true)
    );
    assert_eq!(20_001 >> 6, 312);
    assert_eq!(
        scale_by_protection(100_000, 100_000, 0, 80_000, true),
        (100_000, false)
    );
    assert_eq!(100_000 >> 6, 1562);

    let mut t = tree();
    let a = memcg(&mut t, ROOT, 80_000, 100_000);
    elows(&mut t, ROOT, &[]);
    assert_eq!(t.scan_scaled(100_000, a, ROOT, false), (20_001, true));
    assert_eq!(t.scan_scaled(100_000, a, a, false), (100_000, false));
}

#[test]
fn scaling_keeps_a_floor_and_never_overflows() {
    assert_eq!(scale_by_protection(1000, 500, 0, 600, false), (32, true));
    assert_eq!(scale_by_protection(1000, 500, 600, 0, false), (32, false));
    assert_eq!(scale_by_protection(1000, 500, 0, 0, false), (1000, false));
    assert_eq!(
        scale_by_protection(u64::MAX, u64::MAX - 1, 0, 1, false).0,
        u64::MAX - 1
    );
}

#[test]
fn an_empty_memcg_counts_as_protected_but_the_root_never_does() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    assert!(t.below_min(ROOT, a) && t.below_low(ROOT, a));
    assert!(!t.below_min(a, a) && !t.below_low(a, a));
    assert!(!t.below_min(a, ROOT) && !t.below_low(a, ROOT));
}

#[test]
fn min_is_shared_like_low() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    t.set_min(p, 600).unwrap();
    let (a, b) = (t.create(p).unwrap(), t.create(p).unwrap());
    for (id, n) in [(a, 500), (b, 300)] {
        t.set_min(id, 500).unwrap();
        fill(&mut t, id, n);
    }
    elows(&mut t, ROOT, &[]);
    assert_eq!((t[a].memory().emin(), t[b].memory().emin()), (375, 225));
    assert!(!t.below_min(ROOT, p));
}
