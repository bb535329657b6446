//! Heat on its own; the worked examples of `memcg.md` carry their labels.

use super::*;
use crate::memcg::MemcgError;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const A: MemcgId = MemcgId(1);
const B: MemcgId = MemcgId(2);
const C: MemcgId = MemcgId(3);

fn visit(scanned: u64, reclaimed: u64) -> VisitStats {
    VisitStats {
        scanned,
        reclaimed,
        aged: false,
    }
}

fn wheel_of(n: u32, cfg: HeatConfig) -> DecayWheel {
    let mut wheel = DecayWheel::new(cfg, 0);
    (1..=n).for_each(|i| wheel.insert(MemcgId(i), 0, 0));
    wheel
}

/// Takes the coldest memcg in a call of its own.
fn pick(wheel: &mut DecayWheel, now: u64) -> (WheelCall, Option<MemcgId>) {
    let mut call = wheel.begin(now, 12, 0);
    let id = wheel.pick(&mut call, now, HeatLevel::Hot);
    (call, id)
}

#[test]
fn m7_heat() {
    let cfg = HeatConfig::default();
    let mut h = PostedHeat::new(0);
    let mut refaults = 0;
    let mut wheel = wheel_of(
        1,
        HeatConfig {
            relative: false,
            ..cfg
        },
    );
    for (scanned, reclaimed, new, heat) in [
        (64, 40, 0, 0),
        (64, 10, 5, 1),
        (64, 10, 30, 3),
        (64, 20, 0, 2),
        (64, 10, 0, 2),
        (0, 0, 0, 12),
    ] {
        refaults += new;
        h.record(0, &cfg, &visit(scanned, reclaimed), refaults);
        assert_eq!(h.heat(), heat, "{scanned} scanned, {reclaimed} freed");
        if scanned > 0 {
            let (call, id) = pick(&mut wheel, 0);
            let v = visit(scanned, reclaimed);
            wheel.visited(&call, id.unwrap(), 0, &v, refaults as u64);
            assert_eq!(wheel.heat_at(A, 0), heat, "wheel with the same shares");
        }
    }
    assert_eq!(h.level(0, &cfg), HeatLevel::Hot);
    assert_eq!(h.level(60 * S, &cfg), HeatLevel::Hot);
    assert_eq!(h.heat(), 11, "one step, however long ago");

    // The wheel: idle for a minute is cold.
    let (_, id) = pick(&mut wheel, 0);
    wheel.put(id.unwrap(), 0, 12);
    assert_eq!(wheel.heat_at(A, 0), 12);
    assert_eq!(wheel.heat_at(A, 60 * S), 0);
    assert_eq!(wheel.level_of(0, 60 * S), HeatLevel::Cold);
}

#[test]
fn m7_no_decay_at_exactly_one_interval() {
    let cfg = HeatConfig::default();
    let mut h = PostedHeat::new(0);
    h.record(0, &cfg, &visit(0, 0), 0);
    assert_eq!(h.heat(), 11);
    h.level(S, &cfg);
    assert_eq!(h.heat(), 11);
    h.level(S + 1, &cfg);
    assert_eq!(h.heat(), 10);
}

#[test]
fn posted_statistics_that_step_back_read_as_very_many_refaults() {
    let cfg = HeatConfig::default();
    let mut h = PostedHeat::new(0);
    h.record(0, &cfg, &visit(64, 10), 100);
    assert_eq!(
        h.heat(),
        2,
        "all activations of its life are the first difference"
    );
    h.record(0, &cfg, &visit(64, 10), 99);
    assert_eq!(h.heat(), 4);
}

#[test]
fn thresholds_must_be_in_order() {
    assert_eq!(HeatLevels::new(4, 8, 12), Ok(HeatLevels::default()));
    for (warm, hot, max, field) in [
        (0, 8, 12, "heat_warm"),
        (9, 8, 12, "heat_warm"),
        (4, 13, 12, "heat_hot"),
        (4, 8, 16, "heat_max"),
        (4, 8, 0, "heat_max"),
    ] {
        match HeatLevels::new(warm, hot, max) {
            Err(MemcgError::Config { field: f, .. }) => assert_eq!(f, field),
            other => panic!("{warm} {hot} {max}: {other:?}"),
        }
    }
}

