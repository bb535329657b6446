//! The memcg LRU.

use super::*;
use proptest::prelude::*;

const A: MemcgId = MemcgId(1);
const B: MemcgId = MemcgId(2);
const C: MemcgId = MemcgId(3);

fn lru_of(ids: &[MemcgId], seed: u64) -> MemcgLru {
    let mut lru = MemcgLru::new(seed);
    ids.iter().for_each(|&id| lru.online(id));
    lru
}

fn walk(
    lru: &mut MemcgLru,
    mut result: impl FnMut(&MemcgLru, MemcgId) -> Option<LruOp>,
) -> Vec<MemcgId> {
    let mut w = lru.walk_begin();
    let mut seen = Vec::new();
    while let Some(id) = lru.walk_next(&mut w) {
        seen.push(id);
        assert!(seen.len() < 10_000, "the walk must end");
        w.set_result(result(lru, id));
    }
    seen
}

#[test]
fn m9_memcg_lru() {
    for seed in 0..20 {
        let mut lru = lru_of(&[A], seed);
        assert_eq!((lru.seq(), lru.gen(A)), (0, Some(0)));
        let mut w = lru.walk_begin();
        assert_eq!(lru.walk_next(&mut w), Some(A));
        w.set_result(after_visit(false, true, false, lru.seg(A)));
        assert_eq!(lru.gen(A), Some(0));
        lru.walk_stop(&mut w);
        assert_eq!(
            (lru.gen(A), lru.seg(A), lru.seq()),
            (Some(0), LruSeg::Tail, 0)
        );
        let mut w = lru.walk_begin();
        assert_eq!(lru.walk_next(&mut w), Some(A));
        w.set_result(after_visit(false, true, false, lru.seg(A)));
        assert_eq!(lru.walk_next(&mut w), None);
        assert_eq!((lru.gen(A), lru.nr_memcgs(0), lru.seq()), (Some(1), 0, 1));
        assert_eq!(walk(&mut lru, |_, _| None), [A]); // it is old again
    }
}

#[test]
fn mglru_e15_memcg_lru() {
    for seed in 0..20 {
        let mut lru = lru_of(&[A, B, C], seed);
        lru.offline(C);
        // A rotates, B stays, C is offline and has pages left.
        let mut seen = walk(&mut lru, |lru, id| match id {
            A => after_visit(true, true, true, lru.seg(id)),
            B => after_visit(false, true, true, lru.seg(id)),
            _ => after_visit(false, false, true, lru.seg(id)),
        });
        seen.sort();
        assert_eq!(seen, [A, B, C]);
        assert_eq!([A, B, C].map(|id| lru.gen(id)), [Some(1), Some(0), Some(0)]);
        // C is empty: TAIL, then YOUNG.
        assert_eq!(
            after_visit(false, false, false, lru.seg(C)),
            Some(LruOp::Tail)
        );
        lru.apply(C, LruOp::Tail);
        assert_eq!(lru.gen(C), Some(0));
        assert_eq!(
            after_visit(false, false, false, lru.seg(C)),
            Some(LruOp::Young)
        );
        lru.apply(C, LruOp::Young);
        assert_eq!((lru.gen(C), lru.seq()), (Some(1), 0));
        lru.apply(B, LruOp::Young);
        assert_eq!((lru.nr_memcgs(0), lru.seq()), (0, 1));
    }
}

#[test]
fn visits_follow_protection() {
    assert_eq!(
        before_visit(true, true, LruSeg::Tail),
        BeforeVisit::Skip(LruOp::Young)
    );
    assert_eq!(
        before_visit(false, true, LruSeg::Default),
        BeforeVisit::Skip(LruOp::Tail)
    );
    assert_eq!(
        before_visit(false, true, LruSeg::Tail),
        BeforeVisit::Shrink { low_event: true }
    );
    assert_eq!(
        before_visit(false, false, LruSeg::Tail),
        BeforeVisit::Shrink { low_event: false }
    );
    // An offline memcg whose lruvec was aged is put off, not rotated.
    assert_eq!(
        after_visit(true, false, true, LruSeg::Default),
        Some(LruOp::Tail)
    );
}

#[test]
fn bins_depend_on_the_seed_alone() {
    let ids: Vec<_> = (1..200).map(MemcgId).collect();
    let first = |seed| walk(&mut lru_of(&ids, seed), |_, _| None);
    assert_eq!(first(7), first(7));
    assert_ne!(first(7), first(8));
}

/// Two members share a bin iff their order is the same whatever bin a walk starts from; then the
/// operation decides the order.
#[test]
fn operations_choose_the_end_of_the_list() {
    for (op, order) in [
        (LruOp::Head, [B, A]),
        (LruOp::Old, [B, A]),
        (LruOp::Tail, [A, B]),
    ] {
        let mut same_bin = 0;
        for seed in 0..200 {
            let mut lru = lru_of(&[A, B], seed);
            lru.apply(B, op);
            let orders: Vec<_> = (0..64).map(|_| walk(&mut lru, |_, _| None)).collect();
            if orders.iter().all(|o| o == &orders[0]) {
                assert_eq!(orders[0], order, "{op:?}, seed {seed}");
                same_bin += 1;
            }
        }
        assert!(
            (5..=60).contains(&same_bin),
            "an eighth expected: {same_bin}"
        );
    }
}

#[test]
fn a_memcg_that_goes_away_under_a_walk_does_not_lose_the_rest() {
    for seed in 0..50 {
        let ids: Vec<_> = (1..40).map(MemcgId).collect();
        let mut lru = lru_of(&ids, seed);
        let mut w = lru.walk_begin();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(id) = lru.walk_next(&mut w) {
            seen.insert(id);
            if id.0 % 3 == 0 {
                lru.release(id);
            } else if id.0 % 3 == 1 {
                lru.apply(id, LruOp::Young); // another reclaimer aged it
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ids);
        assert_eq!(lru.nr_memcgs(0), 13);
        assert_eq!(lru.nr_memcgs(1), 13);
    }
}

proptest! {
    /// Members are counted, only the old and the young generation are populated, and the old one
    /// is empty only if all are.
    #[test]
    fn random_operations_keep_the_generations(
        seed in any::<u64>(),
        ops in prop::collection::vec((1u32..20, 0u8..8), 1..300),
    ) {
        let mut lru = MemcgLru::new(seed);
        let mut members = std::collections::BTreeSet::new();
        for (id, op) in ops {
            let id = MemcgId(id);
            match op {
                0 | 1 => if members.insert(id) { lru.online(id) },
                2 => { members.remove(&id); lru.release(id) }
                3 => lru.apply(id, LruOp::Head),
                4 => lru.apply(id, LruOp::Tail),
                5 => lru.offline(id),
                6 => lru.apply(id, LruOp::Young),
                _ => {
                    let old: usize = (lru.seq() % 3) as usize;
                    let mut want: Vec<_> = members.iter().copied()
                        .filter(|&m| lru.gen(m) == Some(old)).collect();
                    let mut seen = walk(&mut lru, |_, m| (m.0 % 2 == 0).then_some(LruOp::Young));
                    seen.sort();
                    want.sort();
                    prop_assert_eq!(seen, want);
                }
            }
            let old = (lru.seq() % 3) as usize;
            let nr: Vec<_> = (0..3).map(|g| lru.nr_memcgs(g)).collect();
            prop_assert_eq!(nr.iter().sum::<u32>() as usize, members.len());
            prop_assert_eq!(nr[(old + 2) % 3], 0);
            prop_assert!(nr[old] > 0 || members.is_empty());
        }
    }
}
