//! Exits of single steps.

use super::direct;
use crate::folio::Flags;
use crate::lruvec::LruList;
use crate::reclaim::ScanControl;
use crate::testing::{Host, Script, Spec, WriteAs};
use crate::Counter;

/// One folio through the path: (activated, pages freed, host).
fn one(preset: &str, spec: Spec, script: Script, sc: &mut ScanControl) -> (bool, u64, Host) {
    let mut h = Host::new(preset);
    let id = h.add(spec);
    *h.script(id) = script;
    let s = h.shrink(sc, &[id]);
    h.finish_writes();
    h.eng.lru_add_drain(0);
    h.eng.check();
    (!s.active.is_empty(), s.stat.reclaimed, h)
}

const PLAIN: Script = Script {
    accessed: 0,
    locked: false,
    unknown: false,
    exec: false,
    pte_dirty: false,
    uncached: false,
    keeps_mapping: false,
    refuses_split: false,
    present: None,
    write: WriteAs::InFlight,
};

#[test]
fn step_2_poisoned_folios_leave() {
    let poison = |spec: Spec| spec.with(Flags::POISONED | Flags::ACTIVE);
    for (p, spec, unmaps) in [
        ("classic", Spec::file(), 0),
        ("base", Spec::mapped(2), 1),
        ("base", Spec::file().dirty(), 0),
        ("base", Spec::anon(), 1),
        ("v612", Spec::anon(), 1),
    ] {
        let mut h = Host::new(p);
        let ids = [h.add(poison(spec)), h.add(Spec::file())];
        // The reference of the task that poisoned it.
        h.eng.folio_get(ids[0], 1);
        let mut sc = direct();
        let s = h.shrink_at(&mut sc, &ids, |h, _| h.eng.check());
        assert_eq!((sc.nr_scanned, s.stat.reclaimed), (1, 1), "{p}: the other");
        assert_eq!((s.kept, s.stat.activate), (vec![], [0, 0]));
        assert_eq!((h.seen.unmaps, h.seen.flushes), (unmaps, unmaps), "{p}");
        assert!(!h.any(ids[0], Flags::LRU | Flags::LOCKED) && !h.folio(ids[0]).mapped());
        h.eng.check();
        h.truncate(ids[0]);
        h.eng.folio_put(ids[0], 1);
        assert!(h.gone(ids[0]), "{p}");
        h.eng.check();
    }
    // Held by nobody: gone at once, after the flush, and its page never comes back.
    let mut h = Host::new("base");
    h.eng.zones.set(vec![crate::zone::Zone::new(
        crate::ids::NodeId(0),
        crate::zone::ZoneClass::Normal,
        100,
    )]);
    h.eng.zones.all_mut()[0].free = 10;
    let ids = [h.add(poison(Spec::anon())), h.add(Spec::file())];
    h.shrink_at(&mut direct(), &ids, |h, work| {
        assert!(!h.gone(ids[0]) || h.seen.flushes == 1, "{work:?}");
    });
    assert!(h.gone(ids[0]) && h.gone(ids[1]));
    assert_eq!(h.eng.zones.all()[0].free, 11);
    // Large: kept as it is, not counted.
    let id = h.add(poison(Spec::mapped(1).order(3)));
    let mut sc = direct();
    let s = h.shrink(&mut sc, &[id]);
    assert_eq!((sc.nr_scanned, s.kept, h.seen.unmaps), (0, vec![id], 1));
    h.eng.check();
}

#[test]
fn step_4_mlocked_folios_are_culled_not_activated() {
    let mut h = Host::new("base");
    let id = h.add(Spec::mapped(1));
    h.eng.folio_set(id, Flags::MLOCKED);
    let mut sc = direct();
    let s = h.shrink(&mut sc, &[id]);
    h.eng.lru_add_drain(0);
    assert_eq!(
        (s.active.len(), s.stat.activate, sc.nr_scanned),
        (0, [0, 0], 1)
    );
    assert!(h.has(id, Flags::UNEVICTABLE));
    assert_eq!(
        (
            h.size(LruList::Unevictable),
            h.vm(Counter::UnevictableCulled)
        ),
        (1, 1)
    );
}

