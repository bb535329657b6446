//! Dirty folios that share a flush: the batched halves of S8 and S9, T2, T4 and T6 of `tlb.md`, and
//! what must not be repeated (`docs/rules/tlb.md#batched-write-out`).

use super::direct;
use crate::folio::Flags;
use crate::ids::{FolioId, NodeId};
use crate::reclaim::{ReclaimTask, Work};
use crate::switches::presets;
use crate::testing::{Host, Spec, WriteAs};
use crate::{Config, Counter};

fn host(mode: &str) -> Host {
    host_of("base", mode)
}

fn host_of(preset: &str, mode: &str) -> Host {
    let mut sw = presets::preset(preset).unwrap();
    sw.set("batched_dirty_flush", mode).unwrap();
    Host::with(sw, Config::default())
}

fn dirty_anon(h: &mut Host) -> FolioId {
    let id = h.add(Spec::anon());
    h.script(id).pte_dirty = true;
    id
}

fn many(h: &mut Host, n: usize) -> Vec<FolioId> {
    (0..n).map(|_| dirty_anon(h)).collect()
}

/// (flushes for a write, all flushes).
fn flushes(h: &Host) -> (u64, u64) {
    (h.seen.flushes_for_write, h.seen.flushes)
}

#[test]
fn s8_batched() {
    for (mode, n) in [
        ("off", 70),
        ("v1", 3),
        ("v2", 3),
        ("locked", 3),
        ("1", 70),
        ("8", 9),
        ("64", 2),
        ("list", 1),
    ] {
        let mut h = host(mode);
        let ids = many(&mut h, 70);
        let s = h.shrink(&mut direct(), &ids);
        assert_eq!(flushes(&h), (n, n), "{mode}");
        assert_eq!((s.stat.pageout, s.stat.reclaimed), (70, 0), "{mode}");
        assert_eq!(
            h.seen.writes, ids,
            "{mode}: written in the order of the list"
        );
        assert_eq!(h.vm(Counter::UnmapFlushDirty), n as i64);
        h.finish_writes();
        h.eng.check();
        // Clean file folios are flushed when they are freed, as ever.
        let mut h = host(mode);
        let ids = h.add_many(70, Spec::mapped(1));
        h.shrink(&mut direct(), &ids);
        assert_eq!(flushes(&h), (0, 3), "{mode}");
        assert_eq!(
            (
                h.vm(Counter::UnmapFlushFree),
                h.vm(Counter::UnmapFlushEnd),
                h.vm(Counter::UnmapFlushFull)
            ),
            (2, 1, 3)
        );
    }
}

#[test]
fn s8_batched_mixed() {
    // The flush before the write of 31 covers the clean entries before it; four dirty and four clean
    // ones are left for the end.
    let mut h = host("v2");
    let ids: Vec<_> = (0..35)
        .flat_map(|_| [h.add(Spec::mapped(1)), dirty_anon(&mut h)])
        .collect();
    let s = h.shrink(&mut direct(), &ids);
    assert_eq!((s.stat.reclaimed, s.stat.pageout), (35, 35));
    // The free batch is full with the 31st clean folio, just before the 31st dirty one.
    assert_eq!(flushes(&h), (2, 3));
    assert_eq!(h.seen.free_batches, [31, 4]);
    h.finish_writes();
    h.eng.check();
}

#[test]
fn s9_batch_with_refusals() {
    let mut h = host("v2");
    let ids = many(&mut h, 31);
    let (lock, fault, pin) = (ids[3], ids[7], ids[9]);
    let mut left = 31;
    let s = h.shrink_while(&mut direct(), &ids, |h| {
        left -= 1;
        if left == 0 {
            h.eng.folio_set(lock, Flags::LOCKED);
            h.eng.folio_map(fault);
            h.eng.folio_set(pin, Flags::PINNED);
        }
    });
    assert_eq!(flushes(&h), (1, 1));
    assert_eq!((h.seen.writes.len(), s.stat.pageout), (28, 28));
    assert_eq!(
        (s.kept[..3].to_vec(), s.active.len()),
        (vec![lock, fault, pin], 0)
    );
    assert!(!h.any(fault, Flags::LOCKED) && !h.any(pin, Flags::LOCKED));
    assert_eq!(
        [
            Counter::DirtyBatches,
            Counter::DirtyBatched,
            Counter::DirtyBatchLocked,
            Counter::DirtyBatchMapped,
            Counter::DirtyBatchPinned,
        ]
        .map(|c| (h.vm(c), h.count(c))),
        [(1, 1), (31, 31), (1, 1), (1, 1), (1, 1)]
    );
    h.eng.folio_clear(lock, Flags::LOCKED);
    h.finish_writes();
    h.eng.check();
}