#[test]
fn wheel_is_first_in_first_out_within_a_heat_and_coldest_first() {
    let mut wheel = wheel_of(3, HeatConfig::default());
    let (_, id) = pick(&mut wheel, 0);
    assert_eq!(id, Some(A));
    wheel.put(A, 0, 2);
    let order: Vec<_> = {
        let mut call = wheel.begin(0, 12, 0);
        std::iter::from_fn(|| wheel.pick(&mut call, 0, HeatLevel::Hot)).collect()
    };
    assert_eq!(order, [B, C, A]);
    order.iter().for_each(|&id| wheel.put(id, 0, 0));
    // Two intervals later A is cold, and behind those that were cold before it.
    let mut call = wheel.begin(2 * S, 12, 0);
    let order: Vec<_> =
        std::iter::from_fn(|| wheel.pick(&mut call, 2 * S, HeatLevel::Cold)).collect();
    assert_eq!(order, [B, C, A]);
    order.iter().for_each(|&id| wheel.put(id, 2 * S, 0));
    wheel.check();
}

#[test]
fn wheel_call_gets_no_memcg_twice() {
    let mut wheel = wheel_of(2, HeatConfig::default());
    let mut call = wheel.begin(0, 12, 0);
    for want in [A, B] {
        let id = wheel.pick(&mut call, 0, HeatLevel::Hot).unwrap();
        assert_eq!(id, want);
        wheel.visited(&call, id, 0, &visit(64, 0), 0);
    }
    assert_eq!(wheel.pick(&mut call, 0, HeatLevel::Hot), None);
    assert_eq!(wheel.pick_aside(&mut call), None);
    assert!(pick(&mut wheel, 0).1.is_some(), "the next call does");
}

#[test]
fn wheel_memcg_that_gave_nothing_to_scan_stands_aside_for_its_priority() {
    let mut wheel = wheel_of(2, HeatConfig::default());
    let (call, id) = pick(&mut wheel, 0);
    wheel.visited(&call, id.unwrap(), 0, &visit(0, 0), 0);
    assert_eq!(wheel.heat_at(A, 0), 0, "that says nothing about heat");
    let (_, id) = pick(&mut wheel, 0);
    assert_eq!(id, Some(B), "A stands aside");
    wheel.put(B, 0, 0);
    // A call of the same priority does not get it, one of a lower priority does, at the end.
    for (priority, aside) in [(12, None), (11, Some(A))] {
        let mut call = wheel.begin(0, priority, 0);
        assert_eq!(wheel.pick(&mut call, 0, HeatLevel::Hot), Some(B));
        assert_eq!(wheel.pick(&mut call, 0, HeatLevel::Hot), None);
        wheel.put(B, 0, 0);
        assert_eq!(wheel.pick_aside(&mut call), aside);
    }
    wheel.put(A, 0, 0);
    wheel.check();
}

#[test]
fn wheel_last_priority_asks_those_who_stood_aside_at_it() {
    let mut wheel = wheel_of(1, HeatConfig::default());
    for _ in 0..3 {
        let mut call = wheel.begin(0, 0, 0);
        let id = wheel.pick(&mut call, 0, HeatLevel::Hot);
        let id = id.or_else(|| wheel.pick_aside(&mut call));
        assert_eq!(id, Some(A), "no time passes, and nobody else is there");
        wheel.visited(&call, A, 0, &visit(0, 0), 0);
    }
    wheel.check();
}

#[test]
fn wheel_protected_memcg_comes_back_in_the_next_epoch_or_with_new_limits() {
    for (later, limits) in [(S, 0), (0, 1)] {
        let mut wheel = wheel_of(1, HeatConfig::default());
        let (_, id) = pick(&mut wheel, 0);
        wheel.protect(id.unwrap());
        let (mut call, id) = pick(&mut wheel, 0);
        assert_eq!(id, None);
        // Still protected, as far as this call can tell, if nothing else is left.
        assert_eq!(wheel.pick_aside(&mut call), Some(A));
        wheel.protect(A);
        let mut call = wheel.begin(later, 12, limits);
        assert_eq!(wheel.pick(&mut call, later, HeatLevel::Cold), Some(A));
        wheel.put(A, later, 0);
        wheel.check();
    }
}

