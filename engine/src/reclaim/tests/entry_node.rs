//! What the sums of a node visit mean for waiting: R7, R8 of `docs/rules/reclaim-loop.md`, R9 of
//! `writeback.md`.

use super::small_host;
use crate::config::Config;
use crate::counters::Counter;
use crate::folio::Flags;
use crate::ids::{FolioId, MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::node::ThrottleReason::{Congested, Writeback};
use crate::reclaim::cx::Cx;
use crate::reclaim::node::NodeVisit;
use crate::reclaim::shrink_list::ShrinkList;
use crate::reclaim::{ReclaimKind, ScanControl};
use crate::rules::Rules;
use crate::testing::{Host, Spec};
use crate::zone::{Zone, ZoneClass};

const NODE: NodeId = NodeId(0);

/// A host that scans whole lists in the first round.
fn host(name: &str, cgroup_v2: bool) -> Host {
    let cfg = Config {
        cgroup_v2,
        ..Config::default()
    };
    small_host(name, cfg)
}

/// One visit of the node.
fn visit(h: &mut Host, sc: &mut ScanControl) {
    let mut list = ShrinkList::default();
    let mut answer = None;
    let mut visit = NodeVisit::new(&mut h.eng, sc, NODE, 0);
    loop {
        let mut cx = Cx {
            sc,
            list: &mut list,
            answer: &mut answer,
            cpu: 0,
        };
        match visit.step(&mut h.eng, &mut cx) {
            None => return,
            Some(work) => answer = h.serve(work, &list.freed, &list.pieces),
        }
    }
}

/// `n` file folios under writeback, of which `marked` are marked for rotation already.
fn in_flight(h: &mut Host, n: usize, marked: usize) -> Vec<FolioId> {
    let ids = h.add_many(n, Spec::file().dirty());
    for (i, &id) in ids.iter().enumerate() {
        h.start_write(id);
        if i < marked {
            h.eng.folio_set(id, Flags::RECLAIM);
        }
    }
    ids
}

fn kswapd() -> ScanControl {
    let mut sc = ScanControl::new(64, None);
    sc.kind = ReclaimKind::Kswapd;
    sc
}

#[test]
fn r7_kswapd_waits_when_writeback_comes_round_again() {
    let mut h = host("classic", true);
    let ids = in_flight(&mut h, 64, 32);
    let mut sc = kswapd();
    visit(&mut h, &mut sc);
    assert_eq!((sc.nr.writeback, sc.nr.taken, sc.nr.immediate), (64, 64, 0));
    assert!(h.eng.nodes[0].flag_writeback);
    assert!(h.seen.throttles.is_empty());
    assert_eq!(h.size(LruList::ActiveFile), 64);

    sc.force_deactivate = true;
    visit(&mut h, &mut sc);
    assert_eq!(h.size(LruList::InactiveFile), 64);
    assert!(ids.iter().all(|&id| h.has(id, Flags::RECLAIM)));
    visit(&mut h, &mut sc);
    assert_eq!((sc.nr.writeback, sc.nr.immediate), (0, 64));
    assert_eq!(h.seen.throttles, [(Writeback, 100)]);
}

#[test]
fn the_marks_go_when_kswapd_sleeps_on_a_balanced_node() {
    let mut h = host("classic", true);
    let mut zone = Zone::new(NODE, ZoneClass::Normal, 1000);
    zone.high = 10;
    h.eng.zones.set(vec![zone]);
    in_flight(&mut h, 64, 64);
    let mut sc = kswapd();
    visit(&mut h, &mut sc);
    let root = h.eng.lruvec_id(MemcgId::ROOT, NODE);
    assert!(h.eng.nodes[0].flag_writeback && h.eng.lruvec(root).node_congested);

    h.eng.zones.all_mut()[0].free = 10;
    assert!(!h.eng.kswapd_may_sleep(NODE, 0, 0));
    assert!(h.eng.nodes[0].flag_writeback && h.eng.lruvec(root).node_congested);
    h.eng.zones.all_mut()[0].free = 11;
    assert!(h.eng.kswapd_may_sleep(NODE, 0, 0));
    assert!(!h.eng.nodes[0].flag_writeback && !h.eng.lruvec(root).node_congested);
}

#[test]
fn the_node_is_congested_for_global_reclaim_only() {
    let mut h = host("classic", true);
    in_flight(&mut h, 64, 64);
    visit(&mut h, &mut kswapd());
    let mut limit = h.request(32);
    visit(&mut h, &mut limit);
    assert!(h.seen.throttles.is_empty());
    visit(&mut h, &mut ScanControl::new(32, None));
    assert_eq!(h.seen.throttles, [(Congested, 1)]);
}

/// R8: one visit of limit reclaim over 40 folios under writeback.
fn r8(name: &str, marked: usize, clean: usize) -> Vec<(crate::node::ThrottleReason, u32)> {
    let mut h = host(name, true);
    in_flight(&mut h, 40, marked);
    h.add_many(clean, Spec::mapped(1));
    for id in h.folios() {
        h.script(id).unknown = true;
    }
    let mut sc = h.request(32);
    visit(&mut h, &mut sc);
    h.seen.throttles.clone()
}

#[test]
fn r8_congestion_of_a_memcg() {
    let sleep = [(Congested, 1)];
    assert_eq!(r8("classic", 40, 0), sleep);
    assert_eq!(r8("classic", 39, 0), []);
    assert_eq!(r8("classic", 40, 39), sleep, "80 > 79 pages");
    assert_eq!(
        r8("classic", 40, 40),
        [],
        "half of the node is not under writeback"
    );
    assert_eq!(r8("base", 40, 0), []);
    assert_eq!(r8("v5", 40, 0), sleep);
    assert_eq!(r8("v5", 39, 0), []);
}

#[test]
fn r8_the_mark_goes_at_the_end_of_each_pass() {
    let mut h = host("classic", true);
    in_flight(&mut h, 40, 40);
    let mut sc = h.request(32);
    visit(&mut h, &mut sc);
    assert!(h.eng.lruvec(h.lruvec).cgroup_congested);
    h.limit(32);
    assert!(!h.eng.lruvec(h.lruvec).cgroup_congested);
}

/// R9: flusher wake-ups and sleeps of a list of `dirty` dirty and `clean` clean folios.
fn r9(
    cgroup_v2: bool,
    dirty: usize,
    clean: usize,
) -> (u64, Vec<(crate::node::ThrottleReason, u32)>) {
    let mut h = host("classic", cgroup_v2);
    h.add_many(dirty, Spec::file().dirty());
    h.add_many(clean, Spec::file());
    let mut sc = h.request(32);
    h.visit(&mut sc);
    assert_eq!(sc.nr.taken, 32);
    assert_eq!(h.count(Counter::FlusherWakeups) as u64, h.seen.wakes);
    (h.seen.wakes, h.seen.throttles.clone())
}

#[test]
fn r9_flusher_wakeups() {
    assert_eq!(r9(true, 32, 0), (1, vec![]));
    assert_eq!(r9(false, 32, 0), (1, vec![(Writeback, 100)]));
    assert_eq!(r9(true, 31, 1), (0, vec![]));
}

#[test]
fn cgroup_v1_limit_reclaim_waits_for_the_folio_itself() {
    let mut h = host("classic", false);
    let ids = in_flight(&mut h, 2, 2);
    let mut sc = h.request(32);
    h.visit(&mut sc);
    assert_eq!(h.seen.waits, 2);
    assert!(ids.iter().all(|&id| h.gone(id)), "clean by now");
}

/// `docs/rules/faults.md`: the sums are gone, the comparison of 6.12 is not, and 0 = 0.
#[test]
fn dropped_counters_flag_the_node_as_dirty_after_every_pass() {
    let write = "file_writeback_from_reclaim=on";
    let fault = "mut_counters_dropped=on";
    for (set, flagged) in [
        (&[write][..], false),
        (&[write, fault], true),
        (&[fault], false),
    ] {
        let mut h = host("classic", true);
        for s in set {
            let mut sw = h.eng.switches().clone();
            sw.assign(s).unwrap();
            h.eng.rules = Rules::new(sw);
        }
        h.add_many(64, Spec::file());
        let mut sc = kswapd();
        visit(&mut h, &mut sc);
        assert_eq!(h.count(Counter::PgstealKswapd), 64);
        assert_eq!(h.eng.nodes[0].flag_dirty, flagged, "{set:?}");
        // What comes of it: a dirty folio met again is written instead of activated.
        let again = h.add(Spec::file().dirty().with(Flags::RECLAIM));
        let s = h.shrink(&mut kswapd(), &[again]);
        assert_eq!(
            (s.stat.pageout, h.seen.writes.len()),
            if flagged { (1, 1) } else { (0, 0) }
        );
        h.finish_writes();
        h.eng.check();
    }
}
