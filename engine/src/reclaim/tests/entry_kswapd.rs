//! Runs of kswapd: R2, R3 and R7's surroundings of `docs/rules/reclaim-loop.md`.

use crate::counters::Counter;
use crate::folio::Flags;
use crate::ids::NodeId;
use crate::lruvec::LruList;
use crate::node::MAX_RECLAIM_RETRIES;
use crate::reclaim::{ReclaimTask, ScanControl, Work};
use crate::testing::{Host, Spec};
use crate::zone::{set_watermarks, WatermarkConfig, Zone, ZoneClass};

const NODE: NodeId = NodeId(0);

/// A host with the first zone of R1 and that many free pages.
fn host(preset: &str, free: u64) -> Host {
    let mut h = Host::new(preset);
    h.eng.set_swap(0, 0);
    let mut zone = Zone::new(NODE, ZoneClass::Normal, 262_144);
    zone.free = free;
    h.eng.zones.set(vec![zone]);
    let config = WatermarkConfig {
        min_free_kbytes: Some(4096),
        ..WatermarkConfig::default()
    };
    set_watermarks(h.eng.zones.all_mut(), &config).unwrap();
    assert_eq!(
        (h.eng.zones.all()[0].low, h.eng.zones.all()[0].high),
        (1286, 1548)
    );
    h
}

/// One round as seen at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Round {
    priority: u8,
    scanned: u64,
    /// Since the beginning of the run.
    reclaimed: u64,
}

/// A whole run of kswapd; the task and what each round came to.
fn kswapd(h: &mut Host, order: u8) -> (ReclaimTask, Vec<Round>) {
    let mut task = ReclaimTask::kswapd(&mut h.eng, NODE, order, 0, 0);
    let mut rounds = Vec::new();
    loop {
        match task.step(&mut h.eng) {
            Work::Done => return (task, rounds),
            Work::Balance { .. } => rounds.push(Round {
                priority: task.sc.priority,
                scanned: task.sc.nr_scanned,
                reclaimed: task.sc.nr_reclaimed,
            }),
            work => {
                if let Some(answer) = h.serve(work, task.freed(), task.pieces()) {
                    task.answer(answer);
                }
            }
        }
    }
}

fn priorities(rounds: &[Round]) -> Vec<u8> {
    rounds.iter().map(|r| r.priority).collect()
}

#[test]
fn r2_runs_until_the_high_mark() {
    let mut h = host("classic", 1285);
    h.add_many(100_000, Spec::file());
    let (task, rounds) = kswapd(&mut h, 0);
    assert_eq!(task.sc.nr_to_reclaim, 1548, "the mark, not the deficit");
    assert_eq!(priorities(&rounds), [12, 11, 10, 9]);
    assert_eq!(task.outcome().reclaimed, 24 + 48 + 97 + 194);
    assert_eq!(h.eng.zones.all()[0].free, 1285 + 363);
    assert_eq!(h.vm(Counter::Pageoutrun), 1);
    assert_eq!(h.vm(Counter::PgstealKswapd), 363);
    assert_eq!(h.eng.nodes[0].kswapd_failures(), 0);
}

#[test]
fn r2_exactly_the_mark_is_not_enough() {
    for (free, balanced) in [(1548, false), (1549, true)] {
        let mut h = host("classic", free);
        h.add_many(8192, Spec::file());
        let (_, rounds) = kswapd(&mut h, 0);
        assert_eq!(rounds.is_empty(), balanced, "free {free}");
        assert_eq!(h.eng.nodes[0].kswapd_failures(), 0, "no need is no failure");
    }
}

