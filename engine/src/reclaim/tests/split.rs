//! S5, and everything else about large folios that are split on their way out.

use super::direct;
use crate::config::Config;
use crate::counters::Counter;
use crate::folio::Flags;
use crate::ids::{FolioId, NodeId};
use crate::lruvec::LruList;
use crate::reclaim::{ReclaimTask, Work};
use crate::switches::presets::preset;
use crate::testing::{Host, Spec, WriteAs};
use proptest::prelude::*;

const PRESETS: [&str; 4] = ["classic", "v612", "base", "v5"];

/// Swap of `free` slots, no two of which are neighbours.
fn fragmented(h: &mut Host, free: u64) {
    h.eng.set_swap(free, 10_000);
    h.swap_run = 1;
}

/// All invariants, and every page charged once.
fn check(h: &Host) {
    h.eng.check();
    let pages: u64 = h.eng.folios.iter().map(|(_, f)| f.nr_pages()).sum();
    assert_eq!(h.eng.memcgs[h.memcg].memory().usage(), pages, "charges");
}

fn indices(h: &Host, ids: &[FolioId]) -> Vec<u32> {
    ids.iter().map(|&id| h.folio(id).owner().1).collect()
}

#[test]
fn s5_huge_anonymous_folio_without_contiguous_swap() {
    for p in PRESETS {
        let mut h = Host::new(p);
        fragmented(&mut h, 1000);
        let id = h.add(Spec::anon().order(9));
        let mut sc = direct();
        let s = h.shrink_at(&mut sc, &[id], |h, _| check(h));
        assert_eq!((sc.nr_scanned, s.stat.activate), (512, [0, 0]), "{p}");
        let fallback = Counter::ThpSwpoutFallback;
        assert_eq!((h.vm(fallback), h.count(fallback)), (1, 1), "{p}");
        assert_eq!((h.seen.splits.as_slice(), s.stat.pageout), (&[id][..], 512));
        assert_eq!(h.eng.swap_free(), 1000 - 512);
        let all: Vec<u32> = (0..512).collect();
        assert_eq!(indices(&h, &h.seen.writes), all, "in order of addresses");
        h.finish_writes();
        h.eng.lru_add_drain(0);
        check(&h);
        let mut sc = direct();
        let ids = h.folios();
        let s = h.shrink_at(&mut sc, &ids, |h, _| check(h));
        assert_eq!((sc.nr_scanned, s.stat.reclaimed), (512, 512), "{p}");
        assert_eq!(h.eng.memcgs[h.memcg].memory().usage(), 0);
    }
}

#[test]
fn s5_the_retry_of_the_first_page_fails() {
    for p in PRESETS {
        let mut h = Host::new(p);
        fragmented(&mut h, 0);
        let id = h.add(Spec::anon().order(9));
        let (mut sc, mut asked) = (direct(), 0);
        let s = h.shrink_at(&mut sc, &[id], |h, work| {
            asked += u32::from(matches!(work, Work::AllocSwap { .. }));
            if asked == 3 {
                // The whole and the first page have failed.
                h.eng.set_swap(600, 10_000);
            }
        });
        assert_eq!((sc.nr_scanned, s.stat.activate), (512, [1, 0]), "{p}");
        assert_eq!((s.active, s.stat.pageout), (vec![id], 511), "{p}");
        assert_eq!(h.vm(Counter::Pgactivate), 1);
        h.finish_writes();
        check(&h);
    }
}

#[test]
fn smaller_large_folios_count_by_size_only() {
    let mut h = Host::new("base");
    fragmented(&mut h, 100);
    let id = h.add(Spec::anon().order(4));
    let mut sc = direct();
    h.shrink(&mut sc, &[id]);
    assert_eq!((sc.nr_scanned, h.vm(Counter::ThpSwpoutFallback)), (16, 0));
    assert_eq!(h.seen.splits, [id]);
}

#[test]
fn a_run_of_slots_needs_no_split() {
    let mut h = Host::new("base");
    let id = h.add(Spec::anon().order(9));
    h.script(id).write = WriteAs::Finished;
    let s = h.shrink(&mut direct(), &[id]);
    assert_eq!((s.stat.reclaimed, h.seen.splits.len()), (512, 0));
    assert_eq!(h.seen.freed[0].order, 9);
}

#[test]
fn extra_references_refuse_the_split() {
    for p in PRESETS {
        let mut h = Host::new(p);
        let id = h.add(Spec::anon().order(4));
        h.eng.folio_get(id, 1);
        let mut sc = direct();
        let s = h.shrink(&mut sc, &[id]);
        // Whatever room there is in swap.
        assert_eq!((sc.nr_scanned, s.stat.activate), (16, [16, 0]), "{p}");
        assert_eq!((s.active, h.seen.splits.len()), (vec![id], 0), "{p}");
        assert_eq!(h.eng.swap_free(), 1 << 18);
        check(&h);
    }
}