#[test]
fn step_5_mapped_folios_without_permission_to_unmap() {
    let mut sc = direct();
    sc.may_unmap = false;
    assert!(
        matches!(one("base", Spec::mapped(1), PLAIN, &mut sc), (false, 0, h) if h.seen.tests.is_empty())
    );
    // 6.12: the walk has tried to promote it.
    let marked = Spec::mapped(1).with(Flags::REFERENCED);
    let (active, freed, h) = one("v612", marked, PLAIN, &mut direct());
    assert_eq!((active, freed, h.seen.tests.len()), (false, 0, 0));
    let (_, freed, _) = one("base", marked, PLAIN, &mut direct());
    assert_eq!(freed, 1);
}

#[test]
fn step_8_locked_and_unknown() {
    let locked = Script {
        locked: true,
        ..PLAIN
    };
    let (active, _, _) = one("base", Spec::mapped(1), locked, &mut direct());
    assert!(active);
    let unknown = Script {
        unknown: true,
        ..PLAIN
    };
    let (active, freed, _) = one("base", Spec::mapped(1), unknown, &mut direct());
    assert_eq!((active, freed), (false, 0));
}

#[test]
fn step_8_612_uses_the_classic_order() {
    let accessed = Script {
        accessed: 1,
        ..PLAIN
    };
    let (active, freed, h) = one("v612", Spec::mapped(1), accessed, &mut direct());
    assert_eq!(
        (active, freed, h.seen.tests.len()),
        (false, 0, 1),
        "never activated the first time"
    );
    let read = Spec::file().with(Flags::REFERENCED);
    let (_, freed, _) = one("v612", read, PLAIN, &mut direct());
    assert_eq!(freed, 1);
}

#[test]
fn step_10_anonymous_memory_without_io_or_pinned() {
    let mut sc = direct();
    (sc.io, sc.fs) = (false, false);
    let (active, _, h) = one("base", Spec::anon(), PLAIN, &mut sc);
    assert!(!active && h.eng.swap_free() == 1 << 18);
    let pinned = Spec::anon().with(Flags::PINNED);
    let (active, _, h) = one("base", pinned, PLAIN, &mut direct());
    assert!(!active && h.seen.unmaps == 0);
    let (active, _, _) = one(
        "base",
        Spec::mapped(1).with(Flags::PINNED),
        PLAIN,
        &mut direct(),
    );
    assert!(active, "step 13, after the unmap");
}

#[test]
fn step_12_mappings_that_stay() {
    let keeps = Script {
        keeps_mapping: true,
        ..PLAIN
    };
    let mut h = Host::new("base");
    let id = h.add(Spec::mapped(1));
    *h.script(id) = keeps;
    let s = h.shrink(&mut direct(), &[id]);
    assert_eq!(
        (s.stat.unmap_fail, s.stat.lazyfree_fail, s.active),
        (1, 0, vec![id])
    );
}

#[test]
fn step_14_pageout_refused() {
    let mut sc = direct();
    sc.may_writepage = false;
    let (active, freed, h) = one("base", Spec::anon(), PLAIN, &mut sc);
    assert_eq!((active, freed, h.seen.writes.len()), (false, 0, 0));
    // A file folio that its mapping made dirty behaves like any dirty one.
    let (active, _, h) = one(
        "base",
        Spec::mapped(1),
        Script {
            pte_dirty: true,
            ..PLAIN
        },
        &mut direct(),
    );
    assert!(active);
    assert_eq!(
        (h.vm(Counter::VmscanImmediate), h.count(Counter::FileDirty)),
        (1, 1)
    );
}