#[test]
fn wheel_two_calls_share_the_last_memcg() {
    let mut wheel = wheel_of(1, HeatConfig::default());
    let (first, id) = pick(&mut wheel, 0);
    let (mut second, none) = pick(&mut wheel, 0);
    assert_eq!((id, none), (Some(A), None));
    assert_eq!(wheel.pick_aside(&mut second), Some(A));
    wheel.check();
    wheel.visited(&first, A, 0, &visit(64, 0), 0);
    assert_eq!(pick(&mut wheel, 0).1, None, "the second call still has it");
    wheel.visited(&second, A, 0, &visit(64, 64), 0);
    assert_eq!(pick(&mut wheel, 0).1, Some(A));
}

#[test]
fn wheel_offline_memcg_is_next_and_stays_cold() {
    let mut wheel = wheel_of(3, HeatConfig::default());
    let mut call = wheel.begin(0, 12, 0);
    let first = wheel.pick(&mut call, 0, HeatLevel::Hot).unwrap();
    wheel.put(first, 0, 12);
    wheel.offline(first);
    wheel.check();
    assert_eq!(pick(&mut wheel, 0).1, Some(first));
    wheel.put(first, 0, 5);
    assert_eq!(wheel.heat_at(first, 0), 0);
    wheel.remove(first);
    wheel.check();
    assert_eq!(wheel.len(), 2);
}

#[test]
fn wheel_compares_with_the_mean() {
    // Of 64 scanned, A gives 60, B gives 8, C gives 8: A is better than twice the mean.
    let mut wheel = wheel_of(3, HeatConfig::default());
    for _ in 0..8 {
        let mut call = wheel.begin(0, 12, 0);
        while let Some(id) = wheel.pick(&mut call, 0, HeatLevel::Hot) {
            let freed = if id == A { 60 } else { 8 };
            wheel.visited(&call, id, 0, &visit(64, freed), 0);
        }
    }
    let heat = |id| wheel.heat_at(id, 0);
    assert_eq!(heat(A), 0);
    assert!(heat(B) > 0 && heat(C) > 0, "{} {}", heat(B), heat(C));

    // Where all give little, and equally, nobody is hot: that is what "relative" means.
    let mut wheel = wheel_of(3, HeatConfig::default());
    for _ in 0..8 {
        let mut call = wheel.begin(0, 12, 0);
        while let Some(id) = wheel.pick(&mut call, 0, HeatLevel::Hot) {
            wheel.visited(&call, id, 0, &visit(64, 8), 0);
        }
    }
    assert_eq!([A, B, C].map(|id| wheel.heat_at(id, 0)), [0; 3]);
}

#[test]
fn wheel_refaults_of_a_freed_page_are_a_cost() {
    let mut wheel = wheel_of(3, HeatConfig::default());
    let mut refaults = [0; 4];
    for _ in 0..8 {
        let mut call = wheel.begin(0, 12, 0);
        while let Some(id) = wheel.pick(&mut call, 0, HeatLevel::Hot) {
            // All give the same. A wants back every page it gives.
            refaults[id.idx()] += if id == A { 32 } else { 0 };
            wheel.visited(&call, id, 0, &visit(64, 32), refaults[id.idx()]);
        }
    }
    // -1 for an average yield and +1 for the refaults: A does not cool, the others do.
    let mut call = wheel.begin(0, 12, 0);
    for id in std::iter::from_fn(|| wheel.pick(&mut call, 0, HeatLevel::Hot)).collect::<Vec<_>>() {
        wheel.put(id, 0, 6);
    }
    let mut call = wheel.begin(0, 12, 0);
    while let Some(id) = wheel.pick(&mut call, 0, HeatLevel::Hot) {
        refaults[id.idx()] += if id == A { 32 } else { 0 };
        wheel.visited(&call, id, 0, &visit(64, 32), refaults[id.idx()]);
    }
    assert_eq!([A, B, C].map(|id| wheel.heat_at(id, 0)), [6, 5, 5]);
}

#[test]
fn wheel_aging_warms_once_an_interval() {
    let cfg = HeatConfig {
        relative: false,
        ..HeatConfig::default()
    };
    let mut wheel = wheel_of(1, cfg);
    let aged = VisitStats {
        aged: true,
        ..visit(64, 10)
    };
    let mut heats = Vec::new();
    for now in [0, 0, S] {
        let (call, id) = pick(&mut wheel, now);
        wheel.visited(&call, id.unwrap(), now, &aged, 0);
        heats.push(wheel.heat_at(A, now));
    }
    // Without refaults the shares themselves change nothing; an interval takes one.
    assert_eq!(heats, [1, 1, 1]);
}

