//! Statistics, their lag, and what remains of released memcgs.

use super::*;

const C: Counter = Counter::RefaultFile;

#[test]
fn folded_values_lag_until_the_next_fold() {
    let mut t = MemcgTree::new(MemcgConfig {
        fold_interval: 2000,
        fold_phase: 500,
        ..MemcgConfig::default()
    })
    .unwrap();
    let p = t.create(ROOT).unwrap();
    let a = t.create(p).unwrap();
    t.count(a, C, 5);
    t.count(p, C, 2);
    assert_eq!((t.local(p)[C], t.live(p, C), t.folded(p, C)), (2, 7, 0));
    assert!(!t.maybe_fold(499));
    assert!(t.maybe_fold(500));
    assert_eq!(
        (t.folded(a, C), t.folded(p, C), t.folded(ROOT, C)),
        (5, 7, 7)
    );
    t.count(a, C, -1);
    assert!(!t.maybe_fold(2499));
    assert!(t.maybe_fold(9000));
    assert_eq!(t.next_fold(), 10_500);
    assert_eq!(t.folded(ROOT, C), 6);
}

#[test]
fn reading_folds_the_subtree_above_the_threshold_only() {
    let mut t = tree(); // 2 CPUs: more than 128 pending updates
    let (a, b) = (t.create(ROOT).unwrap(), t.create(ROOT).unwrap());
    let a1 = t.create(a).unwrap();
    t.count(a1, C, 128);
    assert_eq!(t.read_stat(a).unwrap()[C], 0);
    t.count(a, C, -1);
    t.count(b, C, 1000);
    assert_eq!(t.read_stat(a).unwrap()[C], 127);
    assert_eq!((t.folded(b, C), t.folded(ROOT, C)), (0, 0));
    assert_eq!(t.read_stat(ROOT).unwrap()[C], 1127);
    assert!(t.read_stat(MemcgId(77)).is_err());
}

#[test]
fn events_are_hierarchical_except_at_the_root() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    let a = t.create(p).unwrap();
    t.event(a, Counter::EventsLow);
    t.event(ROOT, Counter::EventsLow);
    t.fold();
    for (id, n) in [(a, 1), (p, 1), (ROOT, 1)] {
        assert_eq!(t.event_total(id, Counter::EventsLow), n);
        assert_eq!(t.folded(id, Counter::EventsLow), n);
    }
    assert_eq!(t.live(ROOT, Counter::EventsLow), 2);
}

#[test]
fn a_released_memcg_leaves_its_counts_to_its_ancestors() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    let a = t.create(p).unwrap();
    let a1 = t.create(a).unwrap();
    t.count(a1, C, 3);
    t.event(a1, Counter::EventsMax);
    for id in [a1, a] {
        t.offline(id).unwrap();
        t.release(id).unwrap();
    }
    let again = t.create(p).unwrap();
    t.fold();
    assert_eq!((t.live(p, C), t.folded(p, C), t.folded(ROOT, C)), (3, 3, 3));
    assert_eq!(
        (t.local(p)[C], t.live(again, C), t.folded(again, C)),
        (0, 0, 0)
    );
    assert_eq!(t.event_total(p, Counter::EventsMax), 1);
    assert_eq!(t.folded(ROOT, Counter::EventsMax), 0);
}
