//! S1 to S4, S6, S7, S11 and S12.

use super::{direct, kswapd};
use crate::config::Config;
use crate::folio::Flags;
use crate::switches::presets::preset;
use crate::testing::{Host, Spec, WriteAs};
use crate::Counter;

fn host(name: &str, change: impl FnOnce(&mut Config)) -> Host {
    let mut cfg = Config::default();
    change(&mut cfg);
    Host::with(preset(name).unwrap(), cfg)
}

#[test]
fn s1_clean_file_folio() {
    for p in ["classic", "v612", "base", "v5"] {
        let mut h = Host::new(p);
        let (id, read) = (h.add(Spec::file()), h.add(Spec::file()));
        let mut sc = direct();
        let s = h.shrink(&mut sc, &[id]);
        assert_eq!((sc.nr_scanned, s.stat.reclaimed), (1, 1), "{p}");
        assert!(h.gone(id) && h.seen.freed[0].shadow.is_some());
        h.eng.folio_get(read, 1);
        let s = h.shrink(&mut sc, &[read]);
        assert_eq!(
            (s.stat.reclaimed, s.kept, s.active),
            (0, vec![read], vec![]),
            "{p}"
        );
        h.eng.check();
    }
}

#[test]
fn s2_references_classic() {
    for (spec, accessed, exec, active) in [
        (Spec::mapped(1), 1, false, false),
        (Spec::mapped(1), 1, true, true),
        (Spec::mapped(1).with(Flags::REFERENCED), 1, false, true),
        (Spec::mapped(2), 2, false, true),
    ] {
        let mut h = Host::new("classic");
        let id = h.add(spec);
        h.script(id).accessed = accessed;
        h.script(id).exec = exec;
        let s = h.shrink(&mut direct(), &[id]);
        assert_eq!(s.active.len(), usize::from(active));
        assert_eq!(s.stat.ref_keep, u64::from(!active));
        assert!(h.has(id, Flags::REFERENCED), "a kept folio keeps the mark");
        assert_eq!(h.vm(Counter::Pgactivate), i64::from(active));
    }
}

#[test]
fn s2_references_multi_gen() {
    let mut h = Host::new("base");
    let id = h.add(Spec::mapped(1));
    h.script(id).accessed = 1;
    let s = h.shrink(&mut direct(), &[id]);
    assert!(s.active.is_empty() && h.has(id, Flags::REFERENCED));
    h.script(id).accessed = 1;
    let s = h.shrink(&mut direct(), &[id]);
    assert_eq!(s.active, [id]);
    assert!(h.has(id, Flags::WORKINGSET) && !h.has(id, Flags::REFERENCED));
    assert_eq!(h.folio(id).word().refs(), 0);
}

#[test]
fn s2_executable_memory_in_the_merged_form() {
    for (p, active) in [("v5", 0), ("merged", 1), ("v72", 0), ("v73", 1)] {
        let mut h = Host::new(p);
        let id = h.add(Spec::mapped(1));
        h.script(id).accessed = 1;
        h.script(id).exec = true;
        assert_eq!(h.shrink(&mut direct(), &[id]).active.len(), active, "{p}");
    }
}

#[test]
fn s3_dirty_file_folio() {
    for (p, sc) in [
        ("base", direct()),
        ("base", kswapd()),
        ("v612", direct()),
        ("v612", kswapd()),
        ("classic", kswapd()),
    ] {
        let mut h = Host::new(p);
        h.eng.nodes[0].flag_dirty = true;
        let id = h.add(Spec::file().dirty());
        let s = h.shrink(&mut { sc }, &[id]);
        assert_eq!((s.stat.dirty, s.stat.unqueued_dirty), (1, 1), "{p}");
        assert_eq!(s.active, [id]);
        assert!(h.has(id, Flags::RECLAIM | Flags::DIRTY));
        assert_eq!(h.vm(Counter::VmscanImmediate), 1);
        assert_eq!(
            (h.vm(Counter::Pgactivate), h.count(Counter::Pgactivate)),
            (1, 1)
        );
        assert!(h.seen.writes.is_empty());
    }
    for (p, flag, written) in [("v612", true, 1), ("v612", false, 0), ("base", true, 0)] {
        let mut h = Host::new(p);
        h.eng.nodes[0].flag_dirty = flag;
        let id = h.add(Spec::file().dirty().with(Flags::RECLAIM));
        let s = h.shrink(&mut kswapd(), &[id]);
        assert_eq!(h.seen.writes.len(), written, "{p}");
        assert_eq!(s.stat.pageout, written as u64);
        h.finish_writes();
        h.eng.check();
    }
}

#[test]
fn s4_file_folio_under_writeback() {
    let run = |v2: bool, flag: bool, sc: fn(&Host) -> crate::reclaim::ScanControl| {
        let mut h = host("base", |c| c.cgroup_v2 = v2);
        h.eng.nodes[0].flag_writeback = flag;
        let id = h.add(Spec::file().dirty());
        h.start_write(id);
        h.eng.folio_set(id, Flags::RECLAIM);
        let mut sc = sc(&h);
        let s = h.shrink(&mut sc, &[id]);
        assert_eq!(
            (s.stat.dirty, s.stat.congested, s.stat.unqueued_dirty),
            (1, 1, 0)
        );
        (s, sc, h)
    };
    let (s, ..) = run(true, true, |_| kswapd());
    assert_eq!(
        (s.stat.immediate, s.stat.writeback, s.active.len()),
        (1, 0, 1)
    );
    for (v2, sc) in [
        (true, (|_| direct()) as fn(&Host) -> _),
        (true, |h| h.request(32)),
        (false, |_| direct()),
        (false, |h| {
            let mut sc = h.request(32);
            sc.fs = false;
            sc
        }),
    ] {
        let (s, sc, h) = run(v2, true, sc);
        assert_eq!(
            (s.stat.immediate, s.stat.writeback, s.active.len()),
            (0, 1, 1)
        );
        assert_eq!((sc.nr_scanned, h.seen.waits), (1, 0));
    }
    let (s, sc, h) = run(false, true, |h| h.request(32));
    assert_eq!(
        (sc.nr_scanned, h.seen.waits),
        (2, 1),
        "v1: waits, then meets it again"
    );
    assert_eq!(s.stat.reclaimed, 1);
}

