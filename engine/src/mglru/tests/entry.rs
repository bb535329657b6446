//! Where folios enter and how they are promoted.

use crate::folio::Flags;
use crate::testing::{Host, Spec};
use crate::LruType;

/// Sequence number at which a folio with these flags enters lists `max 7, min 5 (anon), 4 (file)`.
fn entry(preset: &str, spec: Spec, reclaiming: bool) -> u64 {
    let mut h = Host::new(preset);
    h.set_seqs(7, [5, 4]);
    let old = h.add_to(4, Spec::file());
    let id = h.alloc(spec);
    h.eng.folio_set(id, Flags::LRU);
    h.eng.lruvec_add(id, reclaiming);
    h.eng.check();
    assert!(!h.has(id, Flags::ACTIVE));
    assert_eq!(
        h.has(id, Flags::WORKINGSET),
        spec.flags.contains(Flags::WORKINGSET)
    );
    let seq = h.seq_of(id).unwrap();
    if seq == 4 {
        let want = if reclaiming { [id, old] } else { [old, id] };
        assert_eq!(h.list(4, LruType::File), want, "tail first");
    }
    seq
}

#[test]
fn e1_insertion() {
    let file = Spec::file();
    let ws = Flags::WORKINGSET;
    assert_eq!(entry("base", file, false), 4);
    assert_eq!(entry("base", file.with(ws), false), 5);
    assert_eq!(entry("base", file.with(Flags::ACTIVE), false), 6);
    assert_eq!(entry("base", file.with(Flags::ACTIVE | ws), false), 7);
    assert_eq!(entry("base", Spec::anon(), false), 6);
    assert_eq!(entry("base", Spec::anon().with(Flags::SWAPCACHE), false), 5);
    assert_eq!(entry("base", file.dirty().with(Flags::RECLAIM), false), 6);
    assert_eq!(entry("base", file, true), 4);
    assert_eq!(entry("v612", file.with(Flags::ACTIVE), false), 7);
    assert_eq!(entry("v612", file, false), 5);
}

#[test]
fn a_referenced_folio_enters_above_the_oldest_since_7_2() {
    let read = Spec::file().with(Flags::REFERENCED);
    assert_eq!(
        (entry("v618", read, false), entry("v72", read, false)),
        (4, 5)
    );
    assert_eq!(entry("v72", Spec::file(), false), 4);
    assert_eq!(entry("v72", read.with(Flags::ACTIVE), false), 6);
}

#[test]
fn a_fault_marks_what_it_does_not_activate_since_7_2() {
    for (preset, seq, referenced) in [("v618", 2, false), ("v72", 1, true)] {
        let mut h = Host::new(preset);
        let id = h.fault(Spec::mapped(1));
        assert_eq!(h.seq_of(id), Some(seq), "{preset}");
        assert_eq!(h.has(id, Flags::REFERENCED), referenced, "{preset}");
        let again = h.fault(Spec::mapped(1).with(Flags::WORKINGSET));
        assert_eq!(
            h.seq_of(again),
            Some(3),
            "{preset}: the working set is young"
        );
    }
}

#[test]
fn faulted_folios_are_young_and_read_ones_are_not() {
    for (preset, faulted, read) in [("base", 2, 0), ("v5", 2, 0), ("v612", 3, 1), ("v72", 1, 0)] {
        let mut h = Host::new(preset);
        let a = h.fault(Spec::mapped(1));
        let b = h.add(Spec::file());
        assert_eq!(h.seq_of(a), Some(faulted), "{preset}");
        assert_eq!(h.seq_of(b), Some(read), "{preset}");
    }
}

#[test]
fn trap_11_the_first_accessed_bit_promotes_in_612_only() {
    for (preset, first, second) in [("base", 0, 3), ("v612", 3, 3)] {
        let mut h = Host::new(preset);
        let id = h.add_to(0, Spec::mapped(1));
        h.eng.gen_promote(id, 3);
        assert_eq!(h.seq_of(id), Some(first), "{preset}");
        assert_eq!(h.has(id, Flags::REFERENCED), preset == "base");
        h.eng.gen_promote(id, 3);
        assert_eq!(h.seq_of(id), Some(second), "{preset}");
        assert_eq!(h.has(id, Flags::WORKINGSET), preset == "base");
        assert!(!h.has(id, Flags::REFERENCED));
        h.eng.check();
    }
}

#[test]
fn explicit_activation_goes_to_the_second_youngest() {
    let mut h = Host::new("base");
    let ids = [
        h.add(Spec::file()),
        h.add(Spec::file().with(Flags::WORKINGSET)),
    ];
    for id in ids {
        h.eng.activate(0, id);
    }
    h.eng.lru_add_drain(0);
    assert_eq!(h.seq_of(ids[0]), Some(2));
    assert_eq!(h.seq_of(ids[1]), Some(3));
    assert_eq!(h.count(crate::Counter::Pgactivate), 2);
}
