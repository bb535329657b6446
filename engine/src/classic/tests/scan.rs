//! Costs, scan amounts, isolation, proportional scanning: C3 to C6 and C8.

use super::*;
use crate::config::Config;
use crate::counters::Counter;
use crate::ids::{LruType, MemcgId, NodeId};
use crate::node::ThrottleReason;
use crate::reclaim::ScanControl;
use crate::testing::{Spec, WriteAs};

fn cost(h: &Host) -> [u64; 2] {
    h.eng.lruvec(h.lruvec).cost
}

fn set_cost(h: &mut Host, memcg: MemcgId, cost: [u64; 2]) {
    let id = h.eng.lruvec_id(memcg, NodeId(0));
    h.eng.lruvecs[id].cost = cost;
}

#[test]
fn c3_note_cost() {
    let mut h = file_host();
    h.add_many(4000, Spec::file());
    h.eng.memcgs.fold();
    let memcg = h.memcg;
    set_cost(&mut h, memcg, [100, 300]);
    set_cost(&mut h, MemcgId::ROOT, [500, 400]);
    h.eng.note_cost(h.lruvec, LruType::Anon, 3, 20);
    assert_eq!(cost(&h), [216, 300]);
    let root = h.eng.lruvec_id(MemcgId::ROOT, NodeId(0));
    assert_eq!(h.eng.lruvec(root).cost, [308, 200], "ancestors pay too");

    set_cost(&mut h, memcg, [500, 400]);
    h.eng.note_cost(h.lruvec, LruType::File, 0, 200);
    assert_eq!(cost(&h), [250, 300]);
}

#[test]
fn c3_costs_decay_by_the_folded_sizes_and_only_with_a_cost() {
    let mut h = file_host();
    h.add_many(400, Spec::file());
    let memcg = h.memcg;
    set_cost(&mut h, memcg, [50, 40]);
    h.eng.note_cost(h.lruvec, LruType::File, 0, 0);
    assert_eq!(cost(&h), [50, 40], "nothing was in vain");
    h.eng.note_cost(h.lruvec, LruType::File, 0, 2);
    assert_eq!(cost(&h), [25, 21], "no fold yet: the lists count as empty");
    h.eng.memcgs.fold();
    h.eng.note_cost(h.lruvec, LruType::File, 0, 3);
    assert_eq!(cost(&h), [25, 24], "49 of 400 pages");
}

#[test]
fn c4_proportional_stop() {
    let mut h = Host::new("classic");
    let anon = h.add_many(100, Spec::anon());
    for &id in &anon[..8] {
        h.script(id).write = WriteAs::Finished;
    }
    for &id in &anon[8..] {
        h.script(id).accessed = 1;
    }
    h.add_many(300, Spec::file());
    h.add_many(100, Spec::file().with(Flags::ACTIVE));
    let mut sc = h.request(32);
    sc.priority = 0;
    sc.may_deactivate = [false, true];
    h.visit(&mut sc);
    assert_eq!(h.count(Counter::PgscanAnon), 32);
    assert_eq!(h.count(Counter::PgscanFile), 64);
    assert_eq!(h.count(Counter::Pgrefill), 33);
    assert_eq!(sc.nr_reclaimed, 8 + 32 + 32);
}

#[test]
fn c5_isolation_skips_zones_the_request_cannot_use() {
    let cfg = Config {
        nr_zones: 3,
        ..Config::default()
    };
    let mut h = Host::with(crate::presets::preset("classic").unwrap(), cfg);
    h.eng.set_swap(0, 0);
    let high = h.add_many(10, Spec::file().zone(2));
    let low = h.add_many(64, Spec::file());
    let mut sc = h.request(32);
    sc.reclaim_idx = 1;
    sc.priority = 1;
    h.visit(&mut sc);
    assert_eq!(h.count(Counter::PgscanDirect), 42);
    assert_eq!(h.vm(Counter::Pgskip), 10);
    assert_eq!(
        sc.nr_scanned, 32,
        "taken; skipped pages are not counted here"
    );
    assert_eq!(sc.nr_reclaimed, 32);
    let left = tail_first(&h, LruList::InactiveFile);
    assert_eq!(left[..32], low[32..]);
    assert_eq!(left[32..], high, "at the head, in their old order");
}

fn scan_of_inactive_file(h: &mut Host, target: MemcgId, priority: u8) -> (u64, bool) {
    let mut sc = ScanControl::new(32, Some(target));
    sc.priority = priority;
    let nr = h.eng.get_scan_count(&mut sc, h.lruvec);
    (nr[LruList::InactiveFile.idx()], sc.low_skipped)
}

#[test]
fn c6_scan_sizes() {
    let mut h = file_host();
    let memcg = h.memcg;
    h.add_many(4095, Spec::file());
    assert_eq!(scan_of_inactive_file(&mut h, memcg, 12).0, 0);
    h.add_many(8192 - 4095, Spec::file());
    assert_eq!(scan_of_inactive_file(&mut h, memcg, 12).0, 2);
}