#[test]
fn r2_enough_scanned_with_some_progress_keeps_the_priority() {
    // Nothing but ten pages can be freed, and 1548 pages are looked at from priority 6 on.
    let mut h = host("classic", 0);
    let free = h.add_many(10, Spec::file());
    for id in h.add_many(110_000, Spec::mapped(1)) {
        h.script(id).unknown = true;
    }
    // The ten turn up at the tail when priority 6 is reached.
    for &id in &free {
        h.eng.folio_get(id, 1);
    }
    let mut task = ReclaimTask::kswapd(&mut h.eng, NODE, 0, 0, 0);
    let mut rounds = Vec::new();
    loop {
        match task.step(&mut h.eng) {
            Work::Done => break,
            Work::Balance { .. } => {
                rounds.push((task.sc.priority, task.sc.nr_scanned, task.sc.nr_reclaimed));
                if task.sc.priority == 7 {
                    // Their user lets go; they are next.
                    for &id in &free {
                        h.eng.folio_put(id, 1);
                        h.eng.lruvec_del(id, false);
                        h.eng.lruvec_add(id, true);
                    }
                }
            }
            work => {
                if let Some(answer) = h.serve(work, task.freed(), task.pieces()) {
                    task.answer(answer);
                }
            }
        }
    }
    let at = rounds.iter().position(|r| r.0 == 6).unwrap();
    let (_, scanned, reclaimed) = rounds[at];
    assert!(scanned >= 1548 && reclaimed == 10, "{:?}", rounds[at]);
    assert_eq!(rounds[at + 1].0, 6, "progress and enough scanned: stays");
    assert_eq!(
        rounds[at + 2].0,
        5,
        "no progress: goes on, whatever was scanned"
    );
    let early = rounds.iter().take(at).map(|r| r.0).collect::<Vec<_>>();
    assert_eq!(early, [12, 11, 10, 9, 8, 7], "too little scanned");
}

#[test]
fn r3_high_order_falls_back_to_order_0() {
    let mut h = host("classic", 1000);
    h.eng.zones.all_mut()[0].largest_free_order = 3;
    h.add_many(200_000, Spec::file());
    let (task, rounds) = kswapd(&mut h, 9);
    let before = rounds.iter().rposition(|r| r.reclaimed < 1024).unwrap();
    assert_eq!(
        before + 2,
        rounds.len(),
        "the round that reaches 2 << 9 is the last: {rounds:?}"
    );
    assert_eq!(task.kswapd_order(), 0);
    assert!(h.eng.zones.all()[0].free > 1548);
    assert!(h.eng.kswapd_may_sleep(NODE, 0, 0));
    assert!(!h.eng.kswapd_may_sleep(NODE, 9, 0), "compaction's work");
}

#[test]
fn fruitless_runs_park_kswapd_until_somebody_makes_progress() {
    let mut h = host("classic", 0);
    let ids = h.add_many(64, Spec::file());
    for &id in &ids {
        h.eng.folio_get(id, 1);
    }
    for run in 1..=MAX_RECLAIM_RETRIES {
        assert!(!h.eng.kswapd_may_sleep(NODE, 0, 0));
        let (task, rounds) = kswapd(&mut h, 0);
        assert_eq!(priorities(&rounds), (1..=12).rev().collect::<Vec<_>>());
        assert_eq!(task.outcome().reclaimed, 0);
        assert_eq!(h.eng.nodes[0].kswapd_failures(), run);
    }
    assert!(h.eng.kswapd_may_sleep(NODE, 0, 0));
    for &id in &ids {
        h.eng.folio_put(id, 1);
    }
    assert!(h.reclaim(ScanControl::new(32, None)).reclaimed > 0);
    assert_eq!(h.eng.nodes[0].kswapd_failures(), 0);
}

