//! Passes and rounds of direct and limit reclaim (`docs/rules/reclaim-loop.md`): R4, R5 and R9, and K6 of the counters.

use crate::config::{Config, Scale};
use crate::counters::Counter;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::memcg::{ChargeFlags, ChargeStep, ChargeTask, CounterKind, TaskMemcg};
use crate::node::ThrottleReason;
use crate::presets::{preset, PRESETS};
use crate::reclaim::{Outcome, ReclaimTask, ScanControl};
use crate::testing::{Host, Spec};

/// A classic host that scans file pages only.
fn classic() -> Host {
    let mut h = Host::new("classic");
    h.eng.set_swap(0, 0);
    h
}

/// Mapped file folios that nothing can be found out about: always kept.
fn stuck(h: &mut Host, n: usize, spec: Spec) -> Vec<FolioId> {
    let ids = h.add_many(n, spec);
    for &id in &ids {
        h.script(id).unknown = true;
    }
    ids
}

fn fruitless(rounds: u32) -> Outcome {
    Outcome {
        reclaimed: 0,
        rounds,
        passes: rounds / 13,
    }
}

#[test]
fn r4_fruitless_global_direct_reclaim() {
    let mut h = classic();
    stuck(&mut h, 64, Spec::mapped(1).dirty());
    let out = h.reclaim(ScanControl::new(32, None));
    assert_eq!(out, fruitless(26));
    assert_eq!(h.vm(Counter::Allocstall), 2, "k6: one for each pass");
    let once = (ThrottleReason::NoProgress, 1);
    assert_eq!(h.seen.throttles, [once, once], "at priority 1 of each pass");
    assert_eq!(
        h.vm(Counter::PgscanDirect),
        2 * (64 + 32 + 16 + 8 + 4 + 2 + 1)
    );
}

/// A pass that is bound to a node sleeps because of that node, whichever the task's own is.
#[test]
fn a_bound_pass_is_throttled_by_its_own_node() {
    for home in [0, 1] {
        let cfg = Config {
            nr_nodes: 2,
            ..Config::default()
        };
        let mut h = Host::with(preset("classic").unwrap(), cfg);
        h.eng.set_swap(0, 0);
        stuck(&mut h, 64, Spec::mapped(1).dirty());
        let mut sc = ScanControl::new(32, None);
        sc.node = Some(NodeId(0));
        let mut task = ReclaimTask::try_to_free(sc, 0, NodeId(home));
        assert_eq!(h.run(&mut task).reclaimed, 0);
        let once = (ThrottleReason::NoProgress, 1);
        assert_eq!(h.seen.throttles, [once, once], "home {home}");
    }
}

/// Fruitless global reclaim of a memcg that memory.low protects whole.
fn low_protected(active: usize) -> (Host, Outcome) {
    let mut h = classic();
    stuck(&mut h, 64, Spec::mapped(1).dirty());
    stuck(&mut h, active, Spec::mapped(1).dirty().with(Flags::ACTIVE));
    h.eng.memcgs.set_low(h.memcg, 1000).unwrap();
    h.eng.memcgs.fold();
    let out = h.reclaim(ScanControl::new(32, None));
    (h, out)
}

#[test]
fn r4_with_memory_low_there_is_a_third_pass() {
    // A long active list: deactivation is allowed in every pass, nothing is spared.
    let (h, out) = low_protected(100);
    assert_eq!(out, fruitless(39));
    assert_eq!(h.vm(Counter::Allocstall), 3, "k6");
    assert_eq!(h.seen.throttles.len(), 3);
    assert_eq!(
        h.count(Counter::EventsLow),
        13,
        "each round of the third pass"
    );
}

#[test]
fn r4_protected_memcgs_without_active_pages_cost_a_fourth_pass() {
    // An empty list of a protected memcg counts as 32 pages (`docs/rules/memcg.md#effective-protection`): it looks spared.
    let (h, out) = low_protected(0);
    assert_eq!(out, fruitless(52));
    assert_eq!(h.count(Counter::EventsLow), 26);
}

#[test]
fn r4_without_pending_writes_nobody_waits_for_progress() {
    let mut h = classic();
    stuck(&mut h, 64, Spec::mapped(1));
    assert_eq!(h.reclaim(ScanControl::new(32, None)), fruitless(26));
    assert!(h.seen.throttles.is_empty());
}

#[test]
fn spared_active_lists_bring_a_pass_with_deactivation() {
    let mut h = classic();
    h.add_many(64, Spec::file().with(Flags::ACTIVE));
    let out = h.limit(32);
    assert_eq!(out.passes, 3, "partial, full, with deactivation");
    assert!(out.reclaimed >= 32, "{out:?}");
    assert!(h.count(Counter::Pgdeactivate) > 0);
}