#[test]
fn wheel_levels_by_thirds() {
    let cfg = HeatConfig {
        quantile: true,
        ..HeatConfig::default()
    };
    let mut wheel = wheel_of(9, cfg);
    let mut call = wheel.begin(0, 12, 0);
    let all: Vec<_> = std::iter::from_fn(|| wheel.pick(&mut call, 0, HeatLevel::Hot)).collect();
    for (id, heat) in all.iter().zip([0, 0, 1, 1, 1, 1, 2, 2, 2]) {
        wheel.put(*id, 0, heat);
    }
    let levels = [0, 1, 2].map(|h| wheel.level_of(h, 0));
    assert_eq!(levels, [HeatLevel::Cold, HeatLevel::Cold, HeatLevel::Hot]);
}

#[test]
fn automatic_interval_follows_the_time_between_reclaims() {
    let mut c = EpochClock::new(0, 1);
    assert_eq!(c.interval(), S);
    let mut now = 0;
    for _ in 0..400 {
        now += S / 2;
        c.reclaim_begins(now);
    }
    assert!(c.interval().abs_diff(2 * S) < S / 100, "{}", c.interval());
    let before = c.epoch(now);
    for _ in 0..10_000 {
        now += 1_000_000;
        c.reclaim_begins(now);
    }
    assert_eq!(c.interval(), AUTO_MIN);
    assert!(c.epoch(now) > before, "epochs go on");
    // Scale 1/64 scales the bounds.
    let mut c = EpochClock::new(0, 64);
    for n in 0..100_000 {
        c.reclaim_begins(n * 1000);
    }
    assert_eq!(c.interval(), AUTO_MIN / 64);
}

/// The definition, told the slow way: heat as written, and when.
#[derive(Clone, Copy, Debug)]
struct Written {
    heat: u8,
    epoch: u64,
    offline: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Insert,
    Pick { d: i8, scanned: bool, protect: bool },
    Keep,
    Return,
    Offline(usize),
    Remove(usize),
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        2 => Just(Op::Insert),
        8 => (-2i8..=12, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(d, scanned, protect)| Op::Pick { d, scanned, protect }),
        2 => Just(Op::Keep),
        2 => Just(Op::Return),
        1 => (0usize..20).prop_map(Op::Offline),
        1 => (0usize..20).prop_map(Op::Remove),
        3 => (0u64..3_000_000_000).prop_map(Op::Wait),
        1 => (0u64..40_000_000_000).prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 1..200)
}

