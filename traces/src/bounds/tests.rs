//! Bounds against plain definitions, known values and the public traces.

mod gone;

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;

use super::positions::Positions;
use super::*;
use crate::step::{Event, Step, StepKind};
use crate::{load, Op, OpKind, Trace, TraceOptions};

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

/// One reference of a test: `read`: its page has to be read if it is absent; `takes`: before it, so many more
/// frames are taken for good.
type Reference = (u64, bool, u32);

fn with_kinds(references: &[Reference]) -> Sequence {
    let mut numbers = std::collections::HashMap::new();
    let (mut sequence, mut taken) = (Sequence::default(), 0);
    for &(id, read, takes) in references {
        taken += takes;
        sequence.take(taken);
        let next = sequence.unique();
        let number = *numbers.entry(id).or_insert(next);
        sequence.push(number, !read).expect("short");
    }
    sequence
}

/// The fewest reads over everything that a memory could do: before each reference it may let go of any pages, whether
/// it has to or not.
fn fewest_reads(references: &[Reference], capacity: u32) -> u64 {
    let mut states = std::collections::BTreeMap::from([(BTreeSet::new(), 0u64)]);
    let mut taken = 0;
    for &(id, read, takes) in references {
        taken += takes;
        let room = capacity.saturating_sub(taken).max(1) as usize;
        let mut next: std::collections::BTreeMap<BTreeSet<u64>, u64> = Default::default();
        for (resident, reads) in states {
            let all: Vec<u64> = resident.iter().copied().collect();
            for choice in 0..1u32 << all.len() {
                let kept = all.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1);
                let mut kept: BTreeSet<u64> = kept.map(|(_, &page)| page).collect();
                let cost = u64::from(read && !kept.contains(&id));
                kept.insert(id);
                if kept.len() <= room {
                    let best = next.entry(kept).or_insert(u64::MAX);
                    *best = reads.saturating_add(cost).min(*best);
                }
            }
        }
        states = next;
    }
    states.into_values().min().expect("one state at least")
}

/// LRU by a list of pages, newest first.
fn plain_lru_reads(references: &[Reference], capacity: u32) -> u64 {
    let (mut recent, mut reads, mut taken) = (Vec::new(), 0, 0);
    for &(id, read, takes) in references {
        taken += takes;
        let room = capacity.saturating_sub(taken).max(1) as usize;
        recent.truncate(room);
        match recent.iter().position(|&r| r == id) {
            Some(at) => drop(recent.remove(at)),
            None => reads += u64::from(read),
        }
        recent.insert(0, id);
        recent.truncate(room);
    }
    reads
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
    let trace = Trace::from_ops(vec![op(0, 0, 7), op(1, 0, 7), op(0, 5, 7)]);
    let sequence = Sequence::of_trace(&trace, Count::Reads, true).expect("short");
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
    let sequence = Sequence::of_trace(&trace, Count::Reads, true).expect("short");
    assert_eq!(lru(&sequence, 1011).hits, 505_500 - 1011);
    assert_eq!(lru(&sequence, 1000).hits, 0);
    assert_eq!(lru(&sequence, 500).hits, 0);
    assert_eq!(opt(&sequence, 1011).hits, 505_500 - 1011);
    assert!(opt(&sequence, 500).hits > 0);
}

#[test]
fn what_reads_nothing_is_no_miss_unless_absences_are_counted() {
    use OpKind::{AnonRead, AnonWrite, Pread, Pwrite, WholeWrite};
    let kinds = [
        (WholeWrite, 0, 0), // free
        (Pread, 0, 1),      // reads
        (Pwrite, 0, 2),     // reads
        (AnonRead, 1, 0),   // zeroes, which take no memory
        (AnonWrite, 1, 0),  // first touch: free
        (AnonWrite, 1, 1),  // likewise
        (AnonRead, 1, 0),   // swapped out by now: reads
        (WholeWrite, 0, 1), // free
        (Pread, 0, 0),      // reads
    ];
    let op = |(kind, object, page)| Op {
        kind,
        object,
        task: 0,
        page,
    };
    let trace = Trace::from_ops(kinds.map(op).into());
    let misses = |count, swap| {
        let sequence = Sequence::of_trace(&trace, count, swap).expect("short");
        (lru(&sequence, 1).misses, sequence.compulsory())
    };
    assert_eq!(misses(Count::Reads, true), (4, 2));
    assert_eq!(misses(Count::Absences, true), (8, 5));
    // Anonymous pages are no part of it.
    assert_eq!(misses(Count::Reads, false), (3, 2));
}