/// As 6.18 and 7.2 do (`scripts/hopeless-on-kernels`): what tasks free on a node that is short of memory brings kswapd back on
/// the first only, what they free on a balanced one on both.
#[test]
fn since_7_2_only_a_balanced_node_gives_kswapd_hope() {
    for (preset, stays_down) in [("v618", false), ("v72", true), ("v73", true)] {
        let mut h = host(preset, 0);
        h.add_many(64, Spec::file());
        for _ in 0..MAX_RECLAIM_RETRIES {
            h.eng.nodes[0].kswapd_failed();
        }
        assert!(h.reclaim(ScanControl::new(32, None)).reclaimed > 0);
        assert_eq!(h.eng.nodes[0].hopeless(), stays_down, "{preset}");
        h.eng.zones.all_mut()[0].free = 2000;
        assert!(h.reclaim(ScanControl::new(8, None)).reclaimed > 0);
        assert!(!h.eng.nodes[0].hopeless(), "{preset}");
        // What kswapd frees itself always counts.
        h.eng.zones.all_mut()[0].free = 1285;
        h.add_many(10_000, Spec::file());
        h.eng.nodes[0].kswapd_failed();
        assert!(kswapd(&mut h, 0).0.outcome().reclaimed > 0);
        assert_eq!(h.eng.nodes[0].kswapd_failures(), 0, "{preset}");
    }
}

#[test]
fn boost_runs_neither_swap_nor_write_and_end_with_the_boost() {
    let mut h = host("classic", 10_000);
    h.eng.set_swap(1 << 18, 1 << 18);
    h.eng.zones.all_mut()[0].boost = 100;
    h.add_many(100_000, Spec::anon());
    h.add_many(100_000, Spec::file());
    let (task, rounds) = kswapd(&mut h, 0);
    assert_eq!(priorities(&rounds), [12, 11, 10]);
    assert_eq!(task.outcome().reclaimed, 24 + 48 + 97);
    assert_eq!(h.vm(Counter::PgscanAnon), 0);
    assert_eq!(h.eng.zones.all()[0].boost, 0);
}

#[test]
fn boost_runs_stay_at_priority_10_while_pages_come() {
    let mut h = host("classic", 10_000);
    h.eng.zones.all_mut()[0].boost = 500;
    h.add_many(100_000, Spec::file());
    let (_, rounds) = kswapd(&mut h, 0);
    assert_eq!(priorities(&rounds), [12, 11, 10, 10, 10, 10, 10]);
    assert_eq!(h.eng.zones.all()[0].boost, 0);
}

#[test]
fn a_boost_run_without_progress_leaves_at_once() {
    let mut h = host("classic", 10_000);
    h.eng.zones.all_mut()[0].boost = 500;
    let (_, rounds) = kswapd(&mut h, 0);
    assert_eq!(priorities(&rounds), [12]);
    assert_eq!(h.eng.zones.all()[0].boost, 0, "taken off all the same");
}

#[test]
fn classic_kswapd_ages_anonymous_memory_when_it_is_low() {
    for swap in [1 << 18, 0] {
        let mut h = host("classic", 0);
        h.eng.set_swap(swap, swap);
        let ids = h.add_many(1000, Spec::anon().with(Flags::ACTIVE));
        h.eng.memcgs.fold();
        let mut task = ReclaimTask::kswapd(&mut h.eng, NODE, 0, 0, 0);
        loop {
            match task.step(&mut h.eng) {
                Work::Balance { .. } => break,
                Work::Test { .. } => {
                    task.answer(crate::reclaim::Answer::References(Default::default()));
                }
                _ => {}
            }
        }
        let moved = h.size(LruList::InactiveAnon);
        if swap == 0 {
            assert_eq!(moved, 0, "nowhere to go");
        } else {
            // Once by the aging, once by the rebalancing at the end of the lruvec.
            assert_eq!(moved, 64);
            assert!(h.has(ids[31], Flags::WORKINGSET));
            assert_eq!(h.vm(Counter::Pgrefill), 64);
        }
        task.abandon(&mut h.eng);
    }
}

#[test]
fn multi_gen_kswapd_balances_too() {
    for preset in ["v612", "base", "v5", "merged"] {
        let mut h = host(preset, 1285);
        h.add_many(20_000, Spec::file());
        let (task, _) = kswapd(&mut h, 0);
        assert!(h.eng.zones.all()[0].free > 1548, "{preset}");
        assert_eq!(task.outcome().reclaimed, h.seen.freed_pages(), "{preset}");
        assert_eq!(h.eng.nodes[0].kswapd_failures(), 0, "{preset}");
    }
}
