//! The faults of the backport (`docs/rules/faults.md`), each alone, and the backport part of E6. What the
//! dropped counters do to the classic lists is tested in `reclaim/tests/entry_node.rs`.

use crate::ids::MemcgId;
use crate::presets::preset;
use crate::reclaim::ScanControl;
use crate::testing::{Host, Spec};
use crate::{Config, Counter};

/// v5 with one switch more.
fn v5(set: &str) -> Host {
    let mut sw = preset("v5").unwrap();
    if !set.is_empty() {
        sw.assign(set).unwrap();
    }
    Host::with(sw, Config::default())
}

/// Generations 7 to 10 with `n` folios of 512 pages in each of them.
fn four(h: &mut Host, n: usize) {
    h.set_seqs(10, [7, 7]);
    for seq in 7..=10 {
        h.fill(seq, n, Spec::file().order(9));
    }
}

/// As [`four`], the oldest generation gone.
fn three(h: &mut Host, n: usize) {
    h.set_seqs(10, [8, 8]);
    for seq in 8..=10 {
        h.fill(seq, n, Spec::file().order(9));
    }
}

#[test]
fn e6_budget_of_the_backport() {
    let mut h = Host::new("android_backport");
    // 1,000,000 pages: 489 folios of 512 in each generation, less 32, plus 64 single pages more.
    four(&mut h, 488);
    h.fill(7, 1_000_000 - 4 * 488 * 512, Spec::file());
    let mut sc = h.request(32);
    h.visit(&mut sc);
    assert_eq!(sc.nr_reclaimed, 1_000_000, "the whole group");
    assert!(h.count(Counter::AgingRuns) >= 2, "once three are left");
    h.eng.check();

    let mut h = Host::new("android_backport");
    four(&mut h, 0);
    h.fill(7, 2000, Spec::file());
    h.fill(10, 1949, Spec::file().order(9));
    let mut sc = ScanControl::new(32, None);
    h.visit(&mut sc);
    assert_eq!(
        (sc.nr_reclaimed, h.seen.lists()),
        (64, 1),
        "root reclaim stops at its target all the same"
    );
}

#[test]
fn the_budget_is_put_back_to_the_whole_size_every_round() {
    // 4 x 200 x 512 >> 12 = 100 pages, less than one folio.
    for (set, drained) in [("", false), ("mut_budget_clobber=on", true)] {
        let mut h = v5(set);
        four(&mut h, 200);
        let mut sc = h.request(32);
        h.visit(&mut sc);
        let want = if drained { 4 * 200 * 512 } else { 512 };
        assert_eq!(sc.nr_reclaimed, want, "{set}");
    }
}

#[test]
fn a_clobbered_budget_is_not_written_where_eviction_is_impossible() {
    // 40000 >> 12 = 9: used up by the first round, which ages first.
    for (fault, freed) in [("off", 9), ("on", 40_000)] {
        let mut sw = preset("v5").unwrap();
        sw.set("mut_budget_clobber", "on").unwrap();
        sw.set("mut_no_decrement", fault).unwrap();
        let mut h = Host::with(sw, Config::default());
        h.set_seqs(10, [9, 9]);
        h.fill(9, 40_000, Spec::file());
        let mut sc = h.request(32);
        h.visit(&mut sc);
        assert_eq!(sc.nr_reclaimed, freed, "mut_no_decrement={fault}");
    }
}

#[test]
fn a_budget_that_is_not_reduced_never_ends_limit_reclaim() {
    // 999,616 >> 12 = 244.
    for (set, freed) in [("", 244), ("mut_no_decrement=on", 999_616)] {
        let mut h = v5(set);
        h.set_seqs(10, [7, 7]);
        h.fill(7, 2240, Spec::file());
        h.fill(9, 1948, Spec::file().order(9));
        let mut sc = h.request(32);
        h.visit(&mut sc);
        assert_eq!(sc.nr_reclaimed, freed, "{set}");
    }
}

#[test]
fn the_default_priority_ages() {
    for (set, agings) in [("", 0), ("mut_no_defprio_return=on", 1)] {
        let mut h = v5(set);
        three(&mut h, 400);
        let mut sc = ScanControl::new(10_000, None);
        let rotate = h.visit(&mut sc);
        assert_eq!(h.count(Counter::AgingRuns), agings, "{set}");
        // Root reclaim leaves after one batch of one folio, and the memcg goes to the young end.
        assert_eq!(rotate, agings == 1);
        assert_eq!(sc.nr_reclaimed, 512);
    }
    // One priority further on both age.
    let mut h = v5("");
    three(&mut h, 400);
    let mut sc = ScanControl::new(10_000, None);
    sc.priority = 11;
    assert!(h.visit(&mut sc));
}

#[test]
fn protection_no_longer_scales_the_budget() {
    for (set, freed) in [("", 64), ("mut_no_protection=on", 128)] {
        let mut h = v5(set);
        h.set_seqs(10, [7, 7]);
        h.fill(7, 8192, Spec::file());
        h.eng.memcgs.set_low(h.memcg, 4096).unwrap();
        h.eng.memcgs.calculate_protection(MemcgId::ROOT, h.memcg);
        let mut sc = ScanControl::new(1000, None);
        sc.priority = 6;
        h.visit(&mut sc);
        assert_eq!(sc.nr_reclaimed, freed, "{set}");
        assert_eq!(sc.low_skipped, set.is_empty());
    }
}

#[test]
fn dropped_counters_take_the_flushers_from_the_loop_before_the_series() {
    for (fault, wakes) in [("off", 1), ("on", 0)] {
        let mut sw = preset("base").unwrap();
        sw.set("mut_counters_dropped", fault).unwrap();
        let mut h = Host::with(sw, Config::default());
        h.set_seqs(10, [7, 7]);
        h.fill(7, 5000, Spec::file().dirty());
        let mut sc = h.request(1000);
        h.visit(&mut sc);
        assert_eq!(h.seen.wakes, wakes, "fault {fault}");
    }
}

#[test]
fn the_vendor_hook_ages_instead_of_evicting_and_the_memcg_stays() {
    for (set, freed, rotate) in [("", 512, true), ("mut_aging_hook=on", 0, false)] {
        let mut h = v5(set);
        three(&mut h, 400);
        let mut sc = ScanControl::new(10_000, None);
        sc.priority = 11;
        assert_eq!(h.visit(&mut sc), rotate, "{set}");
        assert_eq!(sc.nr_reclaimed, freed);
        assert_eq!(h.count(Counter::AgingRuns), 1, "{set}: both age");
    }
    // Another task has just aged: the hook leaves a budget of nothing, and that does rotate.
    let mut h = v5("mut_aging_hook=on");
    three(&mut h, 4);
    h.eng.lruvecs[h.lruvec].gens_mut().walk.seq = 10;
    let mut sc = ScanControl::new(10_000, None);
    sc.priority = 11;
    assert!(h.visit(&mut sc));
    assert_eq!((sc.nr_reclaimed, h.count(Counter::AgingRuns)), (0, 0));
}

#[test]
fn a_loop_over_folios_that_cannot_be_freed_ends_all_the_same() {
    for fault in ["mut_no_decrement=on", "mut_budget_clobber=on"] {
        let mut h = v5(fault);
        h.set_seqs(10, [7, 7]);
        h.fill(7, 9000, Spec::file().dirty());
        let mut sc = h.request(32);
        h.visit(&mut sc);
        assert_eq!(sc.nr_reclaimed, 0);
        assert!(h.count(Counter::PgscanDirect) > 16 * 9000, "{fault}");
    }
}