proptest! {
    /// At every moment the wheel's heat is that of the definition, each memcg is in exactly one
    /// place (`check`), and what is picked is as cold as anything that could be.
    #[test]
    fn wheel_equals_its_definition(ops in ops()) {
        let mut wheel = DecayWheel::new(HeatConfig::default(), 0);
        let mut model: Vec<Option<Written>> = vec![None];
        let mut kept: Vec<MemcgId> = Vec::new();
        // Those that stand aside are not among the candidates.
        let mut aside: Vec<MemcgId> = Vec::new();
        let mut now = 0u64;
        let heat = |w: Written, now: u64| {
            u64::from(w.heat).saturating_sub(now / S - w.epoch) as u8
        };
        for op in ops {
            match op {
                Op::Insert => {
                    let id = MemcgId(model.len() as u32);
                    wheel.insert(id, now, 0);
                    model.push(Some(Written { heat: 0, epoch: now / S, offline: false }));
                }
                Op::Pick { d, scanned, protect } => {
                    let mut call = wheel.begin(now, 12, 0);
                    if let Some(id) = wheel.pick(&mut call, now, HeatLevel::Hot) {
                        prop_assert!(!kept.contains(&id));
                        aside.retain(|&a| a != id);
                        let w = model[id.idx()].unwrap();
                        // The coldest of those on the wheel.
                        for (i, other) in model.iter().enumerate() {
                            let o = MemcgId(i as u32);
                            let Some(other) = *other else { continue };
                            if !kept.contains(&o) && !aside.contains(&o) {
                                prop_assert!(heat(w, now) <= heat(other, now));
                            }
                        }
                        if protect {
                            wheel.protect(id);
                            aside.push(id);
                        } else if !scanned {
                            wheel.visited(&call, id, now, &visit(0, 0), 0);
                            aside.push(id);
                        } else {
                            wheel.put(id, now, d);
                            let h = (heat(w, now) as i8 + d).clamp(0, 12) as u8;
                            let h = if w.offline { 0 } else { h };
                            model[id.idx()] = Some(Written { heat: h, epoch: now / S, ..w });
                        }
                    }
                }
                Op::Keep => {
                    let mut call = wheel.begin(now, 12, 0);
                    if let Some(id) = wheel.pick(&mut call, now, HeatLevel::Hot) {
                        aside.retain(|&a| a != id);
                        kept.push(id);
                    }
                }
                Op::Return => {
                    if let Some(id) = kept.pop() {
                        wheel.put(id, now, 1);
                        let w = model[id.idx()].unwrap();
                        let h = if w.offline { 0 } else { (heat(w, now) + 1).min(12) };
                        model[id.idx()] = Some(Written { heat: h, epoch: now / S, ..w });
                    }
                }
                Op::Offline(i) => {
                    if let Some(Some(w)) = model.get_mut(i) {
                        let id = MemcgId(i as u32);
                        wheel.offline(id);
                        *w = Written { heat: 0, epoch: now / S, offline: true };
                        if !kept.contains(&id) {
                            aside.retain(|&a| a != id);
                        }
                    }
                }
                Op::Remove(i) => {
                    let id = MemcgId(i as u32);
                    if i < model.len() && model[i].is_some() && !kept.contains(&id) {
                        wheel.remove(id);
                        model[i] = None;
                        aside.retain(|&a| a != id);
                    }
                }
                Op::Wait(t) => now += t,
            }
            wheel.check();
            for (i, w) in model.iter().enumerate() {
                prop_assert_eq!(wheel.contains(MemcgId(i as u32)), w.is_some());
                if let Some(w) = *w {
                    let id = MemcgId(i as u32);
                    prop_assert_eq!(wheel.heat_at(id, now), heat(w, now), "memcg {}", i);
                }
            }
        }
    }

    /// Nobody starves: a memcg that is never picked is cold within the greatest heat's number of
    /// intervals, and then the next but those that were cold before.
    #[test]
    fn wheel_never_picked_memcg_becomes_cold(heat in 0i8..=12, wait in 12u64..100) {
        let mut wheel = wheel_of(2, HeatConfig::default());
        let (_, id) = pick(&mut wheel, 0);
        wheel.put(id.unwrap(), 0, heat);
        prop_assert_eq!(wheel.heat_at(A, wait * S), 0);
        let mut call = wheel.begin(wait * S, 12, 0);
        let mut cold: Vec<_> = std::iter::from_fn(|| {
            wheel.pick(&mut call, wait * S, HeatLevel::Cold)
        }).collect();
        cold.sort();
        prop_assert_eq!(cold, vec![A, B]);
    }

    /// As posted: heat stays within its bounds, a look cools by one at most and only after more than
    /// an interval, and a visit moves it by what the table says, one of decay aside.
    #[test]
    fn posted_heat_moves_by_the_table(
        visits in prop::collection::vec((0u64..3_000_000_000, 0u64..64, 0u64..64, 0i64..64), 1..100),
    ) {
        let cfg = HeatConfig::default();
        let mut posted = PostedHeat::new(0);
        let (mut now, mut refaults, mut last_decay) = (0u64, 0i64, 0u64);
        for (wait, scanned, reclaimed, new) in visits {
            now += wait;
            let before = posted.heat();
            let due = u8::from(now - last_decay > S);
            if due > 0 {
                last_decay = now;
            }
            posted.level(now, &cfg);
            prop_assert_eq!(posted.heat(), before.saturating_sub(due));
            let before = posted.heat() as i8;
            let reclaimed = reclaimed.min(scanned);
            refaults += new;
            posted.record(now, &cfg, &visit(scanned, reclaimed), refaults);
            let moved = posted.heat() as i8 - before;
            prop_assert!(posted.heat() <= 12);
            match () {
                () if scanned == 0 => prop_assert!(posted.heat() >= 11),
                () if 4 * reclaimed >= scanned => {
                    prop_assert!((-2..=i8::from(new as u64 > reclaimed)).contains(&moved));
                }
                () => prop_assert!((0..=2).contains(&moved)),
            }
        }
    }
}
