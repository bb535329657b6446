//! Limit reclaim in a tree: protection, events, shared walks, offline memcgs (`docs/rules/memcg.md`).

use crate::counters::Counter;
use crate::ids::{FolioId, LruvecId, MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::memcg::CounterKind;
use crate::presets::PRESETS;
use crate::reclaim::{ReclaimTask, ScanControl, Work};
use crate::testing::{Host, Spec};

/// Makes the host create folios in `memcg` from now on.
fn enter(h: &mut Host, memcg: MemcgId) {
    h.memcg = memcg;
    h.lruvec = h.eng.lruvec_id(memcg, NodeId(0));
}

fn child(h: &mut Host, parent: MemcgId, pages: usize) -> (MemcgId, Vec<FolioId>) {
    let id = h.eng.memcg_create(parent).unwrap();
    enter(h, id);
    let ids = h.add_many(pages, Spec::file());
    enter(h, parent);
    (id, ids)
}

fn local(h: &Host, memcg: MemcgId, c: Counter) -> i64 {
    h.eng.memcgs.local(memcg).get(c)
}

fn classic() -> Host {
    let mut h = Host::new("classic");
    h.eng.set_swap(0, 0);
    h
}

#[test]
fn m4_protection_in_the_scan_amounts() {
    let mut h = classic();
    let p = h.memcg;
    let (c, _) = child(&mut h, p, 10_000);
    h.eng.memcgs.set_low(c, 8000).unwrap();
    h.eng.memcgs.calculate_protection(p, c);
    let lruvec = h.eng.lruvec_id(c, NodeId(0));
    let scan = |h: &mut Host, low_reclaim: bool, priority: u8| {
        let mut sc = ScanControl::new(32, Some(p));
        (sc.priority, sc.low_reclaim) = (priority, low_reclaim);
        let nr = h.eng.get_scan_count(&mut sc, lruvec);
        (nr[LruList::InactiveFile.idx()], sc.low_skipped)
    };
    // 10000 * 8000 / 10001 = 7999 are protected.
    assert_eq!(scan(&mut h, false, 0), (2001, true));
    assert_eq!(scan(&mut h, false, 6), (31, true));
    assert_eq!(scan(&mut h, true, 6), (156, false));
}

#[test]
fn limit_reclaim_takes_the_unprotected_first() {
    let mut h = classic();
    let p = h.memcg;
    let (a, of_a) = child(&mut h, p, 100);
    let (b, of_b) = child(&mut h, p, 100);
    h.eng.memcgs.set_low(a, 100).unwrap();
    let out = h.limit(32);
    assert!(out.reclaimed >= 32);
    assert!(of_a.iter().all(|&id| !h.gone(id)) && h.gone(of_b[0]));
    assert_eq!(local(&h, a, Counter::EventsLow), 0);

    h.eng.memcgs.set_min(b, 200).unwrap();
    let out = h.limit(32);
    assert_eq!(out.passes, 3, "partial, full, without low");
    assert!(out.reclaimed >= 32);
    assert!(h.gone(of_a[0]));
    assert!(local(&h, a, Counter::EventsLow) > 0);
    assert_eq!(
        h.eng.memcgs.event_total(p, Counter::EventsLow),
        local(&h, a, Counter::EventsLow)
    );
    assert_eq!(
        h.eng.memcgs.event_total(MemcgId::ROOT, Counter::EventsLow),
        0
    );
    assert_eq!(
        local(&h, b, Counter::EventsLow),
        0,
        "below min: not visited"
    );
}

#[test]
fn the_target_is_not_protected_from_its_own_limit() {
    for p in PRESETS {
        let mut h = Host::new(p.names[0]);
        h.add_many(200, Spec::file());
        h.eng.memcgs.set_min(h.memcg, 1000).unwrap();
        assert!(h.limit(32).reclaimed >= 32, "{}", p.names[0]);
    }
}

#[test]
fn event_max_belongs_to_the_memcg_whose_limit_was_met() {
    use crate::memcg::{ChargeFlags, ChargeStep, ChargeTask, TaskMemcg};
    let mut h = classic();
    let p = h.memcg;
    let (c, _) = child(&mut h, p, 100);
    h.eng.memcgs.set_max(p, CounterKind::Memory, 100).unwrap();
    let mut charge = ChargeTask::new(c, 1, ChargeFlags::USER);
    let mut task = TaskMemcg::default();
    let step = charge.step(&mut h.eng.memcgs, 0, &mut task);
    assert_eq!(step, ChargeStep::Reclaim { over: p, nr: 32 });
    let freed = h.limit(32).reclaimed;
    assert!(freed >= 32);
    charge.reclaim_done(freed);
    assert!(matches!(
        charge.step(&mut h.eng.memcgs, 0, &mut task),
        ChargeStep::Done(Ok(_))
    ));
    assert_eq!(local(&h, p, Counter::EventsMax), 1);
    assert_eq!(local(&h, c, Counter::EventsMax), 0);
    assert_eq!(
        local(&h, c, Counter::PgstealDirect),
        freed as i64,
        "counted where the pages were"
    );
    assert_eq!(local(&h, p, Counter::LimitReclaim), 1);
}

/// Lruvecs whose folios a task has freed, each once, in order.
fn victims(h: &mut Host, task: &mut ReclaimTask, stop_at_first: bool) -> Vec<LruvecId> {
    let mut out: Vec<LruvecId> = Vec::new();
    loop {
        let work = task.step(&mut h.eng);
        if work == Work::Done {
            return out;
        }
        for f in task.freed() {
            if work == Work::Free && out.last() != Some(&f.lruvec) {
                out.push(f.lruvec);
            }
        }
        if let Some(answer) = h.serve(work, task.freed(), task.pieces()) {
            task.answer(answer);
        }
        if stop_at_first && !out.is_empty() {
            return out;
        }
    }
}

#[test]
fn m6_two_limit_reclaims_share_a_walk() {
    let mut h = classic();
    let p = h.memcg;
    let memcgs: Vec<MemcgId> = (0..4).map(|_| child(&mut h, p, 10_000).0).collect();
    let lruvec = |h: &Host, i: usize| h.eng.lruvec_id(memcgs[i], NodeId(0));
    let mut x = ReclaimTask::limit(p, 3, 0, NodeId(0));
    let mut y = ReclaimTask::limit(p, 4, 0, NodeId(0));
    // 2 pages of each memcg at priority 12: x takes the first and stands in the second.
    assert_eq!(victims(&mut h, &mut x, true), [lruvec(&h, 0)]);
    // y joins after it: second and third.
    assert_eq!(
        victims(&mut h, &mut y, false),
        [lruvec(&h, 1), lruvec(&h, 2)]
    );
    // x goes on behind y.
    assert_eq!(victims(&mut h, &mut x, false), [lruvec(&h, 3)]);
    assert_eq!((x.outcome().reclaimed, y.outcome().reclaimed), (4, 4));
    assert_eq!((x.outcome().rounds, y.outcome().rounds), (1, 1));
}

#[test]
fn an_abandoned_walk_lets_go_of_its_memcg() {
    let mut h = classic();
    let p = h.memcg;
    let (a, ids) = child(&mut h, p, 10_000);
    let mut x = ReclaimTask::limit(p, 32, 0, NodeId(0));
    assert_eq!(victims(&mut h, &mut x, true).len(), 1);
    // The host may give a task up only where nothing is isolated.
    while !matches!(x.step(&mut h.eng), Work::Done) {}
    x.abandon(&mut h.eng);
    for id in ids {
        if h.eng.folio(id).lruvec() == h.eng.lruvec_id(a, NodeId(0)) && !h.gone(id) {
            h.truncate(id);
        }
    }
    h.eng.memcg_offline(a).unwrap();
    assert_eq!(h.eng.memcgs.next_releasable(), Some(a));
}

#[test]
fn offline_memcgs_are_drained_whole() {
    let mut h = classic();
    let (dead, ids) = child(&mut h, MemcgId::ROOT, 20);
    let (alive, _) = child(&mut h, MemcgId::ROOT, 20);
    h.eng.memcg_offline(dead).unwrap();
    let out = h.reclaim(ScanControl::new(20, None));
    assert_eq!((out.reclaimed, out.rounds), (20, 1));
    assert!(ids.iter().all(|&id| h.gone(id)));
    assert_eq!(h.eng.memcgs.next_releasable(), Some(dead));
    let left = h.eng.memcgs[alive].memory().usage();
    assert_eq!(left, 20, "20 pages >> 12 is nothing online");
}

#[test]
fn a_large_offline_memcg_offers_32_pages_of_a_classic_list() {
    let mut h = classic();
    let (dead, _) = child(&mut h, MemcgId::ROOT, 1000);
    h.eng.memcg_offline(dead).unwrap();
    let lruvec = h.eng.lruvec_id(dead, NodeId(0));
    let offers = |h: &mut Host, priority| {
        let mut sc = ScanControl::new(32, None);
        sc.priority = priority;
        h.eng.get_scan_count(&mut sc, lruvec)[LruList::InactiveFile.idx()]
    };
    assert_eq!(offers(&mut h, 12), 32);
    assert_eq!(offers(&mut h, 9), 1, "a share that is not 0 counts");
}

#[test]
fn multi_gen_drains_offline_memcgs_in_the_first_round() {
    // Before the series a loop ends when it has scanned as much as is left: half of a large memcg in a round.
    for (name, pages, rounds) in [
        ("v612", 20, 1),
        ("base", 20, 1),
        ("v2", 20, 1),
        ("v5", 20, 1),
        ("merged", 20, 1),
        ("v612", 1000, 4),
        ("base", 1000, 4),
        ("v2", 1000, 1),
        ("v5", 1000, 1),
        ("merged", 1000, 1),
    ] {
        let mut h = Host::new(name);
        h.eng.set_swap(0, 0);
        let (dead, ids) = child(&mut h, MemcgId::ROOT, pages);
        h.eng.memcg_offline(dead).unwrap();
        let mut sc = ScanControl::new(pages as u64, None);
        sc.priority = 11;
        let out = h.reclaim(sc);
        let got = (out.reclaimed, out.rounds);
        assert_eq!(got, (pages as u64, rounds), "{name}: {pages} >> 11 is 0");
        assert!(ids.iter().all(|&id| h.gone(id)), "{name}");
        assert_eq!(h.eng.memcgs.next_releasable(), Some(dead), "{name}");
    }
}

#[test]
fn dead_memcgs_are_released_and_their_ids_used_again() {
    for p in PRESETS {
        let name = p.names[0];
        let mut h = Host::new(name);
        let (dead, ids) = child(&mut h, MemcgId::ROOT, 20);
        assert_eq!(h.eng.memcg_release_dead(), 0, "{name}: online");
        h.eng.memcg_offline(dead).unwrap();
        assert_eq!(h.eng.memcg_release_dead(), 0, "{name}: has pages");
        for id in ids {
            h.truncate(id);
        }
        assert_eq!(h.eng.memcg_release_dead(), 1, "{name}");
        assert!(!h.eng.memcgs.exists(dead));
        h.reclaim(ScanControl::new(32, None));
        let (again, _) = child(&mut h, MemcgId::ROOT, 100);
        assert_eq!(again, dead);
        let out = h.reclaim(ScanControl::new(32, None));
        assert!(out.reclaimed >= 32, "{name}: {out:?}");
        h.eng.check();
    }
}

#[test]
fn a_memcg_stays_while_global_reclaim_visits_it() {
    for name in ["classic", "v612", "base", "v5"] {
        let mut h = Host::new(name);
        h.eng.set_swap(0, 0);
        let (dead, _) = child(&mut h, MemcgId::ROOT, 20);
        h.eng.memcg_offline(dead).unwrap();
        let mut task = ReclaimTask::try_to_free(ScanControl::new(20, None), 0, NodeId(0));
        let of = victims(&mut h, &mut task, true);
        assert_eq!(of, [h.eng.lruvec_id(dead, NodeId(0))], "{name}");
        assert_eq!(h.eng.memcgs[dead].memory().usage(), 0, "{name}");
        assert_eq!(h.eng.memcg_release_dead(), 0, "{name}: visited");
        victims(&mut h, &mut task, false);
        assert_eq!(h.eng.memcg_release_dead(), 1, "{name}");
    }
}

#[test]
fn full_walks_do_not_stop_at_the_target() {
    for (full_walk, reclaimed) in [(false, 4), (true, 8)] {
        let mut h = classic();
        let p = h.memcg;
        for _ in 0..4 {
            child(&mut h, p, 10_000);
        }
        let mut sc = ScanControl::new(3, Some(p));
        sc.full_walk = full_walk;
        assert_eq!(h.reclaim(sc).reclaimed, reclaimed);
    }
}
