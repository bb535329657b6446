//! Whole reclaim calls: C9 to C11.

use super::*;
use crate::counters::Counter;
use crate::testing::Spec;

#[test]
fn c9_one_limit_reclaim_call() {
    for (inactive, freed, rounds) in [(8100, 57, 5), (16_300, 56, 4)] {
        let mut h = file_host();
        h.add_many(inactive, Spec::file());
        h.eng.memcgs.fold();
        let out = h.limit(32);
        assert_eq!((out.reclaimed, out.rounds, out.passes), (freed, rounds, 1));
        assert_eq!(h.count(Counter::PgscanDirect), freed as i64);
    }
}

#[test]
fn c9_active_lists_lose_as_much() {
    let mut h = file_host();
    h.add_many(8100, Spec::file());
    let active = h.add_many(8100, Spec::file().with(Flags::ACTIVE));
    let mut sc = h.request(32);
    sc.force_deactivate = true;
    assert_eq!(h.reclaim(sc).reclaimed, 57);
    assert_eq!(h.count(Counter::Pgdeactivate), 57);
    assert_eq!(h.size(LruList::InactiveFile), 8100);
    assert!(h.has(active[56], Flags::WORKINGSET) && !h.has(active[57], Flags::WORKINGSET));
}

#[test]
fn c10_young_mapped_pages_take_one_full_lap() {
    let mut h = file_host();
    for id in h.add_many(16_330, Spec::mapped(1)) {
        h.script(id).accessed = 1;
    }
    let out = h.limit(32);
    assert_eq!((out.reclaimed, out.rounds), (53, 13));
    assert_eq!(h.count(Counter::PgscanFile), 16_383);
    assert_eq!(h.count(Counter::PgstealFile), 53);
    assert_eq!(h.count(Counter::Pgactivate), 0);
}

/// Limit reclaim until `want` pages are freed; as many come back in, and `activate` in a thousand of
/// them are activated. Returns calls, and calls that deactivated.
fn churn(h: &mut Host, want: u64, activate: u64) -> (u64, u64) {
    let (mut freed, mut calls, mut deactivating, mut activated) = (0, 0, 0, 0);
    while freed < want {
        let before = h.count(Counter::Pgdeactivate);
        freed += h.limit(32).reclaimed;
        calls += 1;
        deactivating += u64::from(h.count(Counter::Pgdeactivate) > before);
        while (h.folios().len() as u64) < 16_172 {
            h.add(Spec::file());
        }
        let list = tail_first(h, LruList::InactiveFile);
        let n = (freed * activate / 1000 - activated) as usize;
        for &id in list.iter().rev().take(n) {
            h.eng.activate(0, id);
        }
        h.eng.lru_add_drain(0);
        activated += n as u64;
    }
    (calls, deactivating)
}

#[test]
fn c11_a_fold_that_finds_inactive_low_lets_every_call_deactivate() {
    let mut h = file_host();
    h.add_many(7929, Spec::file());
    h.add_many(8243, Spec::file().with(Flags::ACTIVE));
    h.eng.memcgs.fold();
    // 3996 of 5600: what turns 8243 active pages into 7139 with 5100 deactivated.
    let (calls, deactivating) = churn(&mut h, 5600, 714);
    assert_eq!(
        calls, deactivating,
        "although inactive has long been larger"
    );
    let moved = h.count(Counter::Pgdeactivate);
    assert!((4800..=5500).contains(&moved), "{moved}");
    let inactive = h.size(LruList::InactiveFile);
    assert!((8800..=9400).contains(&inactive), "{inactive}");
}

#[test]
fn c11_a_fold_that_finds_enough_lets_one_call_deactivate() {
    let mut h = file_host();
    h.add_many(8334, Spec::file());
    h.add_many(7833, Spec::file().with(Flags::ACTIVE));
    let lruvec = h.lruvec;
    h.eng
        .count(h.eng.memcg_of(lruvec), Counter::ActivateFile, 300);
    h.eng.memcgs.fold();
    let (_, deactivating) = churn(&mut h, 5650, 426);
    assert_eq!(deactivating, 1);
    assert_eq!(h.count(Counter::Pgdeactivate), 56);
    let active = h.size(LruList::ActiveFile);
    assert!((10_100..=10_300).contains(&active), "{active}");
}
