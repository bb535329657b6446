//! New generations and dropped ones.

use crate::config::Config;
use crate::folio::Flags;
use crate::ids::NodeId;
use crate::lruvec::LruList;
use crate::mglru::walk::{AgingStep, AgingTask, Walk, YoungEntry};
use crate::mglru::{EvictableTypes, LookAround};
use crate::presets::preset;
use crate::reclaim::{Answer, ScanControl, Work};
use crate::testing::{Host, Spec};
use crate::LruType::{Anon, File};

/// Ages once; lock acquisitions it took.
fn age(h: &mut Host) -> u64 {
    h.eng.meter.take();
    let max = h.gens().max_seq;
    assert!(h
        .eng
        .gen_inc_max_seq(h.lruvec, max, EvictableTypes::Both, false));
    h.eng.check();
    h.eng.meter.take().locks
}

#[test]
fn e5_forcing_out() {
    for preset in ["base", "v612"] {
        let mut h = Host::new(preset);
        let next = h.fill(1, 10, Spec::file());
        let ids = h.fill(0, 5000, Spec::file());
        assert_eq!(
            age(&mut h),
            2,
            "4096 in the first hold of the lock, 904 in the second"
        );
        assert_eq!((h.gens().max_seq, h.gens().min_seq), (4, [1, 1]));
        let mut want: Vec<_> = ids.into_iter().rev().collect();
        want.extend(next);
        assert!(
            h.list(1, File) == want,
            "behind the members, the last one moved first"
        );
        let protected: u64 = h.gens().ctrl[1].avg_total.iter().sum();
        assert_eq!(protected, if preset == "base" { 2500 } else { 0 });
    }
    for (folios, locks) in [(4095, 1), (4096, 2)] {
        let mut h = Host::new("base");
        h.fill(0, folios, Spec::file());
        assert_eq!(
            age(&mut h),
            locks,
            "exactly 4096 ends the hold although none is left"
        );
        assert_eq!(h.gens().min_seq[1], 1);
    }
}

#[test]
fn e10_aging_statistics() {
    let mut h = Host::new("base");
    h.set_seqs(5, [3, 3]);
    for (seq, n) in [(3, 100), (4, 200), (5, 300)] {
        h.fill(seq, n, Spec::file());
    }
    let sizes = |h: &Host| (h.size(LruList::ActiveFile), h.size(LruList::InactiveFile));
    assert_eq!(sizes(&h), (500, 100));
    age(&mut h);
    assert_eq!(h.gens().max_seq, 6);
    assert_eq!(sizes(&h), (300, 300));
}

#[test]
fn e11_min_seq() {
    for (swappiness, want) in [(60, [7, 8]), (0, [7, 9])] {
        let mut h = Host::new("base");
        h.set_seqs(10, [7, 7]);
        h.add_to(7, Spec::anon());
        h.add_to(9, Spec::file());
        assert!(h.eng.gen_try_inc_min_seq(h.lruvec, swappiness));
        assert_eq!(h.gens().min_seq, want);
        let types = EvictableTypes::of(swappiness);
        let must_age = h.gens().min_seq_of(types) + 2 > h.gens().max_seq;
        assert_eq!(must_age, swappiness == 0);
        assert!(
            !h.eng.gen_try_inc_min_seq(h.lruvec, swappiness),
            "two generations stay"
        );
    }
}

#[test]
fn folios_that_may_not_be_evicted_join_the_new_youngest_generation() {
    let mut h = Host::new("base");
    h.fill(0, 5, Spec::anon());
    h.fill(0, 5, Spec::file());
    assert!(h
        .eng
        .gen_inc_max_seq(h.lruvec, 3, EvictableTypes::File, false));
    h.eng.check();
    assert_eq!((h.gens().max_seq, h.gens().min_seq), (4, [1, 1]));
    assert_eq!(h.gen_pages(4, Anon), 5, "the accepted inversion");
    assert_eq!(h.gen_pages(1, File), 5);
    assert_eq!(h.size(LruList::ActiveAnon), 5);
}

#[test]
fn a_lost_race_ages_nothing() {
    let mut h = Host::new("base");
    assert!(!h
        .eng
        .gen_inc_max_seq(h.lruvec, 2, EvictableTypes::Both, false));
    assert_eq!(h.gens().max_seq, 3);
}

/// Between the end of the walk and the lock, others are told that aging is done: a walker that is
/// killed there must not leave it undone.
#[test]
fn a_killed_walker_opens_the_generation() {
    let mut h = Host::new("base");
    h.fill(1, 10, Spec::file());
    h.eng.mm_create(h.memcg);
    let max = h.gens().max_seq;
    let begin = |h: &Host| AgingTask::new(h.lruvec, max, EvictableTypes::Both);
    let mut walker = begin(&h);
    let mut step = walker.step(&mut h.eng, None);
    while let AgingStep::Ask(Work::Walk(_)) = step {
        let end = Answer::Stretch {
            young: 0,
            next: None,
        };
        step = walker.step(&mut h.eng, Some(end));
    }
    assert!(matches!(step, AgingStep::Ask(Work::Spin)));
    let other = begin(&h).step(&mut h.eng, None);
    assert!(matches!(other, AgingStep::Done(false)));
    assert_eq!(h.gens().max_seq, max);
    walker.abandon(&mut h.eng);
    assert_eq!(h.gens().max_seq, max + 1);
    h.eng.check();
}