#[test]
fn step_14_outcomes_of_a_write() {
    let with = |write| Script { write, ..PLAIN };
    let (active, freed, h) = one("base", Spec::anon(), with(WriteAs::Activate), &mut direct());
    assert_eq!((active, freed, h.vm(Counter::VmscanWrite)), (true, 0, 0));
    let id = h.folios()[0];
    assert!(h.has(id, Flags::DIRTY | Flags::SWAPCACHE) && !h.has(id, Flags::RECLAIM));
    let (active, freed, h) = one("base", Spec::anon(), with(WriteAs::Failed), &mut direct());
    assert_eq!((active, freed, h.vm(Counter::VmscanWrite)), (false, 0, 1));
    let id = h.folios()[0];
    assert!(h.has(id, Flags::DIRTY) && !h.any(id, Flags::RECLAIM | Flags::LOCKED));
}

#[test]
fn section_3_activation_gives_slots_back_while_swap_is_half_full() {
    for (free, given) in [(40, true), (60, false)] {
        let mut h = Host::new("base");
        h.eng.set_swap(free, 100);
        let id = h.add(Spec::anon().with(Flags::SWAPCACHE));
        h.script(id).accessed = 1;
        h.eng.folio_set(id, Flags::WORKINGSET);
        let s = h.shrink(&mut direct(), &[id]);
        assert_eq!(s.active, [id]);
        assert_eq!(h.has(id, Flags::SWAPCACHE), !given);
        assert_eq!(
            h.has(id, Flags::DIRTY),
            given,
            "its contents are nowhere else now"
        );
        assert_eq!(h.seen.slots_freed.len(), usize::from(given));
        h.eng.check();
    }
    // Not once the unmap has left swap entries behind.
    let mut h = Host::new("base");
    h.eng.set_swap(40, 100);
    let id = h.add(Spec::anon());
    h.script(id).write = WriteAs::Activate;
    h.shrink(&mut direct(), &[id]);
    assert!(h.has(id, Flags::SWAPCACHE) && h.seen.slots_freed.is_empty());
    h.eng.check();
}

#[test]
fn step_15_truncated_while_isolated() {
    let mut h = Host::new("base");
    let id = h.add(Spec::file());
    h.eng.folio_clear(id, Flags::LRU);
    h.eng.folio_get(id, 1);
    h.eng.lruvec_del(id, true);
    h.truncate(id);
    let s = h.shrink(&mut direct(), &[id]);
    assert_eq!((s.stat.reclaimed, h.gone(id)), (1, true));
    assert!(h.seen.freed[0].shadow.is_none() && !h.seen.freed[0].owned);
}

#[test]
fn step_17_a_writer_dirties_first_and_drops_second() {
    let mut h = Host::new("base");
    let id = h.add(Spec::anon().with(Flags::SWAPCACHE));
    h.eng.folio_get(id, 1);
    h.eng.set_dirty(id);
    let s = h.shrink(&mut direct(), &[id]);
    assert_eq!(
        (s.stat.reclaimed, h.seen.writes.len()),
        (0, 0),
        "the extra reference stops pageout"
    );
    assert!(h.has(id, Flags::DIRTY));
}

/// What a host charges for looks: folios that went back, not those that were freed or that somebody else had locked.
#[test]
fn the_meter_counts_what_was_looked_at_and_kept() {
    for preset in ["classic", "base", "v72"] {
        let mut h = Host::new(preset);
        let dirty = [h.add(Spec::file().dirty()), h.add(Spec::file().dirty())];
        let (locked, clean) = (h.add(Spec::file()), h.add(Spec::file()));
        h.eng.folios[locked].set(Flags::LOCKED);
        h.eng.meter.take();
        let s = h.shrink(&mut direct(), &[dirty[0], dirty[1], locked, clean]);
        assert_eq!((s.kept.len(), s.stat.reclaimed), (3, 1), "{preset}");
        assert_eq!(h.eng.meter.take().kept, 2, "{preset}");
    }
}
