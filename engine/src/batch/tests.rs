//! The worked examples of `docs/rules/batches.md` by label, and what each batch does to a folio.

use super::BatchOp;
use crate::config::Config;
use crate::folio::Flags;
use crate::ids::{FolioId, LruvecId, MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::switches::presets::preset;
use crate::testing::{Host, Spec};
use crate::Counter;

const A: usize = 0;
const B: usize = 1;

/// What a drain of one add batch cost.
#[derive(Debug, PartialEq)]
struct Cost {
    locks: u64,
    ops: u64,
    freed: u64,
}

/// Queues a folio for each entry of `of` (lruvec A or B), lets the owners of `dead` go, drains.
fn drained(filter: bool, of: &[usize], dead: &[usize]) -> (Cost, Host) {
    let mut sw = preset("classic").unwrap();
    sw.drop_dead_on_drain = filter;
    let mut h = Host::with(sw, Config::default());
    let other = h.eng.memcg_create(MemcgId::ROOT).unwrap();
    let lruvecs = [
        (h.memcg, h.lruvec),
        (other, h.eng.lruvec_id(other, NodeId(0))),
    ];
    let ids: Vec<FolioId> = of
        .iter()
        .map(|&i| {
            (h.memcg, h.lruvec) = lruvecs[i];
            h.alloc(Spec::file())
        })
        .collect();
    // Everything but the last entry waits; owners go before that one fills the batch.
    let (&last, first) = ids.split_last().unwrap();
    for &id in first {
        h.queue(id, false);
    }
    assert!(
        first.iter().all(|&id| !h.has(id, Flags::LRU)),
        "queued is not listed"
    );
    for &i in dead {
        h.truncate(ids[i]);
    }
    h.eng.meter.take();
    h.queue(last, false);
    h.eng.lru_add_drain(0);
    let m = h.eng.meter.take();
    h.eng.check();
    (
        Cost {
            locks: m.locks,
            ops: m.list_ops,
            freed: m.freed,
        },
        h,
    )
}

fn costs(of: &[usize], dead: &[usize]) -> [Cost; 2] {
    [false, true].map(|filter| drained(filter, of, dead).0)
}

#[test]
fn b1_no_dead_folio() {
    let want = || Cost {
        locks: 1,
        ops: 31,
        freed: 0,
    };
    assert_eq!(costs(&[A; 31], &[]), [want(), want()]);
}

#[test]
fn b2_five_dead() {
    let [off, on] = costs(&[A; 31], &[1, 5, 6, 20, 29]);
    assert_eq!(
        off,
        Cost {
            locks: 2,
            ops: 36,
            freed: 5
        }
    );
    assert_eq!(
        on,
        Cost {
            locks: 1,
            ops: 26,
            freed: 5
        }
    );
}

#[test]
fn b3_alternating_lruvecs() {
    let of: Vec<usize> = (0..31).map(|i| i % 2).collect();
    let dead: Vec<usize> = (0..31).filter(|i| i % 2 == 1).collect();
    let [off, on] = costs(&of, &dead);
    assert_eq!((off.locks, on.locks), (32, 1));
    assert_eq!((off.freed, on.freed), (15, 15));
}

#[test]
fn b4_runs() {
    let of = [A, A, B, B, A];
    let locks = |dead: &[usize]| costs(&of, dead).map(|c| c.locks);
    assert_eq!(locks(&[2]), [4, 3]);
    assert_eq!(locks(&[2, 3]), [4, 1]);
}

#[test]
fn b5_large_folios_do_not_wait() {
    for filter in [false, true] {
        let mut sw = preset("base").unwrap();
        sw.drop_dead_on_drain = filter;
        let mut h = Host::with(sw, Config::default());
        let id = h.alloc(Spec::file().order(4));
        h.eng.lru_add(0, id, false);
        assert!(h.has(id, Flags::LRU));
        assert_eq!(h.eng.meter.take().locks, 1);
        // Only the batch holds it (the caller of lru_add always does too, so this is set up here).
        let id = h.alloc(Spec::lazyfree().order(4));
        h.eng.folio_unmap(id);
        h.eng.batches.push(0, BatchOp::Add, id);
        h.eng.drain_op(0, BatchOp::Add);
        assert!(h.gone(id));
        assert_eq!(h.eng.meter.take().locks, if filter { 0 } else { 2 });
    }
}

#[test]
fn b6_active_while_queued() {
    let mut sw = preset("classic").unwrap();
    sw.drop_dead_on_drain = true;
    let mut h = Host::with(sw, Config::default());
    let id = h.alloc(Spec::file());
    h.queue(id, false);
    h.eng.mark_accessed(0, id);
    assert!(!h.has(id, Flags::ACTIVE));
    h.eng.mark_accessed(0, id);
    assert!(h.has(id, Flags::ACTIVE) && !h.has(id, Flags::LRU));
    h.truncate(id);
    h.eng.meter.take();
    h.eng.lru_add_drain(0);
    assert!(h.gone(id));
    assert_eq!(h.eng.meter.take().locks, 0);
    assert_eq!(
        h.eng.lruvec(h.lruvec).workingset.clock(),
        1,
        "the clock ticked all the same"
    );
    assert_eq!(h.size(LruList::ActiveFile), 0);
    h.eng.check();
}

#[test]
fn b7_counters_of_the_report() {
    for filter in [false, true] {
        let mut sw = preset("base").unwrap();
        sw.drop_dead_on_drain = filter;
        let mut h = Host::with(sw, Config::default());
        for i in 0..310 {
            let id = h.alloc(Spec::file());
            h.queue(id, false);
            if i % 31 < 2 {
                h.truncate(id);
            }
        }
        assert_eq!(h.count(Counter::LruAddDrained), 310, "filter {filter}");
        assert_eq!(h.count(Counter::DeadAtAdd), 20, "filter {filter}");
        assert_eq!(h.count(Counter::LruLockAcq), if filter { 10 } else { 20 });
    }
}

#[test]
fn activation_in_a_remote_batch_does_nothing_under_classic() {
    let cfg = Config {
        nr_cpus: 2,
        ..Config::default()
    };
    let mut h = Host::with(preset("classic").unwrap(), cfg);
    let id = h.alloc(Spec::file());
    h.queue(id, false);
    h.eng.mark_accessed(1, id);
    h.eng.mark_accessed(1, id);
    assert!(!h.has(id, Flags::ACTIVE));
}

/// Where a multi-gen or classic folio is: head or tail of its list.
fn ends(h: &Host, lruvec: LruvecId, list: LruList) -> (Option<FolioId>, Option<FolioId>) {
    match &h.eng.lruvec(lruvec).lists {
        crate::lruvec::LruvecLists::Classic(c) => {
            let l = &c.lists[list.idx()];
            (l.head(), l.tail())
        }
        _ => unreachable!("classic only"),
    }
}

#[test]
fn deactivation_of_file_folios() {
    let mut h = Host::new("classic");
    let clean = h.add(Spec::file().with(Flags::ACTIVE));
    let dirty = h.add(Spec::file().dirty().with(Flags::ACTIVE | Flags::REFERENCED));
    let mapped = h.add(Spec::mapped(1).with(Flags::ACTIVE));
    h.add_many(2, Spec::file());
    for id in [clean, dirty, mapped] {
        h.eng.deactivate_file(0, id);
    }
    h.eng.lru_add_drain(0);
    assert_eq!(
        ends(&h, h.lruvec, LruList::InactiveFile),
        (Some(dirty), Some(clean))
    );
    assert!(h.has(dirty, Flags::RECLAIM) && !h.has(dirty, Flags::REFERENCED));
    assert!(h.has(mapped, Flags::ACTIVE), "mapped folios are left alone");
    assert_eq!(
        (h.vm(Counter::Pgrotated), h.vm(Counter::Pgdeactivate)),
        (1, 2)
    );
    assert_eq!(h.count(Counter::Pgdeactivate), 2);
    h.eng.check();
    // Multi-gen: old in both cases, the mark for reclaim comes after the insertion.
    let mut h = Host::new("base");
    let dirty = h.fault(Spec::file().dirty());
    h.eng.deactivate_file(0, dirty);
    h.eng.lru_add_drain(0);
    assert_eq!(
        (h.seq_of(dirty), h.has(dirty, Flags::RECLAIM)),
        (Some(0), true)
    );
    h.eng.check();
}

#[test]
fn lazy_freeing_moves_to_the_file_list() {
    for p in ["classic", "base", "v612"] {
        let mut h = Host::new(p);
        let id = h.fault(Spec::anon().with(Flags::REFERENCED));
        let cached = h.fault(Spec::anon().with(Flags::SWAPCACHE));
        h.eng.lazyfree(0, id);
        h.eng.lazyfree(0, cached);
        h.eng.lru_add_drain(0);
        assert!(
            !h.any(id, Flags::SWAPBACKED | Flags::REFERENCED | Flags::ACTIVE),
            "{p}"
        );
        assert!(
            h.has(cached, Flags::SWAPBACKED),
            "{p}: not from the swap cache"
        );
        assert_eq!(h.size(LruList::InactiveFile), 1, "{p}");
        assert_eq!(h.vm(Counter::Pglazyfree), 1);
        h.eng.check();
    }
}

#[test]
fn folios_isolated_meanwhile_are_skipped() {
    let mut h = Host::new("classic");
    let id = h.add(Spec::file());
    h.eng.activate(0, id);
    h.eng.folio_clear(id, Flags::LRU);
    h.eng.lruvec_del(id, true);
    h.eng.lru_add_drain(0);
    assert_eq!(
        (h.vm(Counter::Pgactivate), h.size(LruList::ActiveFile)),
        (0, 0)
    );
    assert_eq!(h.size(LruList::InactiveFile), 0);
}

#[test]
fn locking_into_memory_and_back() {
    for p in ["classic", "base"] {
        let mut h = Host::new(p);
        let id = h.fault(Spec::mapped(1));
        h.eng.mlock(0, id);
        assert!(h.has(id, Flags::MLOCKED), "{p}: at once");
        h.eng.lru_add_drain(0);
        assert_eq!(h.size(LruList::Unevictable), 1, "{p}");
        assert_eq!(h.vm(Counter::UnevictableCulled), 1);
        h.eng.munlock(0, id);
        h.eng.lru_add_drain(0);
        assert_eq!(h.size(LruList::Unevictable), 0, "{p}");
        assert!(!h.any(id, Flags::MLOCKED | Flags::UNEVICTABLE));
        assert_eq!(h.vm(Counter::UnevictableRescued), 1);
        h.eng.check();
    }
}

/// The safety row of `docs/reference/experiments.md#dead-folios`: whatever marks the dead carry and however large they are,
/// none is both free and listed, none is lost, and charges return to nothing.
#[test]
fn the_filter_neither_leaks_nor_lists() {
    for preset_name in ["classic", "base"] {
        let mut sw = preset(preset_name).unwrap();
        sw.drop_dead_on_drain = true;
        let mut h = Host::with(sw, Config::default());
        let mut state = 14u64;
        let mut below = |n: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let mut alive: Vec<FolioId> = Vec::new();
        for round in 0..20_000u64 {
            let order = if below(8) == 0 { 1 + below(3) as u8 } else { 0 };
            let id = h.alloc(Spec::file().order(order));
            match below(4) {
                0 => h.eng.folios[id].set(Flags::ACTIVE),
                1 => h.eng.folios[id].set(Flags::UNEVICTABLE),
                _ => {}
            }
            if order > 0 {
                // Let go before the push that drains: only the batch is left then.
                h.eng.folios[id].get(1);
                h.eng.batches.push(0, BatchOp::Add, id);
                h.eng.folio_put(id, 1);
            } else {
                h.queue(id, false);
            }
            alive.push(id);
            while !alive.is_empty() && below(2) == 0 {
                let at = below(alive.len() as u64) as usize;
                h.truncate(alive.swap_remove(at));
            }
            if h.eng.batch(0, BatchOp::Add).len() >= 31 || below(9) == 0 {
                h.eng.lru_add_drain(0);
            }
            if round % 500 == 0 {
                h.eng.check();
            }
        }
        assert!(h.count(Counter::DeadFiltered) > 1000, "{preset_name}");
        assert_eq!(h.count(Counter::DeadFiltered), h.count(Counter::DeadAtAdd));
        alive.into_iter().for_each(|id| h.truncate(id));
        h.eng.lru_add_drain_all();
        h.eng.check();
        assert_eq!(h.eng.memcgs[h.memcg].memory().usage(), 0, "{preset_name}");
        assert!(h.folios().is_empty(), "{preset_name}");
        for list in LruList::ALL {
            assert_eq!(h.size(list), 0, "{preset_name} {list:?}");
        }
    }
}

#[test]
fn what_the_dead_cost_is_counted_exactly() {
    // B2 to B4: acquisitions without the filter minus those with it.
    for (of, dead) in [
        (vec![A; 31], vec![1, 5, 6, 20, 29]),
        (
            (0..31).map(|i| i % 2).collect(),
            (0..31).filter(|i| i % 2 == 1).collect(),
        ),
        (vec![A, A, B, B, A], vec![2]),
        (vec![A, A, B, B, A], vec![2, 3]),
    ] {
        let [off, on] = [false, true].map(|filter| drained(filter, &of, &dead));
        let saved = (off.0.locks - on.0.locks) as i64;
        for (_, h) in [&off, &on] {
            let counted = h.eng.memcgs.live(MemcgId::ROOT, Counter::DeadLockAcq);
            assert_eq!(counted, saved, "{of:?} {dead:?}");
        }
        assert_eq!(off.0.ops - on.0.ops, 2 * dead.len() as u64);
    }
}

#[test]
fn a_memcg_that_goes_offline_leaves_its_folios_in_their_batches() {
    let mut h = Host::new("v5");
    let id = h.alloc(Spec::file());
    h.queue(id, false);
    h.eng.memcg_offline(h.memcg).unwrap();
    assert_eq!(h.eng.batch(0, BatchOp::Add), [id]);
    h.eng.lru_add_drain_all();
    assert!(h.eng.batch(0, BatchOp::Add).is_empty());
    h.eng.check();
}