#[test]
fn nothing_is_read_for_what_was_cut_off_until_it_is_written() {
    let op = |kind, page| Op {
        kind,
        object: 0,
        task: 0,
        page,
    };
    let read = |page| op(OpKind::Pread, page);
    let ops = [
        read(0),
        read(9),
        read(0),
        read(9),
        op(OpKind::Pwrite, 9),
        read(0),
        read(9),
    ];
    let cut = |kind, value| Event {
        at: 2,
        step: Step {
            kind,
            object: 0,
            task: 0,
            value,
        },
    };
    let misses = |events| {
        let trace = Trace::from_ops(ops.to_vec()).with_events(events);
        let count = |count| Sequence::of_trace(&trace, count, true).expect("short");
        [Count::Reads, Count::Absences].map(|c| lru(&count(c), 1).misses)
    };
    assert_eq!(misses(vec![]), [6, 6]);
    assert_eq!(misses(vec![cut(StepKind::Truncate, 10)]), [6, 6]);
    // Page 9 is a hole for the fourth reference, and no longer for the last.
    assert_eq!(misses(vec![cut(StepKind::Truncate, 9)]), [5, 6]);
    assert_eq!(misses(vec![cut(StepKind::Unlink, 0)]), [3, 6]);
    assert_eq!(misses(vec![cut(StepKind::Truncate, 9); 2]), [5, 6]);
}

#[test]
fn anonymous_memory_that_was_given_back_is_new() {
    let op = |kind, object, page| Op {
        kind,
        object,
        task: 0,
        page,
    };
    let anon = |page| op(OpKind::AnonWrite, 1, page);
    let file = |page| op(OpKind::Pread, 0, page);
    let ops = [
        anon(0),
        anon(1),
        file(0),
        file(0),
        anon(0),
        anon(1),
        file(0),
    ];
    let gone = |kind, object| Event {
        at: 3,
        step: Step {
            kind,
            object,
            task: 0,
            value: 0,
        },
    };
    let trace = |events| Trace::from_ops(ops.to_vec()).with_events(events);
    let kept = Sequence::of_trace(&trace(vec![]), Count::Reads, true).expect("short");
    assert_eq!((kept.unique(), opt(&kept, 1).misses), (3, 4));
    for event in [gone(StepKind::Unmap, 1), gone(StepKind::Exit, 0)] {
        let sequence = Sequence::of_trace(&trace(vec![event]), Count::Reads, true).expect("short");
        assert_eq!((sequence.unique(), opt(&sequence, 1).misses), (5, 2));
    }
    let peak = |events| Sequence::peak(&trace(events)).expect("short");
    assert_eq!((peak(vec![]), peak(vec![gone(StepKind::Unmap, 1)])), (3, 3));
    // Without swap they take frames, and give them back.
    let without = Sequence::of_trace(&trace(vec![gone(StepKind::Unmap, 1)]), Count::Reads, false);
    let without = without.expect("short");
    let mut taken = without.taken();
    assert_eq!([0, 1, 2].map(|at| taken.at(at)), [2, 0, 2]);
    assert!(!without.only_takes());
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
        let expected = sequence(ids);
        let trace = Trace::from_ops(ops);
        prop_assert_eq!(Sequence::of_trace(&trace, Count::Reads, true).expect("short"), expected);
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

    /// Of more pages than a block of marks has positions, and often enough to drop what is stale.
    #[test]
    fn one_pass_equals_single_replays_of_many_pages(
        ids in prop::collection::vec(0u64..900, 2500..5000),
        capacities in prop::collection::vec(0u32..1000, 1..4),
    ) {
        let sequence = sequence(ids);
        let single: Vec<Bound> = capacities.iter().map(|&capacity| lru(&sequence, capacity)).collect();
        prop_assert_eq!(lru_at(&sequence, &capacities), single);
    }

    #[test]
    fn opt_is_the_minimum(ids in prop::collection::vec(0u64..6, 0..24), capacity in 1usize..5) {
        let expected = fewest_misses(&ids, capacity);
        prop_assert_eq!(opt(&sequence(ids), capacity as u32).misses, expected);
    }

    /// With references that read nothing, and frames that go away.
    #[test]
    fn opt_is_the_fewest_reads_that_are_possible(
        references in prop::collection::vec((0u64..6, prop::bool::weighted(0.6), prop_oneof![9 => Just(0u32), 1 => Just(1)]), 0..20),
        capacity in 1u32..6,
    ) {
        let expected = fewest_reads(&references, capacity);
        prop_assert_eq!(opt(&with_kinds(&references), capacity).misses, expected);
    }

    #[test]
    fn lru_is_its_definition_with_reads_and_frames_that_go_away(
        references in prop::collection::vec((0u64..12, prop::bool::weighted(0.6), prop_oneof![9 => Just(0u32), 1 => Just(1)]), 0..120),
        capacity in 1u32..16,
    ) {
        let expected = plain_lru_reads(&references, capacity);
        let sequence = with_kinds(&references);
        prop_assert_eq!(lru(&sequence, capacity).misses, expected);
        prop_assert_eq!(lru_at(&sequence, &[capacity])[0].misses, expected);
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