#[test]
fn a_host_may_refuse() {
    for (p, spec) in [
        ("classic", Spec::anon()),
        ("base", Spec::anon()),
        ("base", Spec::anon().with(Flags::PARTIALLY_MAPPED)),
        ("base", Spec::shmem()),
    ] {
        let mut h = Host::new(p);
        fragmented(&mut h, 100);
        let id = h.add(spec.order(4));
        let before = *h.folio(id);
        h.script(id).refuses_split = true;
        h.script(id).write = WriteAs::NoRoom;
        let mut sc = direct();
        let s = h.shrink_at(&mut sc, &[id], |h, _| check(h));
        assert_eq!((sc.nr_scanned, s.stat.activate), (16, [16, 0]), "{p}");
        assert_eq!((s.active, h.seen.splits.as_slice()), (vec![id], &[id][..]));
        assert_eq!(h.vm(Counter::ThpSwpoutFallback), 0);
        let f = h.folio(id);
        assert_eq!((f.nr_pages(), f.refcount()), (16, before.refcount()));
        let kept = Flags::PARTIALLY_MAPPED | Flags::DIRTY;
        assert_eq!(f.word().flags() & kept, before.word().flags() & kept);
        assert_eq!(h.eng.nr_folios(), 1);
        check(&h);
    }
}

#[test]
fn partially_mapped_folios_are_split_before_they_take_swap() {
    for p in PRESETS {
        let mut h = Host::new(p);
        let id = h.add(Spec::anon().order(4).with(Flags::PARTIALLY_MAPPED));
        h.script(id).present = Some(5);
        h.script(id).write = WriteAs::Finished;
        let mut sc = direct();
        let s = h.shrink_at(&mut sc, &[id], |h, _| check(h));
        // What nothing maps is freed by the split: without a slot, and it counts as neither scanned nor reclaimed.
        assert_eq!((sc.nr_scanned, s.stat.reclaimed), (5, 5), "{p}");
        assert_eq!((1 << 18) - h.eng.swap_free(), 5);
        let swapped = h.seen.freed.iter().filter(|f| f.swap.is_some()).count();
        assert_eq!(swapped, 5);
        assert_eq!(h.eng.memcgs[h.memcg].memory().usage(), 0);
    }
}

#[test]
fn pieces_belong_to_the_memcg_of_the_whole() {
    for p in PRESETS {
        let mut h = Host::new(p);
        fragmented(&mut h, 3);
        let id = h.add(Spec::anon().order(3));
        h.script(id).write = WriteAs::Finished;
        let mut sc = h.request(32);
        let s = h.shrink_at(&mut sc, &[id], |h, _| check(h));
        assert_eq!((s.stat.reclaimed, s.stat.activate), (3, [5, 0]), "{p}");
        assert_eq!(sc.nr_scanned, 8);
        assert_eq!(h.eng.memcgs[h.memcg].memory().usage(), 5);
        assert_eq!(h.count(Counter::AnonPages), 5);
        assert_eq!(h.count(Counter::Pgactivate), 5);
        assert_eq!(h.size(LruList::ActiveAnon), 5, "{p}");
        assert!(h.seen.freed.iter().all(|f| f.lruvec == h.lruvec));
        check(&h);
    }
}

#[test]
fn pieces_inherit_use_but_no_marks_of_one_operation() {
    let mut h = Host::new("classic");
    fragmented(&mut h, 0);
    let used = Flags::WORKINGSET | Flags::EXEC;
    let marks = Flags::READAHEAD | Flags::RECLAIM;
    let id = h.add(Spec::anon().order(2).with(used | marks));
    h.shrink(&mut direct(), &[id]);
    let pieces: Vec<_> = h.folios().into_iter().filter(|&p| p != id).collect();
    assert_eq!(pieces.len(), 3);
    for &p in &pieces {
        assert!(h.has(p, used | Flags::ANON | Flags::SWAPBACKED), "{p:?}");
        assert!(!h.any(p, marks | Flags::LOCKED), "{p:?}");
        assert_eq!((h.folio(p).mapcount(), h.folio(p).refcount()), (1, 1));
    }
}

#[test]
fn slots_and_dirty_marks_go_by_page() {
    for spec in [
        Spec::file().dirty().order(2),
        Spec::mapped(2).order(2),
        Spec::anon().with(Flags::SWAPCACHE).order(2),
    ] {
        let mut h = Host::new("base");
        let id = h.alloc(spec);
        h.eng.take_newly_dirty(&mut Vec::new());
        let whole = *h.folio(id);
        let mut pieces = Vec::new();
        assert!(h.eng.folios.split_begin(id, &mut pieces));
        check(&h);
        for &p in &pieces {
            (0..whole.mapcount()).for_each(|_| h.eng.folio_map(p));
        }
        if h.eng.folios.split_commit(id, &pieces) {
            h.eng.files_dirtied(&pieces);
        }
        check(&h);
        for (i, &p) in pieces.iter().enumerate() {
            let f = h.folio(p);
            let slot = whole.swap_slot().map(|s| s + 1 + i as u32);
            assert_eq!(f.swap_slot(), slot);
            assert_eq!(f.owner().1, whole.owner().1 + 1 + i as u32);
            assert_eq!(f.has(Flags::DIRTY), spec.dirty);
        }
        let mut dirty = Vec::new();
        h.eng.take_newly_dirty(&mut dirty);
        assert_eq!(dirty, if spec.dirty { pieces.clone() } else { vec![] });
        pieces.push(id);
        h.eng.put_back(0, h.lruvec, &pieces);
        check(&h);
    }
}