#[test]
fn s9_all_refused() {
    let mut h = host("v2");
    let ids = many(&mut h, 31);
    let again = ids.clone();
    let mut left = 31;
    let s = h.shrink_while(&mut direct(), &ids, |h| {
        left -= 1;
        if left == 0 {
            again.iter().for_each(|&id| h.eng.folio_map(id));
        }
    });
    // Nothing is written; what is pending is flushed at the end of the list.
    assert_eq!(flushes(&h), (0, 1));
    assert_eq!((s.stat.pageout, s.kept, s.active.len()), (0, ids, 0));
    assert_eq!(h.vm(Counter::UnmapFlushEnd), 1);
    h.eng.check();
}

#[test]
fn v1_does_not_look_for_pins() {
    for (mode, written) in [("v1", 1), ("v2", 0)] {
        let mut h = host(mode);
        let id = dirty_anon(&mut h);
        h.shrink_while(&mut direct(), &[id], |h| h.eng.folio_set(id, Flags::PINNED));
        assert_eq!(h.seen.writes.len(), written, "{mode}");
    }
}

#[test]
fn item_8_found_clean_is_dirtied_again() {
    for (mode, clean) in [("v1", true), ("v2", false)] {
        let mut h = host(mode);
        let id = dirty_anon(&mut h);
        // Another task writes it out in the window.
        let s = h.shrink_while(&mut direct(), &[id], |h| {
            assert!(h.eng.clear_dirty(id));
        });
        assert_eq!(h.seen.writes.len(), 0);
        assert_eq!(s.stat.reclaimed, u64::from(clean), "{mode}");
        if !clean {
            assert!(h.has(id, Flags::DIRTY) && s.active.is_empty());
            assert_eq!(h.vm(Counter::DirtyBatchClean), 1);
        }
        h.eng.check();
    }
}

#[test]
fn item_8_cleaned_after_it_was_turned_away() {
    // A flusher has one of two folios locked when the batch looks, and cleans it before the flush.
    for (mode, dirty) in [("v1", false), ("v2", true)] {
        let mut h = host(mode);
        let ids = many(&mut h, 2);
        let other = ids[0];
        let mut cleaned = false;
        let s = h.shrink_at(&mut direct(), &ids, |h, work| match work {
            Work::Yield => h.eng.folio_set(other, Flags::LOCKED),
            Work::FlushTlb { .. } if !cleaned => {
                cleaned = true;
                assert!(h.eng.clear_dirty(other));
                h.eng.folio_clear(other, Flags::LOCKED);
            }
            _ => {}
        });
        assert!(cleaned && s.kept.contains(&other));
        assert_eq!(h.vm(Counter::DirtyBatchLocked), 1, "{mode}");
        assert_eq!(h.has(other, Flags::DIRTY), dirty, "{mode}");
        h.eng.check();
    }
}

#[test]
fn under_writeback_by_another() {
    // Before 6.19 kswapd writes file folios, and a flusher may be faster.
    let mut h = host_of("v612", "v2");
    h.eng.nodes[0].flag_dirty = true;
    let id = h.add(Spec::file().dirty().with(Flags::RECLAIM));
    let s = h.shrink_while(&mut super::kswapd(), &[id], |h| h.start_write(id));
    assert_eq!((s.stat.pageout, s.kept), (0, vec![id]));
    assert_eq!(h.vm(Counter::DirtyBatchWriteback), 1);
    assert!(
        h.has(id, Flags::DIRTY),
        "a store may have come after the write began"
    );
    h.finish_writes();
    h.eng.check();
}

#[test]
fn gone_while_it_waited() {
    for mode in ["v1", "v2"] {
        let mut h = host(mode);
        let ids = many(&mut h, 2);
        let s = h.shrink_while(&mut direct(), &ids, |h| {
            if h.has(ids[0], Flags::SWAPCACHE) && h.folios().contains(&ids[0]) {
                h.truncate(ids[0]);
            }
        });
        assert_eq!(s.stat.pageout, 1, "{mode}");
        assert!(h.gone(ids[0]) && !h.gone(ids[1]));
        h.finish_writes();
        h.eng.check();
    }
}

#[test]
fn rejected_folios_keep_their_slots() {
    // Unlike an activation, a refusal does not give the slot back.
    let mut h = host("v2");
    h.eng.set_swap(40, 100);
    let id = dirty_anon(&mut h);
    h.shrink_while(&mut direct(), &[id], |h| h.eng.folio_map(id));
    assert!(h.has(id, Flags::SWAPCACHE) && h.seen.slots_freed.is_empty());
}

#[test]
fn a_full_batch_and_a_device_in_memory() {
    // zram: written and freed in the same pass, so the free batch fills up from the dirty one.
    let mut h = host("v2");
    let ids = many(&mut h, 70);
    for &id in &ids {
        h.script(id).write = WriteAs::Finished;
    }
    let s = h.shrink(&mut direct(), &ids);
    assert_eq!((s.stat.reclaimed, s.stat.pageout), (70, 70));
    assert_eq!(flushes(&h), (3, 3), "freeing finds nothing pending");
    assert_eq!(h.seen.free_batches, [31, 31, 8]);
}

