//! The orders on a tree, with visits that are made up.

use super::*;
use crate::config::Config;
use crate::memcg::heat::HeatLevel;
use crate::memcg::heat::VisitStats;
use crate::memcg::CounterKind;
use crate::switches::presets::{preset, suffix};
use crate::switches::{RefaultKind, Switches};

const NODE: NodeId = NodeId(0);

/// An engine with `n` memcgs below the root.
fn engine(name: &str, n: u32) -> (Engine, Vec<MemcgId>) {
    let mut eng = Engine::new(Config::default(), switches(name)).unwrap();
    let ids = (0..n).map(|_| memcg(&mut eng, MemcgId::ROOT)).collect();
    (eng, ids)
}

/// A preset and a suffix of it.
fn switches(name: &str) -> Switches {
    let (base, with) = name.split_once('+').unwrap();
    let mut sw = preset(base).unwrap();
    for (switch, value) in suffix(with).unwrap().set {
        sw.set(switch, value).unwrap();
    }
    sw
}

/// A memcg that has something: an empty one counts as protected.
fn memcg(eng: &mut Engine, parent: MemcgId) -> MemcgId {
    let id = eng.memcg_create(parent).unwrap();
    eng.memcgs.charge_forced(id, CounterKind::Memory, 10);
    id
}

/// Runs one visit of the node; each memcg yields what `freed` says of 64 scanned. Returns who was
/// visited, the root not included.
fn run(eng: &mut Engine, sc: &mut ScanControl, freed: impl Fn(MemcgId) -> u64) -> Vec<MemcgId> {
    let mut order = MemcgOrder::new(eng, sc, NODE);
    let mut seen = Vec::new();
    while let Some(memcg) = order.next(eng, sc) {
        let n = if memcg == MemcgId::ROOT {
            0
        } else {
            freed(memcg)
        };
        sc.nr_reclaimed += n;
        let visited = Visited {
            memcg,
            stats: VisitStats {
                scanned: 64,
                reclaimed: n,
                aged: false,
            },
            rotate: false,
            sizable: true,
        };
        order.result(eng, sc, &visited);
        if memcg != MemcgId::ROOT {
            seen.push(memcg);
        }
        assert!(seen.len() < 1000, "a visit must end");
    }
    order.stop(eng);
    eng.check();
    seen
}

fn heat_up(eng: &mut Engine, memcg: MemcgId) {
    let (now, cfg) = (eng.now(), *eng.heat_config());
    let nothing = VisitStats::default();
    eng.nodes[0].heat.posted[memcg.idx()].record(now, &cfg, &nothing, 0);
}

/// As [`heat_up`], on the wheel: by visits that give nothing.
fn heat_up_on_wheel(eng: &mut Engine, memcg: MemcgId) {
    eng.make_wheel(MemcgId::ROOT, NODE);
    let now = eng.now();
    let wheel = eng.wheel_mut(MemcgId::ROOT, NODE);
    let mut call = wheel.begin(now, 12, 0);
    while let Some(id) = wheel.pick(&mut call, now, HeatLevel::Hot) {
        wheel.put(id, now, if id == memcg { 12 } else { 0 });
    }
}

#[test]
fn m8_overshoot() {
    let yields = |id: MemcgId| if id.0 == 1 { 0 } else { 40 };

    let (mut eng, ids) = engine("classic+heat", 3);
    heat_up(&mut eng, ids[0]);
    let mut sc = ScanControl::new(32, None);
    let seen = run(&mut eng, &mut sc, yields);
    assert_eq!((seen, sc.nr_reclaimed), (vec![ids[1], ids[2]], 80));

    let (mut eng, ids) = engine("classic+wheel", 3);
    heat_up_on_wheel(&mut eng, ids[0]);
    let mut sc = ScanControl::new(32, None);
    let seen = run(&mut eng, &mut sc, yields);
    assert_eq!((seen, sc.nr_reclaimed), (vec![ids[1]], 40));
}

#[test]
fn posted_walks_again_for_warm_and_hot_memcgs_only_if_there_are_any() {
    let (mut eng, ids) = engine("classic+heat", 3);
    let mut sc = ScanControl::new(1000, None);
    sc.full_walk = true;
    assert_eq!(run(&mut eng, &mut sc, |_| 40), ids, "all cold: one walk");
    heat_up(&mut eng, ids[2]);
    let mut sc = ScanControl::new(1000, None);
    sc.full_walk = true;
    let seen = run(&mut eng, &mut sc, |_| 40);
    let cold = &ids[..2];
    let want = [cold, cold, &ids[..]].concat();
    assert_eq!(seen, want, "cold memcgs up to three times a call");
    assert_eq!(eng.vmstat()[Counter::HeatVisitsHot], 1);
    assert_eq!(eng.vmstat()[Counter::HeatSkips], 2);
}