#[test]
fn s6_lazily_freed_memory() {
    for p in ["classic", "base"] {
        let mut h = Host::new(p);
        let id = h.add(Spec::lazyfree());
        let s = h.shrink(&mut direct(), &[id]);
        assert_eq!(s.stat.reclaimed, 1, "{p}");
        assert_eq!(
            (h.vm(Counter::Pglazyfreed), h.count(Counter::Pglazyfreed)),
            (1, 1)
        );
        assert!(h.seen.freed[0].shadow.is_none() && h.seen.writes.is_empty());
        let id = h.add(Spec::lazyfree());
        h.script(id).pte_dirty = true;
        let s = h.shrink(&mut direct(), &[id]);
        assert_eq!((s.stat.unmap_fail, s.stat.lazyfree_fail), (1, 1));
        assert_eq!((s.active, s.stat.activate), (vec![id], [1, 0]));
        assert!(h.has(id, Flags::SWAPBACKED));
        h.eng.check();
    }
}

#[test]
fn s7_anonymous_memory_to_block_swap_and_to_memory() {
    for p in ["classic", "v612", "base", "v5"] {
        let mut h = host(p, |c| c.swap_synchronous = false);
        let id = h.add(Spec::anon());
        h.script(id).pte_dirty = true;
        let s = h.shrink(&mut direct(), &[id]);
        assert_eq!((h.seen.flushes, h.seen.flushes_for_write), (1, 1), "{p}");
        assert_eq!((s.stat.pageout, s.stat.reclaimed, s.kept), (1, 0, vec![id]));
        assert_eq!(
            (s.stat.dirty, s.stat.unqueued_dirty),
            (0, 0),
            "anon is never counted"
        );
        assert_eq!(h.vm(Counter::VmscanWrite), 1);
        assert!(h.has(id, Flags::WRITEBACK | Flags::RECLAIM | Flags::SWAPCACHE));
        h.finish_writes();
        h.eng.lru_add_drain(0);
        assert_eq!(h.vm(Counter::Pgrotated), 1);
        let s = h.shrink(&mut direct(), &[id]);
        assert_eq!(
            (s.stat.reclaimed, h.seen.flushes),
            (1, 1),
            "freed without a flush"
        );
        assert!(h.seen.freed[0].swap.is_some() && h.seen.freed[0].shadow.is_some());
        let id = h.add(Spec::anon());
        h.script(id).write = WriteAs::Finished;
        let s = h.shrink(&mut direct(), &[id]);
        assert_eq!(
            (s.stat.reclaimed, s.stat.pageout),
            (1, 1),
            "in the same pass"
        );
        h.eng.check();
    }
}

#[test]
fn s11_units_are_pages() {
    let mut h = Host::new("base");
    let id = h.add(Spec::file().dirty().order(3));
    let mut sc = direct();
    let s = h.shrink(&mut sc, &[id]);
    assert_eq!(
        (s.stat.dirty, s.stat.unqueued_dirty, s.stat.activate),
        (8, 8, [0, 8])
    );
    assert_eq!((sc.nr_scanned, h.vm(Counter::VmscanImmediate)), (8, 8));
    assert_eq!(h.vm(Counter::Pgactivate), 8);
    h.eng.folio_set(id, Flags::LOCKED);
    let mut sc = direct();
    let s = h.shrink(&mut sc, &[id]);
    assert_eq!(
        (s.stat, sc.nr_scanned),
        (Default::default(), 0),
        "a busy lock moves none"
    );
    assert_eq!(s.kept, [id]);
}

#[test]
fn s12_flushers_are_woken_for_whole_batches_only() {
    for (dirty, wakes) in [(40, 0), (64, 1)] {
        let mut h = Host::new("v5");
        h.set_seqs(10, [7, 7]);
        h.fill(7, dirty, Spec::file().dirty());
        h.fill(7, 64 - dirty, Spec::file());
        h.fill(8, 960, Spec::file());
        let mut sc = h.request(1000);
        sc.priority = 4; // 1024 >> 4 = 64
        h.visit(&mut sc);
        assert_eq!((sc.nr.dirty, sc.nr.taken), (dirty as u64, 64));
        assert_eq!(h.seen.wakes, wakes);
        assert_eq!(h.count(Counter::FlusherWakeups), wakes as i64);
    }
    // The retry pass takes 0 and meets 0 unqueued dirty folios: 0 = 0 must not wake.
    let mut h = Host::new("v5");
    h.set_seqs(10, [7, 7]);
    let read = h.add_to(7, Spec::file());
    h.eng.folio_get(read, 1);
    h.fill(8, 15, Spec::file());
    let mut sc = h.request(1000);
    sc.priority = 4;
    h.visit(&mut sc);
    assert_eq!((sc.nr_scanned, sc.nr.taken, h.seen.wakes), (2, 1, 0));
}
