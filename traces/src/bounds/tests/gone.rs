//! Pages that are gone for good, against plain memories that are told of it by object and page.

use super::*;

/// What a trace of these tests has: accesses, and what takes pages away.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Access(OpKind, u8, u32),
    Unmap,
    Truncate(u32),
    Unlink,
    Exit(u16),
}

/// Objects: a file, and a region that task 0 uses; the region of task 1.
const FILE: u8 = 0;
const REGION: u8 = 1;
const OTHER: u8 = 2;

fn deeds(most: usize, pages: u32) -> impl Strategy<Value = Vec<Deed>> {
    use Deed::{Access, Exit, Truncate, Unlink, Unmap};
    let file = prop_oneof![
        Just(OpKind::Pread),
        Just(OpKind::Pwrite),
        Just(OpKind::WholeWrite)
    ];
    let deed = prop_oneof![
        8 => (file, 0..pages).prop_map(|(kind, page)| Access(kind, FILE, page)),
        8 => (REGION..=OTHER, 0..pages).prop_map(|(object, page)| Access(OpKind::AnonWrite, object, page)),
        4 => (REGION..=OTHER, 0..pages).prop_map(|(object, page)| Access(OpKind::AnonRead, object, page)),
        1 => Just(Unmap),
        1 => (0..pages).prop_map(Truncate),
        1 => Just(Unlink),
        1 => (0u16..2).prop_map(Exit),
    ];
    prop::collection::vec(deed, 0..most)
}

fn trace(deeds: &[Deed]) -> Trace {
    let (mut ops, mut events) = (Vec::new(), Vec::new());
    for &deed in deeds {
        let (kind, object, task, value) = match deed {
            Deed::Access(kind, object, page) => {
                let task = u16::from(object == OTHER);
                ops.push(Op {
                    kind,
                    object,
                    task,
                    page,
                });
                continue;
            }
            Deed::Unmap => (StepKind::Unmap, REGION, 0, 0),
            Deed::Truncate(end) => (StepKind::Truncate, FILE, 0, end),
            Deed::Unlink => (StepKind::Unlink, FILE, 0, 0),
            Deed::Exit(task) => (StepKind::Exit, 0, task, 0),
        };
        let step = Step {
            kind,
            object,
            task,
            value,
        };
        let at = ops.len() as u64;
        events.push(Event { at, step });
    }
    Trace::from_ops(ops).with_events(events)
}

type Page = (u8, u32);

/// Whether a deed takes a page away.
fn goes(deed: Deed, (object, page): Page) -> bool {
    match deed {
        Deed::Access(..) => false,
        Deed::Unmap => object == REGION,
        Deed::Truncate(end) => object == FILE && page >= end,
        Deed::Unlink => object == FILE,
        Deed::Exit(task) => object == [REGION, OTHER][usize::from(task)],
    }
}

/// References with their page, whether it has to be read if it is absent, and the deeds before each that take pages
/// away.
fn references(deeds: &[Deed]) -> Vec<(Page, bool, Vec<Deed>)> {
    let (mut there, mut written) = (BTreeSet::new(), BTreeSet::new());
    let (mut cut, mut before, mut out) = (u32::MAX, Vec::new(), Vec::new());
    for &deed in deeds {
        let Deed::Access(kind, object, page) = deed else {
            before.push(deed);
            there.retain(|&page| !goes(deed, page));
            written.retain(|&page| !goes(deed, page));
            match deed {
                Deed::Truncate(end) => cut = cut.min(end),
                Deed::Unlink => cut = 0,
                _ => {}
            }
            continue;
        };
        let place = (object, page);
        let new = there.insert(place);
        if kind == OpKind::AnonRead && new {
            there.remove(&place);
            continue;
        }
        let hole = object == FILE && page >= cut && !written.contains(&place);
        if kind.is_write() {
            written.insert(place);
        }
        let reads = !(hole || kind == OpKind::WholeWrite || (kind.is_anon() && new));
        out.push((place, reads, std::mem::take(&mut before)));
    }
    out
}

/// LRU by a list of pages, newest first: misses of both ways to count.
fn plain(references: &[(Page, bool, Vec<Deed>)], capacity: usize) -> [u64; 2] {
    let (mut recent, mut misses): (Vec<Page>, _) = (Vec::new(), [0; 2]);
    for (place, reads, before) in references {
        recent.retain(|&page| !before.iter().any(|&deed| goes(deed, page)));
        match recent.iter().position(|r| r == place) {
            Some(at) => drop(recent.remove(at)),
            None => {
                misses[0] += u64::from(*reads);
                misses[1] += 1;
            }
        }
        recent.insert(0, *place);
        recent.truncate(capacity);
    }
    misses
}

/// The fewest reads over everything that a memory could do.
fn fewest(references: &[(Page, bool, Vec<Deed>)], capacity: usize) -> u64 {
    let mut states = std::collections::BTreeMap::from([(BTreeSet::<Page>::new(), 0u64)]);
    for (place, reads, before) in references {
        let mut next = std::collections::BTreeMap::new();
        for (mut resident, misses) in states {
            resident.retain(|&page| !before.iter().any(|&deed| goes(deed, page)));
            let cost = u64::from(*reads && !resident.contains(place));
            let all: Vec<Page> = resident.iter().copied().collect();
            for choice in 0..1u32 << all.len() {
                let kept = all.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1);
                let mut kept: BTreeSet<Page> = kept.map(|(_, &page)| page).collect();
                kept.insert(*place);
                if kept.len() <= capacity {
                    let best = next.entry(kept).or_insert(u64::MAX);
                    *best = (misses + cost).min(*best);
                }
            }
        }
        states = next;
    }
    states.into_values().min().expect("one state at least")
}

