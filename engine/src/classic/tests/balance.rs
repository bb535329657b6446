//! The balance between anonymous and file pages (`docs/rules/classic.md#file-or-anonymous`).

use super::*;
use crate::counters::Counter;
use crate::ids::{MemcgId, NodeId};
use crate::reclaim::ScanControl;
use crate::testing::Spec;
use crate::zone::{Zone, ZoneClass};

const NODE: NodeId = NodeId(0);

/// 8192 inactive anonymous pages and `file` inactive file pages, statistics folded.
fn host(file: usize) -> Host {
    let mut h = Host::new("classic");
    h.add_many(8192, Spec::anon());
    h.add_many(file, Spec::file());
    h.eng.memcgs.fold();
    h
}

/// Pages to scan of the inactive lists, anonymous and file.
fn amounts(h: &mut Host, sc: &mut ScanControl) -> [u64; 2] {
    h.eng.prepare_scan_control(sc, NODE);
    let nr = h.eng.get_scan_count(sc, h.lruvec);
    [
        nr[LruList::InactiveAnon.idx()],
        nr[LruList::InactiveFile.idx()],
    ]
}

fn at(h: &Host, target: Option<MemcgId>, priority: u8) -> ScanControl {
    let mut sc = h.request(32);
    (sc.target, sc.priority) = (target, priority);
    sc
}

#[test]
fn without_swap_only_files() {
    let mut h = host(8192);
    let target = Some(h.memcg);
    let mut sc = at(&h, target, 0);
    sc.may_swap = false;
    assert_eq!(amounts(&mut h, &mut sc), [0, 8192]);
    h.eng
        .memcgs
        .set_max(h.memcg, crate::memcg::CounterKind::Swap, 0)
        .unwrap();
    let mut sc = at(&h, target, 0);
    assert_eq!(amounts(&mut h, &mut sc), [0, 8192], "swap.max");
}

#[test]
fn swappiness_0_counts_before_the_last_priority_for_limits_only() {
    let mut h = host(4000);
    let memcg = h.memcg;
    h.eng.memcgs.set_swappiness(memcg, Some(0)).unwrap();
    for (target, priority) in [(Some(memcg), 0), (None, 0), (Some(memcg), 1), (None, 1)] {
        let mut sc = at(&h, target, priority);
        assert_eq!(
            amounts(&mut h, &mut sc),
            [0, 4000 >> priority],
            "{target:?} {priority}"
        );
    }
}

#[test]
fn the_last_priority_scans_all_equally() {
    let mut h = host(4000);
    let target = Some(h.memcg);
    let mut sc = at(&h, target, 0);
    assert_eq!(amounts(&mut h, &mut sc), [8192, 4000]);
}

#[test]
fn many_inactive_files_spare_anonymous_memory() {
    for (file, want) in [(8192, [0, 2]), (4095, [0, 0])] {
        let mut h = host(file);
        let target = Some(h.memcg);
        let mut sc = at(&h, target, 12);
        assert_eq!(amounts(&mut h, &mut sc), want);
        assert_eq!(sc.cache_trim_mode, file == 8192);
    }
    let mut h = host(8192);
    let target = Some(h.memcg);
    let mut sc = at(&h, target, 4);
    sc.no_cache_trim_mode = true;
    assert_eq!(amounts(&mut h, &mut sc), [512 * 60 / 200, 512 * 140 / 200]);

    // Activations since the last reclaim: files may be deactivated, nothing is spared.
    let lruvec = h.lruvec;
    h.eng
        .count(h.eng.memcg_of(lruvec), Counter::ActivateFile, 1);
    h.eng.memcgs.fold();
    let mut sc = at(&h, target, 4);
    amounts(&mut h, &mut sc);
    assert_eq!(
        (sc.may_deactivate, sc.cache_trim_mode),
        ([false, true], false)
    );
}

#[test]
fn few_files_and_little_free_turn_global_reclaim_to_anonymous_memory() {
    for (free, global, active, tiny) in [
        (900, true, 0, true),
        (901, true, 0, false),
        (900, false, 0, false),
        (900, true, 9000, false),
    ] {
        let mut h = host(100);
        h.add_many(active, Spec::anon().with(Flags::ACTIVE));
        h.eng.memcgs.fold();
        let mut zone = Zone::new(NODE, ZoneClass::Normal, 20_000);
        (zone.free, zone.high) = (free, 1000);
        h.eng.zones.set(vec![zone]);
        let target = (!global).then_some(h.memcg);
        let mut sc = at(&h, target, 4);
        let [anon, file] = amounts(&mut h, &mut sc);
        assert_eq!(
            sc.file_is_tiny, tiny,
            "free {free} global {global} active {active}"
        );
        assert_eq!((anon, file) == (512, 0), tiny);
    }
}

#[test]
fn offline_shares_round_up() {
    let mut h = host(100);
    h.eng.memcg_offline(h.memcg).unwrap();
    let mut sc = at(&h, None, 12);
    h.eng.prepare_scan_control(&mut sc, NODE);
    sc.cache_trim_mode = false;
    let nr = h.eng.get_scan_count(&mut sc, h.lruvec);
    // 2 of 8192, and 32 of the 100 that are fewer than 4096; 60 and 140 of 200.
    assert_eq!([nr[0], nr[2]], [1, 23]);
}