/// Opens a generation and returns the walks it asked for, during which `walked` happens.
fn walks(h: &mut Host, walked: impl Fn(&mut Host, &Walk)) -> usize {
    let max = h.gens().max_seq;
    let mut task = AgingTask::new(h.lruvec, max, EvictableTypes::Both);
    let mut walks = 0;
    let mut step = task.step(&mut h.eng, None);
    while let AgingStep::Ask(Work::Walk(walk)) = step {
        walks += 1;
        walked(h, &walk);
        step = task.step(&mut h.eng, Some(Answer::Walked));
    }
    assert!(matches!(step, AgingStep::Done(true)));
    walks
}

#[test]
fn a_pass_that_skips_every_address_space_leaves_the_filter_as_it_was() {
    let mut h = Host::new("base");
    let hits = |h: &Host| [7, 8].map(|key| h.gens().walk.filters.hit(h.gens().max_seq, key));
    let dense_table = |h: &mut Host, walk: &Walk| h.eng.walk_table_done(walk, 7, 512, 512);
    assert_eq!(walks(&mut h, dense_table), 1, "new to the list");
    assert_eq!(hits(&h), [true, false], "written by the walk");
    assert_eq!(walks(&mut h, |_, _| ()), 0, "nothing has run since");
    assert_eq!(hits(&h), [true, true], "still missing");
    assert_eq!(walks(&mut h, |_, _| ()), 0);
    assert_eq!(hits(&h), [true, false], "as the first walk left it");
    h.eng.mm_ran(h.mm);
    assert_eq!(walks(&mut h, |_, _| ()), 1);
    assert_eq!(hits(&h), [false, false], "emptied by the first walker");
}

#[test]
fn an_executable_file_joins_the_working_set_at_its_first_walk_since_7_3() {
    for (preset, joins) in [("v72", false), ("v73", true)] {
        let mut h = Host::new(preset);
        let id = h.add_to(1, Spec::mapped(1));
        let young = |h: &mut Host, walk: &Walk| {
            let (dirty, exec) = (false, true);
            h.eng.walk_young(walk, id, YoungEntry { dirty, exec });
        };
        assert_eq!(walks(&mut h, young), 1);
        assert_eq!(h.has(id, Flags::WORKINGSET), joins, "{preset}");
        assert_eq!(h.seq_of(id), Some(if joins { 3 } else { 1 }), "{preset}");
    }
}

#[test]
fn look_around_leaves_the_batch_alone_since_6_14() {
    for (preset, wanted) in [("v612", true), ("v618", false), ("v72", false)] {
        let mut h = Host::new(preset);
        let [on, off] = [h.add_to(1, Spec::mapped(1)), h.alloc(Spec::mapped(1))];
        let la = LookAround {
            lruvec: h.lruvec,
            walk_context: false,
        };
        assert!(h.eng.look_around_wants(&la, on));
        assert_eq!(h.eng.look_around_wants(&la, off), wanted, "{preset}");
    }
}

#[test]
fn a_neighbour_is_settled_when_another_use_changes_nothing() {
    // Since 6.14 the first use marks a neighbour, the second promotes it, and only the third changes nothing.
    for (preset, uses) in [("v612", 2), ("v618", 3), ("v5", 3), ("v72", 3)] {
        let mut h = Host::new(preset);
        let id = h.add_to(1, Spec::mapped(1));
        let la = LookAround {
            lruvec: h.lruvec,
            walk_context: true,
        };
        for use_ in 1..=uses + 1 {
            let before = (h.eng.folio(id).word(), h.seq_of(id));
            let settled = h.eng.look_around_young(&la, 0, id, false);
            let same = before == (h.eng.folio(id).word(), h.seq_of(id));
            assert_eq!(settled, same, "{preset}, use {use_}");
            assert_eq!(settled, use_ >= uses, "{preset}, use {use_}");
        }
        assert_eq!(h.seq_of(id), Some(h.gens().max_seq), "{preset}");
        let marks_only = LookAround {
            walk_context: false,
            ..la
        };
        assert!(!h.eng.look_around_young(&marks_only, 0, id, false));
    }
}

/// kswapd protects a working set younger than `min_ttl_ms`, for ever if that is more than can be counted.
#[test]
fn the_time_that_protects_working_sets_saturates() {
    let danger = |min_ttl_ms: u64, now: u64| {
        let mut sw = preset("v5").unwrap();
        sw.set("min_ttl_ms", &min_ttl_ms.to_string()).unwrap();
        let mut h = Host::with(sw, Config::default());
        h.fill(0, 5000, Spec::file());
        h.eng.set_now(now);
        let sc = ScanControl::new(32, None);
        h.eng.working_set_in_danger(&sc, NodeId(0))
    };
    let ms = 1_000_000;
    assert!(!danger(0, 0), "off");
    assert!(danger(5, 5 * ms));
    assert!(!danger(5, 5 * ms + 1));
    for min_ttl_ms in [18_446_744_073_709_552, u64::MAX] {
        assert!(danger(min_ttl_ms, 1_000_000 * ms), "{min_ttl_ms}");
    }
}
