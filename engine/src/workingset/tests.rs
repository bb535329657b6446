//! Worked examples of `workingset.md` run through the engine.

use super::refault::RefaultSite;
use super::Shadow;
use crate::config::Config;
use crate::counters::Counter;
use crate::folio::Flags;
use crate::ids::{FolioId, LruvecId, MemcgId, NodeId};
use crate::memcg::{CounterKind, UNLIMITED};
use crate::presets::preset;
use crate::testing::{Host, Spec};

/// A classic host whose memcg has lists of these sizes: inactive and active anon, inactive and
/// active file.
fn with_lists(sizes: [usize; 4]) -> Host {
    let mut h = Host::new("classic");
    for (n, spec) in sizes.into_iter().zip([
        Spec::anon(),
        Spec::anon().with(Flags::ACTIVE),
        Spec::file(),
        Spec::file().with(Flags::ACTIVE),
    ]) {
        h.add_many(n, spec);
    }
    h.eng.memcgs.fold();
    h
}

fn clock(h: &Host, memcg: MemcgId) -> u64 {
    h.eng
        .lruvec(h.eng.lruvec_id(memcg, NodeId(0)))
        .workingset
        .clock()
}

fn set_clock(h: &mut Host, memcg: MemcgId, to: u64) {
    let id = h.eng.lruvec_id(memcg, NodeId(0));
    h.eng.lruvecs[id].workingset.set_clock(to);
}

/// A folio that is on no list, evicted at once and brought back as the same record.
fn evict(h: &mut Host, spec: Spec, target: MemcgId) -> (FolioId, Shadow) {
    let id = h.alloc(spec);
    let shadow = h.eng.workingset_eviction(id, Some(target));
    (id, shadow)
}

fn counts(h: &Host, events: [Counter; 3]) -> [i64; 3] {
    events.map(|c| h.count(c))
}

const FILE: [Counter; 3] = [
    Counter::RefaultFile,
    Counter::ActivateFile,
    Counter::RestoreFile,
];
const ANON: [Counter; 3] = [
    Counter::RefaultAnon,
    Counter::ActivateAnon,
    Counter::RestoreAnon,
];

/// W1 with that many ticks between eviction and refault. Returns the host and the folio.
fn w1(ticks: u64, spec: Spec) -> (Host, FolioId) {
    let mut h = with_lists([0, 0, 50, 100]);
    h.eng.set_swap(0, 0);
    let (lruvec, memcg) = (h.lruvec, h.memcg);
    set_clock(&mut h, memcg, 1000);
    let (id, shadow) = evict(&mut h, spec, memcg);
    assert_eq!(shadow.unpack().value, 1000);
    assert_eq!(clock(&h, memcg), 1001);
    h.eng.nonresident_age(lruvec, ticks);
    h.eng.refault(id, shadow, RefaultSite::Read);
    (h, id)
}

#[test]
fn w1_distance_of_a_file_page() {
    let (h, id) = w1(100, Spec::file());
    assert_eq!(counts(&h, FILE), [1, 0, 0], "101 > 100");
    assert!(!h.has(id, Flags::ACTIVE));
    assert_eq!(clock(&h, h.memcg), 1101);

    let (h, id) = w1(99, Spec::file());
    assert_eq!(counts(&h, FILE), [1, 1, 0]);
    assert!(h.has(id, Flags::ACTIVE) && !h.has(id, Flags::WORKINGSET));
    assert_eq!(clock(&h, h.memcg), 1101);
    assert_eq!(h.eng.lruvec(h.lruvec).cost, [0, 0]);

    let (h, id) = w1(99, Spec::file().with(Flags::WORKINGSET));
    assert_eq!(counts(&h, FILE), [1, 1, 1]);
    assert!(h.has(id, Flags::ACTIVE | Flags::WORKINGSET));
    assert_eq!(h.eng.lruvec(h.lruvec).cost, [0, 32]);
}

