//! Order of the memcg LRU (`docs/rules/memcg-lru.md`).
//!
//! Which bin a memcg is in cannot be asked, but walks show it: a walk that moves nothing lists all bins of the old
//! generation, beginning with any of them. So many such walks give the bins as the stretches that are never cut.

use crate::Rng;
use coldset_engine::memcg::{LruOp, MemcgLru};
use coldset_engine::MemcgId;
use std::collections::{BTreeMap, BTreeSet};

/// The bins of the old generation, each from head to tail, by their first member.
fn bins(lru: &mut MemcgLru) -> BTreeSet<Vec<MemcgId>> {
    let mut starts = BTreeSet::new();
    let mut order = Vec::new();
    for _ in 0..150 {
        let mut walk = lru.walk_begin();
        order = std::iter::from_fn(|| lru.walk_next(&mut walk)).collect();
        starts.extend(order.first().copied());
    }
    let mut bins: Vec<Vec<MemcgId>> = Vec::new();
    for id in order {
        if starts.contains(&id) {
            bins.push(Vec::new());
        }
        bins.last_mut().expect("the first begins a bin").push(id);
    }
    bins.into_iter().collect()
}

/// The same without a member.
fn without(bins: &BTreeSet<Vec<MemcgId>>, id: MemcgId) -> BTreeSet<Vec<MemcgId>> {
    let mut left: BTreeSet<Vec<MemcgId>> = bins.clone();
    if let Some(bin) = bins.iter().find(|b| b.contains(&id)) {
        left.remove(bin);
        let rest: Vec<_> = bin.iter().copied().filter(|&m| m != id).collect();
        if !rest.is_empty() {
            left.insert(rest);
        }
    }
    left
}

#[test]
fn a_move_changes_one_place_and_nothing_else() {
    let (mut alone, mut shared) = (0, 0);
    for seed in 0..12 {
        let r = &mut Rng(seed);
        let mut lru = MemcgLru::new(seed);
        // Members and whether they are old.
        let mut truth: BTreeMap<MemcgId, bool> = BTreeMap::new();
        let mut was = BTreeSet::new();
        for _ in 0..150 {
            let id = MemcgId(1 + r.below(24) as u32);
            let known = truth.contains_key(&id);
            // Some(end): it comes to this end of a bin of the old generation.
            let mut end = None;
            match (known, r.below(8)) {
                (false, _) => {
                    lru.online(id);
                    end = Some(LruOp::Tail);
                    truth.insert(id, true);
                }
                (_, 0) => {
                    lru.release(id);
                    truth.remove(&id);
                }
                (_, 1) => {
                    lru.offline(id);
                    end = Some(LruOp::Head);
                    truth.insert(id, true);
                }
                (_, 2..=4) => {
                    lru.apply(id, LruOp::Young);
                    truth.insert(id, false);
                }
                (_, op) => {
                    let op = [LruOp::Head, LruOp::Tail][op as usize % 2];
                    lru.apply(id, op);
                    end = truth[&id].then_some(op);
                }
            }
            let flipped = !truth.is_empty() && !truth.values().any(|&old| old);
            if flipped {
                // Young becomes old; what its bins hold has not been seen so far.
                truth.values_mut().for_each(|old| *old = true);
            }
            let now = bins(&mut lru);
            let members: BTreeSet<MemcgId> = now.iter().flatten().copied().collect();
            let old = truth.iter().filter(|m| *m.1).map(|m| *m.0).collect();
            assert_eq!(members, old, "seed {seed}");
            if !flipped {
                assert_eq!(
                    without(&now, id),
                    without(&was, id),
                    "seed {seed}: others moved"
                );
                if let Some(end) = end {
                    let bin = now.iter().find(|b| b.contains(&id)).unwrap();
                    let at = if end == LruOp::Head {
                        bin.first()
                    } else {
                        bin.last()
                    };
                    assert_eq!(at, Some(&id), "seed {seed}: {end:?} in {bin:?}");
                    *if bin.len() > 1 {
                        &mut shared
                    } else {
                        &mut alone
                    } += 1;
                }
            }
            was = now;
        }
    }
    assert!(alone > 50 && shared > 200, "{alone} {shared}");
}

/// What a walk does with results: each old member is met, one that is put off at most once more, and nobody whose
/// generation is not the one that was old when the walk began.
#[test]
fn a_walk_meets_each_member_of_its_generation() {
    let mut again = 0;
    for seed in 0..300 {
        let r = &mut Rng(seed);
        let mut lru = MemcgLru::new(seed);
        let n = 1 + r.below(30) as u32;
        for id in (1..=n).map(MemcgId) {
            lru.online(id);
            if r.one_in(3) && id.0 > 1 {
                lru.apply(id, LruOp::Young);
            }
        }
        let seq = lru.seq();
        let old: BTreeSet<_> = (1..=n)
            .map(MemcgId)
            .filter(|&m| lru.gen(m) == Some(seq as usize % 3))
            .collect();
        let mut visits: BTreeMap<MemcgId, u32> = BTreeMap::new();
        let mut rotated = BTreeSet::new();
        let mut walk = lru.walk_begin();
        while let Some(id) = lru.walk_next(&mut walk) {
            *visits.entry(id).or_default() += 1;
            assert!(!rotated.contains(&id), "seed {seed}: {id:?} is young");
            let op = match (visits[&id], r.below(3)) {
                (1, 0) => Some(LruOp::Tail),
                (1, 1) => None,
                _ => Some(LruOp::Young),
            };
            if op == Some(LruOp::Young) {
                rotated.insert(id);
            }
            walk.set_result(op);
        }
        assert_eq!(
            visits.keys().copied().collect::<BTreeSet<_>>(),
            old,
            "seed {seed}"
        );
        assert!(visits.values().all(|&n| n <= 2), "seed {seed}: {visits:?}");
        again += visits.values().filter(|&&n| n == 2).count();
        let left = old.len() - rotated.len();
        assert_eq!(lru.seq(), seq + u64::from(left == 0));
        for &m in &old {
            let gen = (seq as usize + usize::from(rotated.contains(&m))) % 3;
            assert_eq!(lru.gen(m), Some(gen), "seed {seed}");
        }
    }
    assert!(again > 100, "{again}");
}
