//! What the scan puts aside.

use crate::config::Config;
use crate::folio::Flags;
use crate::ids::FolioId;
use crate::lruvec::LruList;
use crate::reclaim::ScanControl;
use crate::switches::presets::preset;
use crate::testing::{Host, Spec};
use crate::{Counter, LruType::File};

struct Layout {
    h: Host,
    sc: ScanControl,
    members: [FolioId; 2],
    promoted: FolioId,
    tier2: FolioId,
    high: FolioId,
    dirty: FolioId,
    clean: FolioId,
    mlocked: FolioId,
    isolated: Vec<FolioId>,
    scanned: u64,
}

/// The folios of E9 in the oldest generation 2, tier limit 0, reclaim of zones 0 and 1.
fn sorted(name: &str) -> Layout {
    let cfg = Config {
        nr_zones: 3,
        ..Config::default()
    };
    let mut h = Host::with(preset(name).unwrap(), cfg);
    h.set_seqs(5, [2, 2]);
    let members = [h.add_to(3, Spec::file()), h.add_to(3, Spec::file().zone(2))];
    let promoted = h.add_to(2, Spec::file().with(Flags::REFERENCED));
    h.eng.gen_promote(promoted, 3);
    let tier2 = h.add_to(2, Spec::file());
    for _ in 0..3 + u8::from(name == "v612") {
        h.eng.mark_accessed(0, tier2);
    }
    let high = h.add_to(2, Spec::file().zone(2));
    let dirty = h.add_to(2, Spec::file().dirty());
    let clean = h.add_to(2, Spec::file());
    let mlocked = h.add_to(2, Spec::file().with(Flags::MLOCKED | Flags::WORKINGSET));
    let ctrl = &mut h.eng.lruvecs[h.lruvec].gens_mut().ctrl[1];
    ctrl.refaulted = [100, 100, 10, 0];
    ctrl.evicted = [1000, 400, 300, 100];
    let mut sc = h.request(32);
    sc.reclaim_idx = 1;
    let mut isolated = Vec::new();
    let got = h.eng.gen_isolate(h.lruvec, &mut sc, 0, 4096, &mut isolated);
    h.eng.check();
    Layout {
        h,
        sc,
        members,
        promoted,
        tier2,
        high,
        dirty,
        clean,
        mlocked,
        isolated,
        scanned: got.scanned,
    }
}

#[test]
fn e9_sort_folio_base() {
    let l = sorted("base");
    let [m0, m2] = l.members;
    assert_eq!(l.isolated, [l.clean]);
    assert_eq!(
        l.h.list(3, File),
        [m0, l.promoted, l.tier2, l.dirty, l.high, m2],
        "heads in zone 0, tail in zone 2"
    );
    assert_eq!(l.h.gens().ctrl[1].protected, [0, 0, 1, 0]);
    assert!(l.h.has(l.dirty, Flags::RECLAIM));
    // The sort step takes the dirty one; the clean one is taken by its isolation, so that the
    // flushers are not woken for a list that was not all dirty (`docs/reference/experiments.md#mongodb`).
    assert_eq!((l.sc.nr.file_taken, l.sc.nr.unqueued_dirty), (2, 1));
    assert!(l.h.has(l.mlocked, Flags::UNEVICTABLE | Flags::LRU));
    assert_eq!(l.h.size(LruList::Unevictable), 1);
    assert_eq!(l.h.count(Counter::Pgrefill), 5);
    assert_eq!(l.h.count(Counter::PgscanDirect), 1);
    assert_eq!(l.scanned, 6);
}

#[test]
fn e9_sort_folio_v5() {
    let l = sorted("v5");
    let [m0, m2] = l.members;
    assert_eq!(
        l.isolated,
        [l.dirty, l.clean],
        "dirty folios are isolated now"
    );
    assert_eq!(l.h.list(3, File), [m0, l.promoted, l.tier2, l.high, m2]);
    assert_eq!((l.sc.nr.file_taken, l.sc.nr.unqueued_dirty), (0, 0));
    assert!(l.h.has(l.mlocked, Flags::UNEVICTABLE));
    assert_eq!((l.scanned, l.h.count(Counter::PgscanDirect)), (6, 2));
}

#[test]
fn e9_sort_folio_late_612() {
    let l = sorted("v612");
    let [m0, m2] = l.members;
    assert_eq!(
        l.isolated,
        [l.dirty, l.clean, l.mlocked],
        "the generic path culls mlocked"
    );
    assert_eq!(
        l.h.list(3, File),
        [l.tier2, m0, l.promoted, l.high, m2],
        "protected folios go to the tail in 6.12"
    );
    assert!(
        !l.h.has(l.tier2, Flags::WORKINGSET),
        "and start again at tier 0"
    );
    assert_eq!(l.h.gens().ctrl[1].protected, [0, 0, 1, 0]);
}

#[test]
fn parked_folios_return_to_the_head() {
    let mut h = Host::new("base");
    let dirty = h.fill(0, 3, Spec::anon().with(Flags::SWAPCACHE).dirty());
    let mut sc = h.request(32);
    (sc.io, sc.fs) = (false, false);
    let mut out = Vec::new();
    let got = h.eng.gen_isolate(h.lruvec, &mut sc, 200, 4096, &mut out);
    assert!(
        out.is_empty() && got.scanned == 0,
        "progress is hidden before the series"
    );
    let list = h.list(0, crate::LruType::Anon);
    assert_eq!(
        list, dirty,
        "a whole list keeps its order: each goes in front of the one before"
    );
    assert_eq!(h.vm(Counter::Pgskip), 3);
    h.eng.check();
}

/// Linux 7.2.12 and 7.3.4, a list of 850 promoted folios in front of others: each visit puts aside twice its share of the
/// scan, 258 pages where the priorities 12 to 7 offer 129, and once its share where nothing can be swapped. Both scans
/// count: of 180 pages at one priority it scans 64, 64, 52 and 52 of one type (7.2.13, `mm_vmscan_lru_isolate`).
#[test]
fn a_type_that_was_all_put_aside_is_scanned_once_more() {
    for (preset, swappiness, aside) in [
        ("base", 60, 10),
        ("v5", 60, 10),
        ("v72", 60, 20),
        ("v72", 1, 20),
        ("v72", 0, 10),
    ] {
        let mut h = Host::new(preset);
        h.set_seqs(10, [9, 7]);
        for _ in 0..30 {
            let id = h.add_to(7, Spec::mapped(1).with(Flags::REFERENCED));
            h.eng.gen_promote(id, 10 % 4);
        }
        let mut sc = h.request(32);
        let mut out = Vec::new();
        let got = h
            .eng
            .gen_isolate(h.lruvec, &mut sc, swappiness, 10, &mut out);
        assert_eq!(
            (got.isolated, got.scanned),
            (0, aside as u64),
            "{preset}: both scans count"
        );
        assert_eq!(
            h.count(Counter::Pgrefill),
            aside,
            "{preset}, swappiness {swappiness}"
        );
        assert_eq!(h.list(7, File).len(), 30 - aside as usize);
        h.eng.check();
    }
}
