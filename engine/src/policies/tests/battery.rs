//! What every list policy must do, whatever it is: each test runs over the whole table.

use crate::folio::Flags;
use crate::ids::LruType;
use crate::policies::{ListKind, ListState};
use crate::presets;
use crate::switches::{PolicyKind, SwitchValue};
use crate::testing::{Cache, Host, Spec};
use proptest::prelude::*;

fn each(mut test: impl FnMut(ListKind, &'static str)) {
    for &kind in ListKind::ALL {
        test(kind, kind.name());
    }
}

#[test]
fn has_a_preset_a_name_and_a_paper() {
    each(|kind, name| {
        let switches = presets::preset(name).unwrap();
        assert_eq!(switches.policy, PolicyKind::List(kind), "{name}");
        assert_eq!(PolicyKind::parse(name), Some(switches.policy), "{name}");
        assert!(PolicyKind::accepts().contains(name), "{name}");
        assert_eq!(ListState::new(kind).lists.kind(), kind);
        let year = kind.paper().split([' ', ',']).next_back().unwrap();
        assert!(year.parse::<u32>().is_ok(), "{name}: {}", kind.paper());
    });
}

#[test]
fn what_fits_stays() {
    each(|kind, name| {
        let mut cache = Cache::new(kind, 50);
        let twice: Vec<u32> = (0..50).chain(0..50).chain((0..50).rev()).collect();
        let misses = cache.misses(&twice);
        assert!(misses[..50].iter().all(|&m| m), "{name}");
        assert!(!misses[50..].iter().any(|&m| m), "{name}");
        cache.eng.check();
    });
}

/// As many pages as fit are read, used, and gone for good, again and again: none is evicted for those that are gone.
#[test]
fn what_is_gone_takes_no_place() {
    each(|kind, name| {
        let mut cache = Cache::new(kind, 50);
        for round in 0..20 {
            let pages = 40 * round..40 * (round + 1);
            let twice: Vec<u32> = pages.clone().chain(pages.clone()).collect();
            let misses = cache.misses(&twice);
            assert_eq!(misses.iter().filter(|&&m| m).count(), 40, "{name}");
            pages.for_each(|page| cache.forget(page));
            cache.eng.check();
            assert!(cache.resident().is_empty(), "{name}");
            let lists = cache.eng.lists(cache.lruvec, LruType::File);
            assert!(lists.queues().iter().all(|q| q.is_empty()), "{name}");
        }
    });
}

/// Of pages that were evicted and are gone for good nothing is remembered.
#[test]
fn what_is_gone_leaves_no_ghost() {
    each(|kind, name| {
        let mut cache = Cache::new(kind, 10);
        // Some are used twice while they are there, others are not.
        let pages: Vec<u32> = (0..60).flat_map(|p| [p, p - p % 2, p / 4]).collect();
        cache.misses(&pages);
        let ghosts = |cache: &Cache| -> u64 {
            let lists = cache.eng.lists(cache.lruvec, LruType::File);
            lists.ghosts().iter().map(|g| g.pages()).sum()
        };
        let remembers = !cache
            .eng
            .lists(cache.lruvec, LruType::File)
            .ghosts()
            .is_empty();
        assert_eq!(ghosts(&cache) > 0, remembers, "{name}");
        (0..60).for_each(|page| cache.forget(page));
        assert_eq!(ghosts(&cache), 0, "{name}");
        cache.eng.check();
    });
}

#[test]
fn a_frame_is_enough() {
    each(|kind, name| {
        let mut cache = Cache::new(kind, 1);
        let misses = cache.misses(&[1, 1, 2, 2, 1, 3, 3]);
        let expected = [true, false, true, false, true, true, false];
        assert_eq!(misses, expected, "{name}");
        cache.eng.check();
    });
}

#[test]
fn reclaim_frees_what_is_asked_for_and_everything_in_the_end() {
    each(|_, name| {
        let mut h = Host::new(name);
        let mut ids = h.add_many(300, Spec::file());
        ids.extend((0..100).map(|_| h.fault(Spec::anon())));
        for &id in ids.iter().step_by(3) {
            h.eng.mark_accessed(0, id);
            h.eng.mark_accessed(0, id);
        }
        assert!(h.limit(32).reclaimed >= 32, "{name}");
        for _ in 0..100 {
            h.limit(32);
            h.finish_writes();
            h.eng.lru_add_drain_all();
            h.eng.check();
        }
        assert_eq!(h.eng.nr_folios(), 0, "{name}");
    });
}

#[test]
fn a_mapped_folio_in_use_goes_back_once() {
    each(|kind, name| {
        let mut h = Host::new(name);
        let ids: Vec<_> = (0..64).map(|_| h.fault(Spec::mapped(1))).collect();
        let wants = ListState::new(kind).lists.of(LruType::File).wants_uses();
        for &id in &ids[..8] {
            h.script(id).accessed = 1;
        }
        while h.eng.nr_folios() > 8 {
            assert!(h.limit(1).reclaimed > 0, "{name}");
            h.eng.check();
        }
        let tests = |id| h.seen.tests.iter().filter(|&&t| t == id).count();
        if wants {
            // Whether one use is enough to stay longer than unused folios is the policy's business.
            for &id in &ids[..8] {
                assert!(tests(id) > usize::from(h.gone(id)), "{name}: {id:?}");
            }
        } else {
            assert!(h.seen.tests.is_empty(), "{name}");
        }
    });
}

#[test]
fn dirty_folios_and_those_that_somebody_holds_survive() {
    each(|_, name| {
        let mut h = Host::new(name);
        let ids = h.add_many(40, Spec::file());
        let dirty = h.add(Spec::file().dirty());
        h.eng.folio_get(ids[0], 1);
        for _ in 0..20 {
            h.limit(10);
            h.eng.check();
        }
        assert!(!h.gone(dirty) && !h.gone(ids[0]), "{name}");
        assert_eq!(h.eng.nr_folios(), 2, "{name}");
        // Written, it goes to where the next victim is taken.
        h.eng.folio_set(dirty, Flags::RECLAIM);
        h.start_write(dirty);
        h.finish_writes();
        h.eng.folio_put(ids[0], 1);
        while h.eng.nr_folios() > 0 {
            assert!(h.limit(1).reclaimed > 0, "{name}");
        }
        h.eng.check();
    });
}

#[test]
fn both_types_give_by_swappiness() {
    each(|_, name| {
        let mut h = Host::new(name);
        h.add_many(1000, Spec::file());
        for _ in 0..1000 {
            h.fault(Spec::anon());
        }
        for _ in 0..3 {
            h.limit(64);
            h.finish_writes();
            h.eng.lru_add_drain_all();
        }
        let anon = h
            .folios()
            .iter()
            .filter(|&&id| h.has(id, Flags::ANON))
            .count();
        let file = h.folios().len() - anon;
        assert!(anon < 1000 && file < anon, "{name}: {anon} and {file} left");
        let mut h = Host::new(name);
        h.eng.set_swap(0, 0);
        h.fault(Spec::anon());
        h.add_many(100, Spec::file());
        for _ in 0..20 {
            h.limit(32);
        }
        assert_eq!(h.eng.nr_folios(), 1, "{name}: nowhere to swap to");
    });
}

#[test]
fn large_folios_count_their_pages() {
    each(|_, name| {
        let mut h = Host::new(name);
        for i in 0..60 {
            let id = h.add(Spec::file().order(i % 4));
            if i % 3 == 0 {
                h.eng.mark_accessed(0, id);
                h.eng.mark_accessed(0, id);
            }
        }
        while h.eng.nr_folios() > 0 {
            let before = h.eng.memcgs[h.memcg].memory().usage();
            let freed = h.limit(8).reclaimed;
            assert_eq!(
                h.eng.memcgs[h.memcg].memory().usage(),
                before - freed,
                "{name}"
            );
            h.eng.check();
        }
    });
}

/// The state read back goes on as the original does.
#[cfg(feature = "state")]
#[test]
fn its_state_is_data() {
    each(|kind, name| {
        let pages = |from: u32| (from..from + 4000).map(|i| i * i % 97 + i % 13);
        let mut cache = Cache::new(kind, 40);
        cache.misses(&pages(0).collect::<Vec<_>>());
        let text = serde_json::to_string(&cache.eng).unwrap();
        let mut copy = Cache::new(kind, 40);
        copy.copy_slots(&cache);
        copy.eng = serde_json::from_str(&text).unwrap();
        let next: Vec<u32> = pages(4000).collect();
        assert_eq!(copy.misses(&next), cache.misses(&next), "{name}");
        copy.eng.check();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    /// Invariants hold after every access, and as many pages are in memory as fit.
    #[test]
    fn holds_its_invariants(
        capacity in 1usize..12,
        pages in prop::collection::vec((prop_oneof![3 => 0u32..8, 1 => 0u32..40], prop::bool::weighted(0.1)), 0..200),
    ) {
        for &kind in ListKind::ALL {
            let mut cache = Cache::new(kind, capacity);
            for &(page, gone) in &pages {
                if gone {
                    cache.forget(page);
                    cache.eng.check();
                    continue;
                }
                let before = cache.resident().len();
                let hit = cache.read(page);
                cache.eng.check();
                prop_assert!(cache.resident().contains(&page), "{}", kind.name());
                let expected = (before + usize::from(!hit)).min(capacity);
                prop_assert_eq!(cache.resident().len(), expected, "{}", kind.name());
            }
        }
    }
}