#[test]
fn heat_is_for_root_reclaim_only() {
    let (mut eng, ids) = engine("classic+heat", 2);
    let child = memcg(&mut eng, ids[0]);
    heat_up(&mut eng, child);
    let mut sc = ScanControl::new(1000, Some(ids[0]));
    assert_eq!(run(&mut eng, &mut sc, |_| 0), [ids[0], child]);
    assert_eq!(eng.vmstat()[Counter::MemcgVisits], 0);
}

#[test]
fn wheel_serves_a_limit_with_many_descendants() {
    let (mut eng, ids) = engine("classic+wheel", 2);
    for _ in 0..64 {
        memcg(&mut eng, ids[0]);
    }
    let visit = |eng: &mut Engine| {
        let mut sc = ScanControl::new(32, Some(ids[0]));
        run(eng, &mut sc, |id| if id == ids[0] { 0 } else { 40 })
    };
    assert_eq!(visit(&mut eng).len(), 2, "the target itself and one more");
    assert!(
        !eng.nodes[0].heat.wheels.contains_key(&ids[0]),
        "64: a walk"
    );
    let last = memcg(&mut eng, ids[0]);
    visit(&mut eng);
    assert_eq!(eng.nodes[0].heat.wheels[&ids[0]].len(), 65);
    eng.memcg_offline(last).unwrap();
    assert_eq!(visit(&mut eng), [ids[0], last], "an offline memcg is next");
    eng.memcgs.uncharge(last, 10);
    eng.memcg_release_dead();
    assert_eq!(eng.nodes[0].heat.wheels[&ids[0]].len(), 64);
    eng.check();
}

#[test]
fn wheel_passes_over_protected_memcgs_once_an_epoch() {
    let (mut eng, ids) = engine("classic+wheel", 3);
    eng.memcgs.set_low(ids[0], 100).unwrap();
    let mut sc = ScanControl::new(1000, None);
    assert_eq!(run(&mut eng, &mut sc, |_| 1), ids[1..]);
    assert!(sc.low_skipped);
    sc.low_reclaim = true;
    assert_eq!(run(&mut eng, &mut sc, |_| 1).len(), 3);
    assert_eq!(eng.memcgs.local(ids[0])[Counter::EventsLow], 1);
    eng.memcgs.set_min(ids[0], 100).unwrap();
    assert_eq!(run(&mut eng, &mut sc, |_| 1).len(), 2);
}

#[test]
fn wheel_kswapd_stops_at_its_target() {
    let (mut eng, ids) = engine("classic+wheel", 8);
    let mut sc = ScanControl::new(100, None);
    sc.kind = crate::reclaim::ReclaimKind::Kswapd;
    assert_eq!(run(&mut eng, &mut sc, |_| 40), ids[..3]);
    // The next round's target counts from there.
    assert_eq!(run(&mut eng, &mut sc, |_| 40), ids[3..6]);
}

#[test]
fn activations_are_hierarchical_and_as_of_the_last_fold() {
    let (mut eng, ids) = engine("classic+heat", 2);
    let child = memcg(&mut eng, ids[0]);
    let lruvec = eng.lruvec_id(child, NODE);
    eng.lruvecs[lruvec]
        .workingset
        .count(RefaultKind::Activate, 5);
    assert_eq!(eng.activations(ids[0], NODE), 0);
    eng.set_now(eng.config().fold_interval);
    let seen = [MemcgId::ROOT, ids[0], child, ids[1]].map(|m| eng.activations(m, NODE));
    assert_eq!(seen, [5, 5, 5, 0]);
    eng.memcg_offline(child).unwrap();
    eng.memcgs.uncharge(child, 10);
    eng.memcg_release_dead();
    eng.set_now(2 * eng.config().fold_interval);
    assert_eq!(
        eng.activations(ids[0], NODE),
        5,
        "a child leaves its counts"
    );
}

#[test]
fn settings_that_cannot_work_are_named() {
    for (assign, field) in [
        ("heat_max=16", "heat_max"),
        ("heat_hot=2", "heat_warm"),
        ("heat_interval_ms=0", "heat_interval_ms"),
    ] {
        let mut sw = switches("classic+heat");
        sw.assign(assign).unwrap();
        let e = Engine::new(Config::default(), sw).unwrap_err().to_string();
        assert!(e.contains(field), "{e}");
    }
}
