//! Budgets of the reclaim loop before and after the series.

use crate::config::Config;
use crate::memcg::{after_visit, LruOp, LruSeg};
use crate::reclaim::{ReclaimKind, ScanControl};
use crate::testing::{Host, Spec, WriteAs};
use crate::{Counter, LruType::File, MemcgId};

/// Generations 7 to 10 with 1,000,000 pages, 2112 of them in single-page folios of the oldest.
fn million(preset: &str) -> Host {
    let mut h = Host::new(preset);
    h.set_seqs(10, [7, 7]);
    h.fill(7, 2112, Spec::file());
    h.fill(10, 1949, Spec::file().order(9));
    h
}

/// Generations 7 to 10 with `n` pages, all in the oldest.
fn pages(preset: &str, n: usize) -> Host {
    let mut h = Host::new(preset);
    h.set_seqs(10, [7, 7]);
    h.fill(7, n, Spec::file());
    h
}

#[test]
fn e6_budget() {
    for (preset, freed) in [("base", 256), ("v5", 244), ("merged", 64)] {
        let mut h = million(preset);
        let mut sc = h.request(32);
        assert!(!h.visit(&mut sc));
        assert_eq!(sc.nr_reclaimed, freed, "{preset}");
        let calls = if preset == "merged" { 1 } else { 4 };
        assert_eq!(h.seen.lists(), calls, "{preset}");
        h.eng.check();
    }
    for preset in ["base", "v5"] {
        let mut h = million(preset);
        let mut sc = ScanControl::new(32, None);
        h.visit(&mut sc);
        assert_eq!(
            (sc.nr_reclaimed, h.seen.lists()),
            (64, 1),
            "{preset}: root stops at its target"
        );
    }
}

#[test]
fn e7_floor() {
    let freed = |preset: &str, n, priority| {
        let mut h = pages(preset, n);
        let mut sc = h.request(1000);
        sc.priority = priority;
        let rotate = h.visit(&mut sc);
        (sc.nr_reclaimed, rotate)
    };
    assert_eq!(freed("v5", 3000, 12), (0, true));
    assert_eq!(
        after_visit(true, true, false, LruSeg::Default),
        Some(LruOp::Young)
    );
    for preset in ["base", "merged"] {
        assert_eq!(freed(preset, 3000, 12), (0, false));
    }
    assert_eq!(
        after_visit(false, true, false, LruSeg::Default),
        Some(LruOp::Tail)
    );
    assert_eq!(
        after_visit(false, true, false, LruSeg::Tail),
        Some(LruOp::Young)
    );
    assert_eq!(freed("v5", 3000, 11), (1, false));
    assert_eq!(freed("merged", 3000, 11), (1, false));
    assert_eq!(freed("v5", 1500, 11), (32, false));
    assert_eq!(freed("merged", 1500, 11), (0, false));
    assert_eq!(freed("v5", 20, 11), (20, false));
    assert_eq!(
        freed("v2", 1500, 12),
        (32, false),
        "v2 has a floor at any priority"
    );
}

#[test]
fn e8_protection() {
    for preset in ["base", "v5"] {
        for (low_reclaim, freed, lists) in [(false, 64, 1), (true, 128, 2)] {
            let mut h = pages(preset, 8192);
            h.eng.memcgs.set_low(h.memcg, 4096).unwrap();
            h.eng.memcgs.calculate_protection(MemcgId::ROOT, h.memcg);
            assert_eq!(h.eng.memcgs[h.memcg].memory().elow(), 4096);
            let mut sc = ScanControl::new(1000, None);
            sc.priority = 6;
            sc.low_reclaim = low_reclaim;
            h.visit(&mut sc);
            assert_eq!(
                (sc.nr_reclaimed, h.seen.lists()),
                (freed, lists),
                "{preset}"
            );
            assert_eq!(sc.low_skipped, !low_reclaim);
        }
    }
    let mut h = pages("v612", 8192);
    h.eng.memcgs.set_low(h.memcg, 4096).unwrap();
    h.eng.memcgs.calculate_protection(MemcgId::ROOT, h.memcg);
    let mut sc = ScanControl::new(1000, None);
    sc.priority = 6;
    h.visit(&mut sc);
    assert_eq!(sc.nr_reclaimed, 128, "6.12 does not scale by protection");
}

#[test]
fn e13_dirty_batch_v5() {
    let mut h = Host::new("v5");
    h.set_seqs(10, [7, 7]);
    let dirty = h.fill(7, 64, Spec::file().dirty());
    h.fill(8, 3000, Spec::file());
    let mut sc = h.request(1000);
    sc.priority = 4;
    h.visit(&mut sc);
    // 3064 >> 4 = 191: the dirty batch uses up 64, clean ones follow.
    assert_eq!(h.count(Counter::PgscanDirect), 191);
    assert_eq!(h.count(Counter::PgstealDirect), 127);
    assert_eq!(h.vm(Counter::VmscanImmediate), 64);
    assert_eq!(h.vm(Counter::Pgactivate), 64);
    assert_eq!((h.seen.wakes, h.seen.writes.len()), (1, 0));
    assert!(dirty.iter().all(|&id| h.seq_of(id) == Some(9)));
    assert_eq!(sc.nr.dirty, 64, "and the sums reach the scan control");
    assert_eq!(h.seen.throttles, [], "cgroup v2 does not sleep here");
    h.eng.check();
}