#[test]
fn a_pass_with_deactivation_follows_the_low_pass_again() {
    let mut h = classic();
    h.eng.memcgs.set_low(h.memcg, 64).unwrap();
    h.add_many(64, Spec::file().with(Flags::ACTIVE));
    let out = h.reclaim(ScanControl::new(32, None));
    assert_eq!(out.passes, 4, "partial, full, low, deactivating");
    assert!(out.reclaimed >= 32);
}

#[test]
fn r5_scan_shares() {
    let shares: Vec<u64> = (0..=12)
        .rev()
        .map(|p| Scale::default().scan_share(1_000_000, p))
        .collect();
    let want = [
        244, 488, 976, 1953, 3906, 7812, 15_625, 31_250, 62_500, 125_000, 250_000, 500_000,
        1_000_000,
    ];
    assert_eq!(shares, want);
    assert_eq!(shares[..7].iter().sum::<u64>(), 31_004);
}

#[test]
fn the_end_of_a_call_takes_the_snapshot_of_activations() {
    let mut h = Host::new("classic");
    let lruvec = h.lruvec;
    h.eng
        .count(h.eng.memcg_of(lruvec), Counter::ActivateFile, 7);
    h.limit(32);
    let snapshot = |h: &Host| LruType::ALL.map(|t| h.eng.lruvec(lruvec).workingset.snapshot(t));
    assert_eq!(snapshot(&h), [0, 0], "not folded yet");
    h.eng.memcgs.fold();
    h.limit(32);
    assert_eq!(snapshot(&h), [0, 7]);
}

/// Charges one page to the host's memcg, with whole reclaim calls in between; OOM finds nobody.
/// Returns the outcomes of the calls and whether the charge got to the OOM killer.
fn charge_one(h: &mut Host) -> (Vec<Outcome>, bool) {
    let mut charge = ChargeTask::new(h.memcg, 1, ChargeFlags::USER);
    let (mut calls, mut oom) = (Vec::new(), false);
    loop {
        match charge.step(&mut h.eng.memcgs, 0, &mut TaskMemcg::default()) {
            ChargeStep::Reclaim { over, nr } => {
                assert_eq!((over, nr), (h.memcg, 32));
                let out = h.limit(nr);
                calls.push(out);
                charge.reclaim_done(out.reclaimed);
            }
            ChargeStep::Oom { .. } => {
                oom = true;
                charge.oom_done(false);
            }
            ChargeStep::Done(result) => {
                assert_eq!(result.is_err(), oom);
                return (calls, oom);
            }
        }
    }
}

#[test]
fn r9_oom_after_18_fruitless_calls() {
    for p in PRESETS {
        let mut h = Host::new(p.names[0]);
        let memcg = h.memcg;
        let ids = h.add_many(100, Spec::file());
        for id in ids {
            h.eng.folio_get(id, 1); // somebody uses it
        }
        h.eng
            .memcgs
            .set_max(memcg, CounterKind::Memory, 100)
            .unwrap();
        let (calls, oom) = charge_one(&mut h);
        assert!(oom, "{}", p.names[0]);
        assert_eq!(calls.len(), 18, "{}", p.names[0]);
        for c in &calls {
            assert!((26..=65).contains(&c.rounds), "{}: {c:?}", p.names[0]);
        }
        assert_eq!(h.count(Counter::EventsMax), 18);
        assert_eq!(h.count(Counter::EventsOom), 1);
        assert_eq!(h.count(Counter::ZeroProgress), 18);
        if p.names[0] == "classic" {
            assert_eq!(calls, [fruitless(26); 18], "468 rounds");
        }
    }
}

#[test]
fn one_page_of_progress_prevents_the_oom_killer() {
    let mut h = Host::new("classic");
    let memcg = h.memcg;
    let stuck = h.add_many(99, Spec::file());
    h.add(Spec::file());
    for id in stuck {
        h.eng.folio_get(id, 1);
    }
    h.eng
        .memcgs
        .set_max(memcg, CounterKind::Memory, 100)
        .unwrap();
    let (calls, oom) = charge_one(&mut h);
    assert!(!oom);
    assert_eq!(calls.last().unwrap().reclaimed, 1);
    assert_eq!(h.size(LruList::InactiveFile), 99);
    assert_eq!(h.eng.memcgs[memcg].memory().usage(), 100);
}

#[test]
fn allocstall_and_global_counts_are_not_for_limit_reclaim() {
    let mut h = Host::new("classic");
    h.add_many(64, Spec::file());
    h.limit(32);
    assert_eq!(h.vm(Counter::Allocstall), 0);
    assert_eq!(h.vm(Counter::PgscanDirect), 0);
    assert!(h.vm(Counter::PgscanFile) > 0);
    assert_eq!(
        h.eng.memcgs.local(MemcgId::ROOT).get(Counter::PgscanDirect),
        0
    );
    assert_eq!(
        h.eng.nodes[NodeId(0).idx()].sleeping(ThrottleReason::NoProgress),
        0
    );
}
