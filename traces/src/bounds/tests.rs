//! Bounds against plain definitions, known values and the public traces.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;

use super::positions::Positions;
use super::*;
use crate::{load, Op, OpKind, TraceOptions};

fn sequence(ids: impl IntoIterator<Item = u64>) -> Sequence {
    Sequence::new(ids).expect("short")
}

/// `passes` times the pages `0..pages`.
fn cycle(pages: u64, passes: u64) -> Sequence {
    sequence((0..passes).flat_map(|_| 0..pages))
}

fn plain_lru(ids: &[u64], capacity: usize) -> u64 {
    let mut recent: Vec<u64> = Vec::new();
    let mut misses = 0;
    for &id in ids {
        match recent.iter().position(|&r| r == id) {
            Some(at) => drop(recent.remove(at)),
            None => misses += 1,
        }
        recent.insert(0, id);
        recent.truncate(capacity);
    }
    misses
}

/// The fewest misses over all choices of victims: the definition, not Belady's rule.
fn fewest_misses(ids: &[u64], capacity: usize) -> u64 {
    let mut states: Vec<(BTreeSet<u64>, u64)> = vec![(BTreeSet::new(), 0)];
    for id in ids {
        let mut next: Vec<(BTreeSet<u64>, u64)> = Vec::new();
        let mut add = |resident: BTreeSet<u64>, misses: u64| match next
            .iter_mut()
            .find(|(other, _)| *other == resident)
        {
            Some((_, best)) => *best = misses.min(*best),
            None => next.push((resident, misses)),
        };
        for (mut resident, misses) in states {
            if resident.contains(id) {
                add(resident, misses);
            } else if resident.len() < capacity {
                resident.insert(*id);
                add(resident, misses + 1);
            } else {
                for victim in &resident {
                    let mut after = resident.clone();
                    after.remove(victim);
                    after.insert(*id);
                    add(after, misses + 1);
                }
            }
        }
        states = next;
    }
    states
        .into_iter()
        .map(|(_, misses)| misses)
        .min()
        .expect("one state at least")
}

#[test]
fn textbook_example() {
    // Belady's string, three frames: LRU 10, OPT 7; four frames: LRU 8, OPT 6.
    let belady = sequence([1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5]);
    assert_eq!(
        lru(&belady, 3),
        Bound {
            hits: 2,
            misses: 10,
            compulsory: 5
        }
    );
    assert_eq!(
        opt(&belady, 3),
        Bound {
            hits: 5,
            misses: 7,
            compulsory: 5
        }
    );
    assert_eq!((lru(&belady, 4).misses, opt(&belady, 4).misses), (8, 6));
    assert_eq!(
        (opt(&belady, 3).references(), opt(&belady, 3).refaults()),
        (12, 2)
    );
}

/// The reference case `d_pread_cyc`: 6 passes over 20480 pages with 16330 frames.
#[test]
fn cyclic_reference_case() {
    let cycle = cycle(20480, 6);
    assert_eq!(
        lru(&cycle, 16330),
        Bound {
            hits: 0,
            misses: 122_880,
            compulsory: 20480
        }
    );
    assert_eq!(opt(&cycle, 16330).misses, 41230);
}

/// The reference case `c_pread_uni`: 327680 uniform references to 32768 pages.
#[test]
fn uniform_reference_case() {
    let mut state = 0x243f_6a88_85a3_08d3_u64;
    let uniform = sequence((0..327_680).map(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 32768
    }));
    assert_eq!(lru(&uniform, 16302).misses, 169_682);
    assert_eq!(opt(&uniform, 16302).misses, 78065);
}

#[test]
fn no_frame_no_reference_and_plenty() {
    let cycle = cycle(5, 3);
    for bound in [lru(&cycle, 0), opt(&cycle, 0), lru_at(&cycle, &[0])[0]] {
        assert_eq!(
            bound,
            Bound {
                hits: 0,
                misses: 15,
                compulsory: 5
            }
        );
    }
    for bound in [
        lru(&cycle, u32::MAX),
        opt(&cycle, u32::MAX),
        lru_at(&cycle, &[u32::MAX])[0],
    ] {
        assert_eq!(
            bound,
            Bound {
                hits: 10,
                misses: 5,
                compulsory: 5
            }
        );
    }
    let empty = sequence([]);
    assert!(empty.is_empty());
    for bound in [lru(&empty, 3), opt(&empty, 3), lru_at(&empty, &[3])[0]] {
        assert_eq!(bound.references(), 0);
    }
}