#[test]
fn w2_which_lists_compete() {
    for (spec, swap, last_recent) in [
        (Spec::file(), Some(UNLIMITED), 110),
        (Spec::file(), None, 10),
        (Spec::anon(), Some(UNLIMITED), 550),
        (Spec::anon(), Some(0), 510),
    ] {
        for distance in [100, last_recent, last_recent + 1] {
            let mut h = with_lists([60, 40, 500, 10]);
            let (lruvec, memcg) = (h.lruvec, h.memcg);
            match swap {
                None => h.eng.set_swap(0, 0),
                Some(max) => h.eng.memcgs.set_max(memcg, CounterKind::Swap, max).unwrap(),
            }
            let (id, shadow) = evict(&mut h, spec, memcg);
            h.eng.nonresident_age(lruvec, distance - 1);
            h.eng.refault(id, shadow, RefaultSite::Fault);
            let recent = distance <= last_recent;
            let events = if spec.flags.contains(Flags::ANON) {
                ANON
            } else {
                FILE
            };
            assert_eq!(
                counts(&h, events),
                [1, i64::from(recent), 0],
                "{spec:?} swap {swap:?} distance {distance}"
            );
        }
    }
}

#[test]
fn w3_hierarchy() {
    let mut h = Host::new("classic");
    let p = h.memcg;
    let c = h.eng.memcg_create(p).unwrap();
    h.memcg = c;
    h.lruvec = h.eng.lruvec_id(c, NodeId(0));
    for (memcg, at) in [(MemcgId::ROOT, 7000), (p, 300), (c, 90)] {
        set_clock(&mut h, memcg, at);
    }
    let (id, shadow) = evict(&mut h, Spec::file().order(2), p);
    let u = shadow.unpack();
    assert_eq!((u.memcg, u.value), (h.eng.memcgs[p].css_id(), 300));
    assert_eq!([MemcgId::ROOT, p, c].map(|m| clock(&h, m)), [7004, 304, 90]);

    set_clock(&mut h, p, 350);
    h.add_many(49, Spec::file().with(Flags::ACTIVE));
    h.eng.memcgs.fold();
    h.eng.refault(id, shadow, RefaultSite::Read);
    assert_eq!(counts(&h, FILE), [4, 0, 0], "50 > 49");
    assert_eq!(clock(&h, c), 90);

    h.add(Spec::file().with(Flags::ACTIVE));
    h.eng.memcgs.fold();
    h.eng.refault(id, shadow, RefaultSite::Read);
    assert_eq!(counts(&h, FILE), [8, 4, 0]);
    assert_eq!([MemcgId::ROOT, p, c].map(|m| clock(&h, m)), [7008, 354, 94]);
    h.eng.memcgs.fold();
    for memcg in [p, MemcgId::ROOT] {
        assert_eq!(h.eng.stat(memcg, NodeId(0), Counter::ActivateFile), 4);
        assert_eq!(h.eng.memcgs.local(memcg).get(Counter::ActivateFile), 0);
    }
}

#[test]
fn a_shadow_of_a_dead_memcg_is_not_recent_under_classic() {
    let mut h = with_lists([0, 0, 0, 100]);
    let owner = h.memcg;
    let other = h.eng.memcg_create(MemcgId::ROOT).unwrap();
    let (id, shadow) = evict(&mut h, Spec::file(), other);
    h.eng.memcg_offline(other).unwrap();
    h.eng.refault(id, shadow, RefaultSite::Read);
    assert_eq!(counts(&h, FILE), [1, 0, 0]);
    assert!(h.eng.memcgs.exists(owner));
}

#[test]
fn sizes_are_those_of_the_last_fold() {
    let mut h = with_lists([0, 0, 0, 0]);
    h.eng.set_swap(0, 0);
    let memcg = h.memcg;
    h.add_many(10, Spec::file().with(Flags::ACTIVE));
    let (id, shadow) = evict(&mut h, Spec::file(), memcg);
    h.eng.refault(id, shadow, RefaultSite::Read);
    assert_eq!(counts(&h, FILE), [1, 0, 0], "distance 1, no size known yet");
    h.eng.memcgs.fold();
    h.eng.refault(id, shadow, RefaultSite::Read);
    assert_eq!(counts(&h, FILE), [2, 1, 0]);
}

fn seqs(h: &Host) -> (LruvecId, u64) {
    (h.lruvec, h.gens().max_seq)
}