/// The last batch is written when the input is through, and then there is input again.
#[test]
fn pieces_of_the_last_batch_are_not_forgotten() {
    for (mode, again) in [
        ("off", true),
        ("v1", false),
        ("v2", true),
        ("list", true),
        ("locked", true),
    ] {
        let mut sw = preset("base").unwrap();
        sw.set("batched_dirty_flush", mode).unwrap();
        let mut h = Host::with(sw, Config::default());
        let ids = [h.add(Spec::shmem().order(3)), h.add(Spec::shmem())];
        h.script(ids[0]).write = WriteAs::NoRoom;
        let mut sc = direct();
        let s = h.shrink_at(&mut sc, &ids, |h, _| check(h));
        // The attempt with the whole, then each page.
        let pages = if again { 9 } else { 2 };
        assert_eq!(h.seen.writes.len(), 1 + pages, "{mode}");
        assert_eq!(
            (sc.nr_scanned, s.stat.pageout),
            if again { (9, 9) } else { (2, 2) }
        );
        assert_eq!((s.kept.len(), s.active.len()), (9, 0), "{mode}");
        let dirty = s.kept.iter().filter(|&&id| h.has(id, Flags::DIRTY)).count();
        assert_eq!(dirty, if again { 0 } else { 7 }, "{mode}: as they are");
        h.finish_writes();
        h.eng.lru_add_drain(0);
        check(&h);
        // The next list takes what the first one left.
        let s = h.shrink(&mut direct(), &s.kept);
        assert_eq!(s.stat.reclaimed, if again { 9 } else { 2 }, "{mode}");
        h.finish_writes();
        check(&h);
    }
}

/// Limit reclaim to its end, everything checked after each step and each answer.
fn reclaim(h: &mut Host, nr: u64) {
    let mut task = ReclaimTask::limit(h.memcg, nr, 0, NodeId(0));
    loop {
        let work = task.step(&mut h.eng);
        check(h);
        if work == Work::Done {
            break;
        }
        if let Some(answer) = h.serve(work, task.freed(), task.pieces()) {
            task.answer(answer);
            check(h);
        }
    }
}

/// Kind, order, pages present, how it is written, whether the host refuses, extra reference.
type Large = (u8, u8, usize, u8, bool, bool);

fn large() -> impl Strategy<Value = Large> {
    let rare = || prop::bool::weighted(0.1);
    (0u8..4, 0u8..5, 1usize..16, 0u8..5, rare(), rare())
}

fn add(h: &mut Host, &(kind, order, present, write, refuses, extra): &Large) -> Option<FolioId> {
    let id = h.add(match kind {
        0 | 1 => Spec::anon().order(order),
        2 => Spec::anon().order(order).with(Flags::PARTIALLY_MAPPED),
        _ => Spec::shmem().order(order),
    });
    let s = h.script(id);
    s.present = (kind == 2 && order > 0).then_some(present);
    s.refuses_split = refuses;
    s.pte_dirty = order % 2 == 0;
    s.write = WriteAs::ALL[usize::from(write)];
    if !extra {
        return None;
    }
    h.eng.folio_get(id, 1);
    Some(id)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn large_folios_in_fragmented_swap(
        preset_at in 0..PRESETS.len(),
        dirty in prop::sample::select(vec!["off", "v1", "v2", "locked", "list", "3"]),
        resched_in_lists in any::<bool>(),
        rounds in prop::collection::vec(
            (prop::collection::vec(large(), 1..12), 0u64..200, prop::sample::select(vec![1u64, 2, 4, u64::MAX]), 1u64..60),
            1..4,
        ),
    ) {
        let mut sw = preset(PRESETS[preset_at]).unwrap();
        sw.set("batched_dirty_flush", dirty).unwrap();
        let mut h = Host::with(sw, Config { resched_in_lists, ..Config::default() });
        for (folios, free, run, nr) in &rounds {
            let held: Vec<FolioId> = folios.iter().filter_map(|f| add(&mut h, f)).collect();
            h.eng.set_swap(*free, 200);
            h.swap_run = *run;
            reclaim(&mut h, *nr);
            h.finish_writes();
            h.eng.lru_add_drain_all();
            check(&h);
            for id in held {
                h.eng.folio_put(id, 1);
            }
        }
        for id in h.folios() {
            h.truncate(id);
        }
        h.eng.lru_add_drain_all();
        check(&h);
        prop_assert_eq!(h.eng.nr_folios(), 0, "left over");
    }
}