fn counted(trace: &Trace, count: Count) -> Sequence {
    Sequence::of_trace(trace, count, true).expect("short")
}

/// 20 times: memory is filled, read, and given back. It never needs more than its own size.
#[test]
fn memory_that_was_given_back_takes_no_frame() {
    let page = |kind| move |page| Deed::Access(kind, REGION, page);
    let round = || {
        let fill = (0..30).map(page(OpKind::AnonWrite));
        fill.chain((0..30).map(page(OpKind::AnonRead)))
            .chain([Deed::Unmap])
    };
    let trace = trace(&(0..20).flat_map(|_| round()).collect::<Vec<_>>());
    let all = counted(&trace, Count::Absences);
    assert_eq!((all.len(), all.unique(), all.room()), (1200, 600, 30));
    for capacity in [30, 40, 599] {
        let bounds = [lru(&all, capacity), opt(&all, capacity)];
        assert_eq!(bounds.map(|b| b.misses), [600; 2], "{capacity}");
        assert_eq!(lru_at(&all, &[capacity])[0].misses, 600, "{capacity}");
    }
    assert_eq!(lru(&all, 29).misses, 1200);
}

/// 10 pages of a file are written and cut off, again and again, beside 10 that stay.
#[test]
fn pages_that_were_cut_off_take_no_frame() {
    let read = |page| Deed::Access(OpKind::Pread, FILE, page);
    let write = |page| Deed::Access(OpKind::WholeWrite, FILE, page);
    let round = || {
        let all = (0..10).map(read).chain((10..20).map(write));
        all.chain([Deed::Truncate(10)])
    };
    let trace = trace(&(0..8).flat_map(|_| round()).collect::<Vec<_>>());
    let reads = counted(&trace, Count::Reads);
    assert_eq!((reads.unique(), reads.room()), (90, 20));
    assert_eq!(lru(&reads, 20).misses, 10);
    assert_eq!(lru_at(&reads, &[20])[0].misses, 10);
    assert_eq!(lru(&reads, 10).misses, 80);
    assert_eq!(Sequence::peak(&trace), Ok(20));
    assert_eq!(
        (lru(&reads, 20).compulsory, lru(&reads, 20).refaults()),
        (10, 0)
    );
}

proptest! {
    #[test]
    fn lru_forgets_what_is_gone(deeds in deeds(120, 8), capacity in 1u32..20) {
        let (trace, plainly) = (trace(&deeds), references(&deeds));
        let expected = plain(&plainly, capacity as usize);
        for (count, expected) in [Count::Reads, Count::Absences].into_iter().zip(expected) {
            let sequence = counted(&trace, count);
            prop_assert_eq!(sequence.len(), plainly.len());
            prop_assert_eq!(lru(&sequence, capacity).misses, expected);
        }
    }

    #[test]
    fn one_pass_forgets_what_is_gone(deeds in deeds(400, 20)) {
        let trace = trace(&deeds);
        let capacities: Vec<u32> = (0..64).collect();
        for count in [Count::Reads, Count::Absences] {
            let sequence = counted(&trace, count);
            let single: Vec<Bound> = capacities.iter().map(|&c| lru(&sequence, c)).collect();
            prop_assert_eq!(lru_at(&sequence, &capacities), single);
        }
        // Without swap frames are taken, and pages of the file leave.
        let sequence = Sequence::of_trace(&trace, Count::Reads, false).expect("short");
        let single: Vec<Bound> = capacities.iter().map(|&c| lru(&sequence, c)).collect();
        prop_assert_eq!(lru_at(&sequence, &capacities), single);
    }

    /// Often enough to drop what is stale.
    #[test]
    fn one_pass_forgets_what_is_gone_of_many_pages(
        deeds in deeds(5000, 600),
        capacities in prop::collection::vec(1u32..1200, 1..6),
    ) {
        let sequence = counted(&trace(&deeds), Count::Reads);
        let single: Vec<Bound> = capacities.iter().map(|&c| lru(&sequence, c)).collect();
        prop_assert_eq!(lru_at(&sequence, &capacities), single);
    }

    #[test]
    fn opt_is_the_fewest_reads_where_pages_are_gone(deeds in deeds(24, 4), capacity in 1usize..5) {
        let expected = fewest(&references(&deeds), capacity);
        let sequence = counted(&trace(&deeds), Count::Reads);
        prop_assert_eq!(opt(&sequence, capacity as u32).misses, expected);
    }

    #[test]
    fn all_that_is_there_needs_no_more_room(deeds in deeds(200, 12)) {
        let trace = trace(&deeds);
        let sequence = counted(&trace, Count::Reads);
        prop_assert_eq!(Ok(u64::from(sequence.room())), Sequence::peak(&trace));
        let room = sequence.room().max(1);
        prop_assert_eq!(lru(&sequence, room).misses, u64::from(sequence.compulsory()));
        // The parts of a split have all that leaves before the last reference.
        let halves = sequence.split(2, |page| Some(page as usize % 2));
        let left = |s: &Sequence| s.leaving().before(usize::MAX).count();
        let before_last = sequence.leaving().before(sequence.len().saturating_sub(1)).count();
        prop_assert_eq!(halves.iter().map(left).sum::<usize>(), before_last);
        for half in halves {
            let all = lru(&half, half.room().max(1));
            prop_assert_eq!(all.misses, u64::from(half.compulsory()));
        }
    }
}