/// W6: a folio read four times, evicted with min_seq 5, brought back at `min`/`max` by a read.
fn w6(preset: &str, max_at_refault: u64, min_at_refault: u64) -> (Host, FolioId, Shadow) {
    let mut h = Host::new(preset);
    h.set_seqs(8, [5, 5]);
    let id = h.alloc(Spec::file());
    for _ in 0..4 {
        h.eng.mark_accessed(0, id);
    }
    let shadow = h.eng.workingset_eviction(id, None);
    h.set_seqs(max_at_refault, [min_at_refault; 2]);
    assert_eq!(seqs(&h).1, max_at_refault);
    let again = h.alloc(Spec::file());
    h.eng.refault(again, shadow, RefaultSite::Read);
    (h, again, shadow)
}

#[test]
fn w6_refs_and_the_refault_of_6_12() {
    let (h, id, shadow) = w6("v612", 8, 5);
    let u = shadow.unpack();
    assert_eq!(
        (u.value, u.workingset),
        (22, true),
        "refs 3: two bits and workingset"
    );
    assert_eq!(h.gens().ctrl[1].evicted, [0, 0, 1, 0]);
    assert_eq!(counts(&h, FILE), [1, 1, 1]);
    assert_eq!(h.folio(id).word().refs(), 3);
    assert!(h.has(id, Flags::WORKINGSET));

    let (h, id, _) = w6("v612", 8, 6);
    assert_eq!(counts(&h, FILE), [1, 0, 0]);
    assert!(!h.has(id, Flags::WORKINGSET));
}

#[test]
fn w6_the_window_of_6_14() {
    for (max, refaults) in [(8, [1, 0, 0]), (9, [1, 0, 0])] {
        let (h, id, _) = w6("base", max, max - 3);
        assert_eq!(counts(&h, FILE), refaults, "max_seq {max}");
        let recent = max == 8;
        assert_eq!(
            h.gens().ctrl[1].refaulted.iter().sum::<u64>(),
            u64::from(recent)
        );
        assert_eq!(h.folio(id).word().refs() > 0, recent);
    }
}

#[test]
fn a_refault_competes_with_the_lists_of_its_node() {
    let cfg = Config {
        nr_nodes: 2,
        ..Config::default()
    };
    let mut h = Host::with(preset("classic").unwrap(), cfg);
    let memcg = h.memcg;
    let (id, shadow) = evict(&mut h, Spec::file(), memcg);
    let here = h.lruvec;
    let now = clock(&h, memcg) + 49;
    set_clock(&mut h, memcg, now);
    h.lruvec = h.eng.lruvec_id(memcg, NodeId(1));
    h.add_many(100, Spec::file().with(Flags::ACTIVE));
    h.lruvec = here;
    let refault = |h: &mut Host| {
        h.eng.memcgs.fold();
        h.eng.refault(id, shadow, RefaultSite::Read);
        counts(h, FILE)
    };
    assert_eq!(refault(&mut h), [1, 0, 0], "50 pages ago, none here");
    h.add_many(50, Spec::file().with(Flags::ACTIVE));
    assert_eq!(refault(&mut h), [2, 1, 0]);
}

#[test]
fn shadow_nodes_are_compared_with_the_pages_on_their_node() {
    let cfg = Config {
        nr_nodes: 2,
        ..Config::default()
    };
    let mut h = Host::with(preset("base").unwrap(), cfg);
    h.add_many(8000, Spec::file());
    let other = h.eng.lruvec_id(h.memcg, NodeId(1));
    let dropped = |h: &mut Host, keys: std::ops::Range<u64>| {
        for key in keys {
            h.eng.shadow_node(other, key);
        }
        h.eng.shrink_shadow_nodes(other, 0);
        h.eng.take_dropped_shadow_nodes().len()
    };
    assert_eq!(
        dropped(&mut h, 0..256),
        128,
        "8000 pages are on the other node"
    );
    h.lruvec = other;
    h.add_many(8000, Spec::file());
    assert_eq!(dropped(&mut h, 256..1128), 0, "an eighth of 8000");
    assert!(dropped(&mut h, 1128..1728) > 0);
}