#[test]
fn objects_are_kept_apart_and_tasks_are_not() {
    let op = |object, task, page| Op {
        kind: OpKind::Pread,
        object,
        task,
        page,
    };
    let sequence = Sequence::of_ops(&[op(0, 0, 7), op(1, 0, 7), op(0, 5, 7)]).expect("short");
    assert_eq!((sequence.keys(), sequence.unique()), (&[0, 1, 0][..], 2));
}

#[test]
fn public_loop_trace() {
    let Some(folder) = std::env::var_os("COLDSET_TRACES") else {
        eprintln!("skipped: COLDSET_TRACES does not name a folder with the public traces");
        return;
    };
    let path = PathBuf::from(folder).join("lirs/loop.trace.gz");
    let trace =
        load(path, None, &TraceOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let sequence = Sequence::of_ops(&trace.ops).expect("short");
    assert_eq!(lru(&sequence, 1011).hits, 505_500 - 1011);
    assert_eq!(lru(&sequence, 1000).hits, 0);
    assert_eq!(lru(&sequence, 500).hits, 0);
    assert_eq!(opt(&sequence, 1011).hits, 505_500 - 1011);
    assert!(opt(&sequence, 500).hits > 0);
}

/// A sequence with locality: mostly few pages.
fn ids() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => 0u64..8, 1 => 0u64..60], 0..400)
}

/// References to pages near each other, of several objects, and sometimes to one far away, where no array has room.
fn places() -> impl Strategy<Value = Vec<Op>> {
    let near = || (0u8..4, 0u32..500);
    let near = prop::collection::vec(near(), 0..200);
    let far = prop::option::of((any::<u8>(), 0u32..1 << 31));
    (near, far, 0usize..200).prop_map(|(mut places, far, at)| {
        let at = at.min(places.len());
        places.splice(at..at, far);
        let op = |(object, page)| Op {
            kind: OpKind::Pread,
            object,
            task: 0,
            page,
        };
        places.into_iter().map(op).collect()
    })
}

proptest! {
    #[test]
    fn pages_in_an_array_are_numbered_as_those_in_a_map(ops in places()) {
        let ids = ops.iter().map(|op| u64::from(op.object) << 32 | u64::from(op.page));
        prop_assert_eq!(Sequence::of_ops(&ops).expect("short"), sequence(ids));
    }

    #[test]
    fn lru_is_its_definition(ids in ids(), capacity in 1usize..30) {
        let expected = plain_lru(&ids, capacity);
        let sequence = sequence(ids);
        prop_assert_eq!(lru(&sequence, capacity as u32).misses, expected);
    }

    #[test]
    fn one_pass_equals_single_replays(ids in ids(), capacities in prop::collection::vec(0u32..80, 0..6)) {
        let sequence = sequence(ids);
        let single: Vec<Bound> = capacities.iter().map(|&capacity| lru(&sequence, capacity)).collect();
        prop_assert_eq!(lru_at(&sequence, &capacities), single);
    }

    #[test]
    fn opt_is_the_minimum(ids in prop::collection::vec(0u64..6, 0..24), capacity in 1usize..5) {
        let expected = fewest_misses(&ids, capacity);
        prop_assert_eq!(opt(&sequence(ids), capacity as u32).misses, expected);
    }

    #[test]
    fn bounds_are_ordered(ids in ids(), capacity in 1u32..40) {
        let sequence = sequence(ids);
        let (best, recent) = (opt(&sequence, capacity), lru(&sequence, capacity));
        prop_assert!(best.compulsory <= best.misses && best.misses <= recent.misses);
        prop_assert!(opt(&sequence, capacity + 1).misses <= best.misses);
    }

    #[test]
    fn positions_are_a_sorted_set(changes in prop::collection::vec((0usize..9000, 0u8..3), 0..300)) {
        let mut set = Positions::new(9000);
        let mut model = BTreeSet::new();
        for (position, change) in changes {
            match change {
                0 => prop_assert_eq!(set.remove(position), model.remove(&position)),
                1 => prop_assert_eq!(set.pop_last(), model.pop_last()),
                _ => if model.insert(position) { set.insert(position) },
            }
        }
    }
}