#[test]
fn others_run_only_while_no_freed_folio_is_in_its_slot() {
    let mut h = host("v2");
    let ids: Vec<_> = (0..10)
        .flat_map(|_| [h.add(Spec::mapped(1)), dirty_anon(&mut h)])
        .collect();
    let before = h.seen.yields;
    h.shrink_while(&mut direct(), &ids, |h| {
        for id in h.folios() {
            assert!(
                h.folio(id).refcount() > 0,
                "{id:?} is frozen and can be found"
            );
        }
        h.eng.check();
    });
    assert_eq!(h.seen.yields - before, 10);
    assert_eq!(h.seen.free_batches, [10]);
}

#[test]
fn the_batch_is_drained_before_a_sleep() {
    let cfg = Config {
        cgroup_v2: false,
        ..Config::default()
    };
    let mut sw = presets::preset("base").unwrap();
    sw.set("batched_dirty_flush", "v2").unwrap();
    let mut h = Host::with(sw, cfg);
    let mut ids = many(&mut h, 3);
    let busy = h.add(Spec::file().dirty());
    h.start_write(busy);
    h.eng.folio_set(busy, Flags::RECLAIM);
    ids.push(busy);
    let mut sc = h.request(32);
    let s = h.shrink(&mut sc, &ids);
    assert_eq!(
        (h.seen.waits, h.seen.writes.len(), s.stat.pageout),
        (1, 3, 3)
    );
    assert_eq!(flushes(&h), (1, 1));
    assert!(h.gone(busy), "met again after the wait");
}

#[test]
fn killed_while_others_run() {
    let mut h = host("v2");
    h.set_seqs(10, [7, 7]);
    let ids: Vec<_> = (0..20).map(|_| h.add_to(7, Spec::anon())).collect();
    ids.iter().for_each(|&id| h.script(id).pte_dirty = true);
    h.fill(9, 100, Spec::anon());
    let mut task = ReclaimTask::limit(h.memcg, 32, 0, NodeId(0));
    let mut yields = 0;
    loop {
        let work = task.step(&mut h.eng);
        assert_ne!(work, Work::Done, "no folio waited");
        let waits = h.vm(Counter::DirtyBatched) > 0;
        if work == Work::Yield && waits {
            yields += 1;
            if yields == 5 {
                break;
            }
        }
        if let Some(answer) = h.serve(work, task.freed(), task.pieces()) {
            task.answer(answer);
        }
    }
    task.abandon(&mut h.eng);
    h.eng.check();
    for id in h.folios() {
        assert!(h.has(id, Flags::LRU) && !h.has(id, Flags::LOCKED), "{id:?}");
    }
}

#[test]
fn t2_one_flush_covers_what_was_unmapped_before() {
    for late in [false, true] {
        let mut h = Host::new("base");
        let mut ids = h.add_many(2, Spec::mapped(1));
        ids.push(dirty_anon(&mut h));
        if late {
            ids.extend(h.add_many(1, Spec::mapped(1)));
        }
        h.shrink(&mut direct(), &ids);
        assert_eq!(flushes(&h), (1, 1 + u64::from(late)), "E after C: {late}");
        assert_eq!(h.vm(Counter::UnmapFlushEnd), i64::from(late));
    }
}

#[test]
fn t4_clean_entries_are_flushed_when_they_are_freed() {
    for mode in ["off", "v2"] {
        let mut h = host(mode);
        let ids = h.add_many(62, Spec::mapped(1));
        let s = h.shrink(&mut direct(), &ids);
        assert_eq!((s.stat.reclaimed, flushes(&h)), (62, (0, 2)), "{mode}");
        assert_eq!(
            (h.vm(Counter::UnmapFlushFree), h.vm(Counter::UnmapFlushEnd)),
            (2, 0)
        );
    }
}

#[test]
fn t6_batch_of_31() {
    for back in [2, 31] {
        let mut h = host("v2");
        let ids = many(&mut h, 31);
        let locked = back < 31;
        let mut left = 31;
        let s = h.shrink_while(&mut direct(), &ids, |h| {
            left -= 1;
            if left == 0 {
                ids[..back].iter().for_each(|&id| h.eng.folio_map(id));
                if locked {
                    h.eng.folio_set(ids[30], Flags::LOCKED);
                }
            }
        });
        let written = if locked { 28 } else { 0 };
        assert_eq!((h.seen.writes.len(), s.stat.reclaimed), (written, 0));
        assert_eq!(s.kept.len(), 31, "those that are written come back, too");
        assert_eq!(h.vm(Counter::UnmapFlushDirty), i64::from(locked));
        assert_eq!(h.vm(Counter::UnmapFlushEnd), i64::from(!locked));
        h.eng.folio_clear(ids[30], Flags::LOCKED);
    }
}
