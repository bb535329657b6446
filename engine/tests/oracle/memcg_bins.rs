//! Bins of the memcg LRU (`docs/rules/memcg-lru.md#structure`): how memcgs are spread over them, whatever brings them
//! there, and where walks begin.
//!
//! A bin is a stretch of the old generation that no walk begins inside of.

use coldset_engine::memcg::{LruOp, MemcgLru};
use coldset_engine::MemcgId;
use std::collections::{BTreeMap, BTreeSet};

const MEMCGS: u32 = 1600;
const BINS: usize = 8;

fn order(lru: &mut MemcgLru) -> Vec<MemcgId> {
    let mut walk = lru.walk_begin();
    std::iter::from_fn(|| lru.walk_next(&mut walk)).collect()
}

/// The bin of each memcg, and how many of `walks` walks began with each bin.
fn bins(lru: &mut MemcgLru, walks: usize) -> (BTreeMap<MemcgId, usize>, Vec<usize>) {
    let first = order(lru);
    let place: BTreeMap<MemcgId, usize> = first.iter().copied().zip(0..).collect();
    let mut starts = BTreeMap::from([(0, 1)]);
    for _ in 1..walks {
        let order = order(lru);
        let start = place[&order[0]];
        let around = first[start..].iter().chain(&first[..start]);
        assert!(order.iter().eq(around), "bins follow each other in a ring");
        *starts.entry(start).or_insert(0) += 1;
    }
    let begins: BTreeSet<usize> = starts.keys().copied().collect();
    let bin = |at: usize| begins.range(..=at).count() - 1;
    let bins = place.iter().map(|(&id, &at)| (id, bin(at))).collect();
    (bins, starts.into_values().collect())
}

/// Some 200 of 1600 a bin, within five standard deviations.
fn assert_even(counts: &[usize]) {
    assert_eq!(counts.len(), BINS, "{counts:?}");
    let near = |&n: &usize| (134..=266).contains(&n);
    assert!(counts.iter().all(near), "{counts:?}");
}

fn full(seed: u64) -> MemcgLru {
    let mut lru = MemcgLru::new(seed);
    (1..=MEMCGS).for_each(|id| lru.online(MemcgId(id)));
    lru
}

#[test]
fn walks_begin_at_each_of_eight_bins() {
    for seed in 0..3 {
        let (_, starts) = bins(&mut full(seed), MEMCGS as usize);
        assert_even(&starts);
    }
}

#[test]
fn whatever_moves_a_memcg_takes_it_to_any_bin() {
    type Move = fn(&mut MemcgLru, MemcgId);
    let moves: [(&str, Move); 5] = [
        ("head", |lru, id| lru.apply(id, LruOp::Head)),
        ("tail", |lru, id| lru.apply(id, LruOp::Tail)),
        // All of them: young becomes old.
        ("young", |lru, id| lru.apply(id, LruOp::Young)),
        ("offline", |lru, id| lru.offline(id)),
        ("made anew", |lru, id| {
            lru.release(id);
            lru.online(id);
        }),
    ];
    for seed in 0..3 {
        for (what, apply) in moves {
            let mut lru = full(seed);
            let (was, _) = bins(&mut lru, 150);
            (1..=MEMCGS).for_each(|id| apply(&mut lru, MemcgId(id)));
            let (now, _) = bins(&mut lru, 150);
            let mut counts = [0; BINS];
            let mut from_to = [[0; BINS]; BINS];
            for (id, &bin) in &now {
                counts[bin] += 1;
                from_to[was[id]][bin] += 1;
            }
            assert_even(&counts);
            // 25 of each bin in each bin, within five standard deviations.
            let near = |n: &i32| (1..=50).contains(n);
            let even = from_to.iter().flatten().all(near);
            assert!(even, "seed {seed}, {what}: {from_to:?}");
        }
    }
}
