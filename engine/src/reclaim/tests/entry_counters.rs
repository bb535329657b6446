//! Worked examples of the counters.

use super::small_host;
use crate::config::{Config, Scale};
use crate::counters::Counter::{self, *};
use crate::folio::Flags;
use crate::ids::MemcgId;
use crate::presets::preset;
use crate::reclaim::cx::Cx;
use crate::reclaim::lruvec_loop::LruvecLoop;
use crate::reclaim::shrink_list::ShrinkList;
use crate::reclaim::{ReclaimKind, ScanControl};
use crate::testing::{Host, Spec, WriteAs};

fn memcg(h: &Host, counters: &[Counter]) -> Vec<i64> {
    counters.iter().map(|&c| h.count(c)).collect()
}

fn vm(h: &Host, counters: &[Counter]) -> Vec<i64> {
    counters.iter().map(|&c| h.vm(c)).collect()
}

/// 32 pages looked at, 30 taken (two are mapped and must not be unmapped), 20 freed, 5 activated.
fn k1(counters_72: bool) -> Host {
    let mut sw = preset("classic").unwrap();
    sw.counters_72 = counters_72;
    let mut h = Host::with(sw, Config::default());
    h.add_many(2, Spec::mapped(1));
    h.add_many(20, Spec::file());
    let used = h.add_many(5, Spec::file());
    for id in used {
        h.eng.folio_get(id, 1);
    }
    h.add_many(5, Spec::file().dirty());
    let mut sc = h.request(32);
    sc.priority = 0;
    sc.may_unmap = false;
    assert_eq!(h.reclaim(sc).reclaimed, 20);
    h
}

#[test]
fn k1_classic_limit_reclaim() {
    let h = k1(false);
    let events = [
        PgscanDirect,
        PgstealDirect,
        Pgactivate,
        PgscanFile,
        PgstealFile,
    ];
    assert_eq!(memcg(&h, &events[..3]), [32, 20, 5]);
    assert_eq!(vm(&h, &events), [0, 0, 5, 32, 20]);
    assert_eq!(h.vm(Allocstall), 0);
    assert_eq!(vm(&k1(true), &events), [32, 20, 5, 32, 20]);
}

/// One multi-gen batch. Folios of the wrong zone come last, after every eligible one, and a batch of
/// 64 isolated pages ends before them: here 63 are isolated.
#[test]
fn k2_multi_gen_kswapd_batch() {
    let cfg = Config {
        nr_zones: 2,
        scale: Scale {
            shift: 12,
            ..Scale::default()
        },
        ..Config::default()
    };
    let mut sw = preset("v5").unwrap();
    sw.smaller_batch = false; // else 64 pages looked at are a batch
    let mut h = Host::with(sw, cfg);
    h.eng.set_swap(0, 0);
    h.set_seqs(8, [5, 5]);
    // Tier 2 refaults more than tier 0: it is protected.
    let ctrl = &mut h.eng.lruvecs[h.lruvec].gens_mut().ctrl[1];
    (ctrl.evicted, ctrl.refaulted) = ([1000; 4], [0, 0, 1000, 0]);
    h.fill(5, 6, Spec::file().zone(1));
    for id in h.fill(5, 10, Spec::file()) {
        for _ in 0..3 {
            h.eng.mark_accessed(0, id);
        }
    }
    h.fill(5, 49, Spec::file());
    let held = h.fill(5, 14, Spec::file());
    for &id in &held {
        h.eng.folio_get(id, 1);
    }
    for seq in 6..=8 {
        h.fill(seq, 100, Spec::file());
    }
    let mut sc = ScanControl::new(53, None);
    sc.kind = ReclaimKind::Kswapd;
    sc.reclaim_idx = 0;

    let mut list = ShrinkList::default();
    let mut answer = None;
    let mut visit = LruvecLoop::new(&mut h.eng, &mut sc, h.lruvec, 0);
    let mut steals = Vec::new();
    loop {
        let mut cx = Cx {
            sc: &mut sc,
            list: &mut list,
            answer: &mut answer,
            cpu: 0,
        };
        let Some(work) = visit.step(&mut h.eng, &mut cx) else {
            break;
        };
        answer = h.serve(work, &list.freed, &list.pieces);
        if steals.last() != Some(&h.vm(PgstealKswapd)) {
            steals.push(h.vm(PgstealKswapd));
        }
        if h.seen.freed_pages() == 49 {
            // Before the second attempt, four are let go.
            for id in held.iter().take(4) {
                if h.folio(*id).refcount() == 3 {
                    h.eng.folio_put(*id, 1);
                }
            }
        }
    }
    assert_eq!(
        vm(&h, &[PgscanKswapd, Pgrefill, PgstealKswapd, Pgskip]),
        [63, 16, 53, 0]
    );
    assert_eq!(
        steals,
        [0, 49],
        "counted after each pass; the last after the last request"
    );
    assert_eq!(sc.nr_scanned, 63 + 14);
    assert_eq!(sc.nr_reclaimed, 53);
}