#[test]
fn e13_dirty_batch_base() {
    let mut h = Host::new("base");
    h.set_seqs(10, [7, 7]);
    let dirty = h.fill(7, 5000, Spec::file().dirty());
    let mut sc = h.request(1000);
    sc.priority = 1;
    h.visit(&mut sc);
    assert_eq!(h.count(Counter::Pgrefill), 2500, "the budget: half of all");
    assert_eq!(h.count(Counter::PgscanDirect), 0);
    assert_eq!(h.seen.wakes, 1, "once, after the loop");
    assert_eq!(h.gen_pages(8, File), 2500);
    assert_eq!(h.list(8, File), dirty[..2500], "to the head: order kept");
}

/// The variants that wake the flushers at the end of the loop.
const WITHOUT_PATCH_10: [&str; 7] = ["base", "step4", "step5", "step6", "step7", "step8", "step9"];

#[test]
fn without_patch_10_flushers_are_woken_once_a_visit() {
    for preset in WITHOUT_PATCH_10 {
        for (clean, wakes) in [(0, 1), (1, 0)] {
            let mut h = Host::new(preset);
            h.set_seqs(10, [7, 7]);
            h.fill(7, clean, Spec::file());
            h.fill(7, 1000, Spec::file().dirty());
            let mut sc = h.request(1000);
            sc.priority = 1;
            h.visit(&mut sc);
            let seen = (sc.nr.file_taken, sc.nr.unqueued_dirty);
            assert!(seen.1 >= 400, "{preset}: several batches, {seen:?}");
            assert_eq!(h.seen.wakes, wakes, "{preset}, {clean} clean: {seen:?}");
            h.eng.check();
        }
    }
}

#[test]
fn step_10_wakes_flushers_after_each_batch_and_not_at_the_end() {
    let mut h = Host::new("step10");
    h.set_seqs(10, [7, 7]);
    h.fill(7, 1000, Spec::file().dirty());
    let mut sc = h.request(1000);
    sc.priority = 1;
    h.visit(&mut sc);
    assert_eq!(h.seen.wakes, 8, "500 pages in batches of 64");
}

#[test]
fn flushers_are_woken_although_the_next_round_has_no_budget() {
    for preset in WITHOUT_PATCH_10 {
        let mut h = pages(preset, 64);
        let mut sc = h.request(1000);
        sc.nr.unqueued_dirty = 5;
        sc.nr.file_taken = 5;
        // An empty budget from the start: what earlier memcgs met still counts.
        h.visit(&mut sc);
        let seen = (h.seen.wakes, h.count(Counter::Pgrefill));
        assert_eq!(seen, (1, 0), "{preset}");
    }
}

#[test]
fn without_patch_10_v1_limit_reclaim_sleeps_at_the_end_of_the_loop() {
    let cfg = Config {
        cgroup_v2: false,
        ..Config::default()
    };
    for preset in WITHOUT_PATCH_10 {
        let mut h = Host::with(crate::presets::preset(preset).unwrap(), cfg.clone());
        h.set_seqs(10, [7, 7]);
        h.fill(7, 1000, Spec::file().dirty());
        let mut sc = h.request(1000);
        sc.priority = 1;
        h.visit(&mut sc);
        let reasons: Vec<_> = h.seen.throttles.iter().map(|t| t.0).collect();
        let writeback = crate::node::ThrottleReason::Writeback;
        assert_eq!((h.seen.wakes, reasons), (1, vec![writeback]), "{preset}");
    }
}

#[test]
fn v1_limit_reclaim_sleeps_when_it_meets_only_dirty_folios() {
    let cfg = Config {
        cgroup_v2: false,
        ..Config::default()
    };
    let mut h = Host::with(crate::presets::preset("v5").unwrap(), cfg);
    h.set_seqs(10, [7, 7]);
    h.fill(7, 64, Spec::file().dirty());
    h.fill(8, 64, Spec::file());
    let mut sc = h.request(1000);
    sc.priority = 0;
    h.visit(&mut sc);
    let reasons: Vec<_> = h.seen.throttles.iter().map(|t| t.0).collect();
    assert!(
        reasons.contains(&crate::node::ThrottleReason::Writeback),
        "{reasons:?}"
    );
    assert_eq!(
        h.eng.memcgs.local(h.memcg).get(Counter::ThrottleWriteback) as usize,
        reasons.len(),
        "counted like every other sleep"
    );
}

#[test]
fn anonymous_memory_only_means_no_files_in_the_merged_form() {
    for (preset, swap, may_swap, freed) in [
        ("base", 0, true, 'f'),
        ("v5", 0, true, 'f'),
        ("merged", 0, true, '-'),
        ("merged", 63, true, '-'),
        ("merged", 1000, false, '-'),
        ("merged", 1000, true, 'a'),
        ("v5", 1000, true, 'a'),
    ] {
        let mut h = Host::new(preset);
        h.set_seqs(10, [7, 7]);
        h.eng.set_swap(swap, 1000);
        for id in h.fill(7, 100, Spec::anon()) {
            h.script(id).write = WriteAs::Finished;
        }
        h.fill(7, 100, Spec::file());
        let mut sc = h.request(32);
        sc.kind = ReclaimKind::Proactive;
        (sc.priority, sc.may_swap, sc.swappiness) = (1, may_swap, Some(201));
        h.visit(&mut sc);
        let of = |swapped: bool| {
            let freed = &h.seen.freed;
            freed.iter().filter(|f| f.swap.is_some() == swapped).count() as u64
        };
        let case = format!("{preset}, {swap} free slots, {may_swap}");
        assert_eq!(of(true) > 0, freed == 'a', "{case}");
        assert_eq!(of(false) > 0, freed == 'f', "{case}");
        assert_eq!(of(true) + of(false), sc.nr_reclaimed, "{case}");
        assert_eq!(sc.nr_scanned == 0, freed == '-', "{case}");
        h.eng.check();
    }
}
