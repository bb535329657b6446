//! The traps of `docs/rules/generations.md` that no worked example covers.

use crate::folio::Flags;
use crate::testing::{Host, Spec};
use crate::{Counter, LruType::File};

#[test]
fn trap_1_budget_in_pages_and_batch_in_folios() {
    let mut h = Host::new("v5");
    h.set_seqs(10, [7, 7]);
    h.fill(7, 100, Spec::file().order(4));
    let mut sc = h.request(10_000);
    sc.priority = 4;
    h.visit(&mut sc);
    // 1600 >> 4 = 100 pages: 4 folios of 16 fill the first batch, 4 more overshoot.
    assert_eq!(sc.nr_reclaimed, 128);
    assert_eq!(h.seen.free_batches, [4, 4]);
}

#[test]
fn trap_2_a_promoted_folio_moves_when_the_scan_meets_it() {
    let mut h = Host::new("base");
    h.set_seqs(10, [7, 7]);
    let id = h.add_to(7, Spec::mapped(1).with(Flags::REFERENCED));
    h.fill(7, 70, Spec::file());
    h.eng.gen_promote(id, 10 % 4);
    assert_eq!((h.seq_of(id), h.list(7, File)[0]), (Some(10), id));
    h.eng.check();
    let mut sc = h.request(32);
    sc.priority = 0;
    h.visit(&mut sc);
    assert_eq!(h.list(10, File), [id]);
    assert_eq!(h.count(Counter::Pgrefill), 1);
}

#[test]
fn trap_7_one_retry_per_eviction_counts_again() {
    for preset in ["base", "v5"] {
        let mut h = Host::new(preset);
        h.set_seqs(10, [7, 7]);
        let read = h.add_to(7, Spec::file());
        h.fill(8, 5, Spec::file());
        h.eng.folio_get(read, 1);
        let mut sc = h.request(1);
        sc.priority = 2; // 6 >> 2 = 1
        h.visit(&mut sc);
        assert_eq!(sc.nr_scanned, 2, "{preset}");
        assert_eq!(h.count(Counter::PgscanDirect), 1, "{preset}");
        assert_eq!(
            h.seq_of(read),
            Some(9),
            "{preset}: never back into the oldest generation"
        );
        h.eng.folio_put(read, 1);
        h.eng.check();
    }
}

#[test]
fn kept_folios_of_the_working_set_stay_in_it() {
    // 7.1: a survivor bound for the oldest generation loses refs and referenced, not workingset,
    // and therefore enters the youngest one.
    let mut h = Host::new("base");
    h.set_seqs(9, [7, 7]);
    let ws = h.add_to(7, Spec::file().with(Flags::WORKINGSET | Flags::REFERENCED));
    h.eng.folio_get(ws, 1);
    h.fill(8, 4095, Spec::file());
    let mut sc = h.request(1);
    h.visit(&mut sc);
    assert_eq!(sc.nr_scanned, 2);
    assert!(h.has(ws, Flags::WORKINGSET));
    assert!(!h.has(ws, Flags::REFERENCED));
    assert_eq!(h.seq_of(ws), Some(9));
}

#[test]
fn trap_12_tier_bits_of_dirty_folios() {
    for (preset, kept) in [("base", false), ("v5", true)] {
        let mut h = Host::new(preset);
        h.set_seqs(10, [7, 7]);
        let id = h.add_to(7, Spec::file().dirty());
        h.fill(8, 5, Spec::file());
        for _ in 0..3 {
            h.eng.mark_accessed(0, id);
        }
        let mut sc = h.request(1);
        sc.priority = 2;
        h.visit(&mut sc);
        assert_eq!(h.has(id, Flags::REFERENCED), kept, "{preset}");
        assert_eq!(
            h.folio(id).word().refs(),
            if kept { 2 } else { 0 },
            "{preset}"
        );
    }
}