/// An anonymous page swapped out with this kind of write.
fn k3(write: WriteAs) -> Host {
    let mut h = Host::new("classic");
    let id = h.add(Spec::anon());
    h.script(id).write = write;
    let mut sc = h.request(32);
    sc.priority = 0;
    h.visit(&mut sc);
    h
}

#[test]
fn k3_swap_to_a_disk() {
    let mut h = k3(WriteAs::InFlight);
    assert_eq!(vm(&h, &[VmscanWrite, PgstealAnon, PgscanAnon]), [1, 0, 1]);
    assert_eq!(h.count(Writeback), 1);
    h.finish_writes();
    h.eng.lru_add_drain(0);
    assert_eq!(vm(&h, &[Written, Pgrotated]), [1, 1]);
    assert_eq!(h.count(Writeback), 0);
    let mut sc = h.request(32);
    sc.priority = 0;
    h.visit(&mut sc);
    assert_eq!(vm(&h, &[VmscanWrite, PgstealAnon, PgscanAnon]), [1, 1, 2]);
}

#[test]
fn k3_swap_to_compressed_memory() {
    let h = k3(WriteAs::Finished);
    assert_eq!(vm(&h, &[VmscanWrite, PgstealAnon, PgscanAnon]), [1, 1, 1]);
    assert_eq!(
        h.eng.lruvec(h.lruvec).cost[0],
        16,
        "32, halved: the folded lists are empty"
    );
    assert_eq!(h.eng.vmstat().get(Written), 0);
}

/// A dirty file page at the tail, met three times before its writeback ends.
fn k4(name: &str) -> Host {
    let mut h = small_host(name, Config::default());
    let id = h.add(Spec::file().dirty());
    for _ in 0..3 {
        let mut sc = h.request(32);
        let mut list = vec![id];
        let s = h.shrink(&mut sc, &list);
        assert_eq!(s.active, list);
        list.clear();
        h.eng.deactivate(0, id);
        h.eng.lru_add_drain(0);
    }
    assert_eq!(h.vm(VmscanImmediate), 3);
    assert_eq!(h.count(Pgactivate), 3);
    h.start_write(id);
    h.finish_writes();
    h.eng.lru_add_drain(0);
    assert_eq!(h.vm(Pgrotated), 1);
    let mut sc = h.request(32);
    let s = h.shrink(&mut sc, &[id]);
    assert_eq!(s.stat.reclaimed, 1);
    h
}

#[test]
fn k4_dirty_pages_are_activated_each_time_they_are_met() {
    for name in ["classic", "v5"] {
        let h = k4(name);
        assert_eq!(h.seen.freed_pages(), 1, "{name}");
        assert_eq!(h.eng.memcgs.local(MemcgId::ROOT).get(VmscanImmediate), 0);
    }
}

#[test]
fn k5_without_batching_each_dirty_folio_is_flushed_for_itself() {
    let mut h = Host::new("classic");
    for id in h.add_many(31, Spec::anon()) {
        let s = h.script(id);
        s.pte_dirty = true;
        s.write = WriteAs::Finished;
    }
    let mut sc = h.request(32);
    sc.priority = 0;
    h.visit(&mut sc);
    assert_eq!(sc.nr_reclaimed, 31);
    assert_eq!(h.seen.flushes_for_write, 31);
    assert_eq!(h.vm(UnmapFlushDirty), 31);
    assert_eq!(h.seen.flushes, 31, "nothing is left for the end");

    let mut h = Host::new("classic");
    let clean = h.add_many(31, Spec::mapped(1));
    let mut sc = h.request(32);
    sc.priority = 0;
    h.visit(&mut sc);
    assert!(clean.iter().all(|&id| h.has(id, Flags::DEAD)));
    assert_eq!(
        (h.seen.flushes, h.seen.flushes_for_write),
        (1, 0),
        "clean ones share one"
    );
}