#[test]
fn c6_protected_lists_give_at_least_32_before_the_shift() {
    let mut h = file_host();
    let memcg = h.memcg;
    h.add_many(1000, Spec::file());
    h.eng.memcgs.set_low(memcg, 1000).unwrap();
    h.eng.memcgs.calculate_protection(MemcgId::ROOT, memcg);
    assert_eq!(scan_of_inactive_file(&mut h, MemcgId::ROOT, 12), (0, true));
    assert_eq!(scan_of_inactive_file(&mut h, MemcgId::ROOT, 5), (1, true));
    assert_eq!(scan_of_inactive_file(&mut h, MemcgId::ROOT, 0), (32, true));
    assert_eq!(
        scan_of_inactive_file(&mut h, memcg, 0),
        (1000, false),
        "a target is not protected from itself"
    );
}

#[test]
fn c6_offline_lists_are_scanned_whole() {
    let mut h = file_host();
    let memcg = h.memcg;
    h.add_many(20, Spec::file());
    assert_eq!(scan_of_inactive_file(&mut h, MemcgId::ROOT, 12).0, 0);
    h.eng.memcg_offline(memcg).unwrap();
    assert_eq!(scan_of_inactive_file(&mut h, MemcgId::ROOT, 12).0, 20);
}

#[test]
fn c8_shrink_active() {
    let mut h = file_host();
    let spec = Spec::mapped(1).with(Flags::ACTIVE);
    let ids = h.add_many(4, spec);
    h.eng.memcgs.fold();
    for (i, accessed, exec) in [(0, 1, true), (1, 1, false), (2, 0, true)] {
        let s = h.script(ids[i]);
        (s.accessed, s.exec) = (accessed, exec);
    }
    h.eng.folio_set(ids[3], Flags::MLOCKED);
    let clock = h.eng.lruvec(h.lruvec).workingset.clock();
    let mut sc = h.request(32);
    sc.priority = 0;
    sc.may_deactivate = [false, true];
    h.visit(&mut sc);
    h.eng.lru_add_drain(0);
    assert!(active(&h, ids[0]) && !h.has(ids[0], Flags::WORKINGSET));
    for id in &ids[1..3] {
        assert!(!active(&h, *id) && h.has(*id, Flags::LRU | Flags::WORKINGSET));
    }
    assert!(h.has(ids[3], Flags::UNEVICTABLE));
    assert_eq!(h.count(Counter::Pgrefill), 4);
    assert_eq!(h.count(Counter::Pgdeactivate), 2);
    assert_eq!(cost(&h), [0, 1]);
    assert_eq!(
        h.eng.lruvec(h.lruvec).workingset.clock() - clock,
        1,
        "the rotated page ages the clock"
    );
    assert_eq!(sc.nr_reclaimed, 0);
}

#[test]
fn c8_deactivation_keeps_the_descriptor_reference() {
    let mut h = file_host();
    let id = h.add(Spec::file().with(Flags::ACTIVE | Flags::REFERENCED));
    let mut sc = h.request(32);
    sc.priority = 0;
    sc.may_deactivate = [false, true];
    h.visit(&mut sc);
    assert!(!active(&h, id));
    h.eng.mark_accessed(0, id);
    h.eng.lru_add_drain(0);
    assert!(active(&h, id), "one access is enough");
}

#[test]
fn active_lists_are_left_alone_without_their_bit() {
    let mut h = file_host();
    h.add_many(64, Spec::file().with(Flags::ACTIVE));
    let mut sc = h.request(32);
    sc.priority = 0;
    h.visit(&mut sc);
    assert!(sc.skipped_deactivate);
    assert_eq!(h.size(LruList::ActiveFile), 64);
    assert_eq!(h.count(Counter::Pgrefill), 0);
}

#[test]
fn isolated_sleepers_wake_when_somebody_may_isolate() {
    let mut h = file_host();
    h.add_many(320, Spec::file());
    h.eng.nodes[0].resize_isolated(LruType::File, 41);
    let mut sc = h.request(32);
    sc.priority = 3;
    h.visit(&mut sc);
    let isolated = ThrottleReason::Isolated;
    assert_eq!(
        h.seen.throttles,
        [(isolated, 20), (isolated, 20)],
        "40 pages: two batches"
    );
    assert_eq!(sc.nr_reclaimed, 0, "41 > 320 / 8");

    h.eng.nodes[0].resize_isolated(LruType::File, -1);
    h.eng.nodes[0].sleep(isolated);
    h.visit(&mut sc);
    assert_eq!(h.seen.throttles.len(), 2);
    assert_eq!(h.seen.throttle_wakes, 1);
    assert_eq!(h.vm(Counter::IsolatedFile), 0, "all came back");
}

#[test]
fn c3_inactive_scans_cost_what_they_did_not_free() {
    let mut h = file_host();
    h.add_many(12, Spec::file());
    for id in h.add_many(20, Spec::file()) {
        h.eng.folio_get(id, 1);
    }
    h.add_many(96, Spec::file());
    h.eng.memcgs.fold();
    let mut sc = h.request(12);
    sc.priority = 2;
    h.visit(&mut sc);
    assert_eq!(sc.nr_reclaimed, 12);
    assert_eq!(cost(&h), [0, 20]);
}
