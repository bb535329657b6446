//! Every reclaim ends, whatever the engine holds and the host answers.

use crate::config::{Config, Scale};
use crate::counters::Counter;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, MemcgId, NodeId};
use crate::memcg::{ChargeFlags, ChargeStep, ChargeTask, CounterKind, TaskMemcg};
use crate::presets::PRESETS;
use crate::reclaim::{ReclaimKind, ReclaimTask, ScanControl, Work};
use crate::switches::MemcgHeat;
use crate::testing::{Host, Spec, Undecided, WriteAs};
use crate::zone::{Zone, ZoneClass};
use proptest::prelude::*;

/// A folio, its place in the tree and how the world answers about it.
type Seed = (u8, u8, u32);

fn spec(kind: u8, bits: u32) -> Spec {
    let spec = match kind % 5 {
        0 => Spec::file(),
        1 => Spec::mapped(1 + bits % 3),
        2 => Spec::anon(),
        3 => Spec::lazyfree(),
        _ => Spec::file().dirty(),
    };
    let spec = match bits >> 2 & 7 {
        0 => spec.with(Flags::ACTIVE),
        1 => spec.with(Flags::REFERENCED),
        2 => spec.with(Flags::WORKINGSET),
        3 => spec.with(Flags::MLOCKED),
        _ => spec,
    };
    spec.zone((bits >> 5 & 1) as u8)
        .order(if bits >> 6 & 15 == 0 { 2 } else { 0 })
}

fn script(h: &mut Host, id: FolioId, bits: u32) {
    let s = h.script(id);
    s.accessed = bits >> 10 & 1;
    s.locked = bits >> 11 & 31 == 0;
    s.unknown = bits >> 16 & 7 == 0;
    s.exec = bits >> 19 & 1 == 0;
    s.pte_dirty = bits >> 20 & 3 == 0;
    s.keeps_mapping = bits >> 22 & 7 == 0;
    s.write = [
        WriteAs::InFlight,
        WriteAs::Finished,
        WriteAs::Activate,
        WriteAs::Failed,
    ][(bits >> 25 & 3) as usize];
    if bits >> 27 & 7 == 0 {
        h.eng.folio_get(id, 1); // in use for good
    }
}

/// What can be found in a task's way.
#[derive(Clone, Debug)]
struct World {
    /// Preset, and in which order memcgs are visited.
    preset: (usize, usize),
    shift: u8,
    v2: bool,
    swap: bool,
    free: u64,
    boost: u64,
    low: u64,
    offline: bool,
    folios: Vec<Seed>,
}

const HEATS: [MemcgHeat; 3] = [MemcgHeat::Off, MemcgHeat::Posted, MemcgHeat::Wheel];

fn world() -> impl Strategy<Value = World> {
    (
        (
            (0..PRESETS.len(), 0..HEATS.len()),
            prop_oneof![Just(0u8), Just(6), Just(12)],
            any::<bool>(),
            any::<bool>(),
        ),
        (
            0u64..300,
            prop_oneof![Just(0u64), 0u64..50],
            0u64..400,
            any::<bool>(),
        ),
        prop::collection::vec((any::<u8>(), 0u8..3, any::<u32>()), 0..400),
    )
        .prop_map(
            |((preset, shift, v2, swap), (free, boost, low, offline), folios)| World {
                preset,
                shift,
                v2,
                swap,
                free,
                boost,
                low,
                offline,
                folios,
            },
        )
}

/// The host of a world; its memcg is the parent of two others.
fn host(w: &World) -> Host {
    let cfg = Config {
        nr_zones: 2,
        cgroup_v2: w.v2,
        scale: Scale {
            shift: w.shift,
            ..Scale::default()
        },
        ..Config::default()
    };
    let mut sw = crate::presets::preset(PRESETS[w.preset.0].names[0]).unwrap();
    sw.memcg_heat = HEATS[w.preset.1];
    let mut h = Host::with(sw, cfg);
    if !w.swap {
        h.eng.set_swap(0, 0);
    }
    let p = h.memcg;
    let children = [
        p,
        h.eng.memcg_create(p).unwrap(),
        h.eng.memcg_create(p).unwrap(),
    ];
    let classes = [ZoneClass::Normal, ZoneClass::Movable];
    let zones = classes.map(|class| {
        let mut z = Zone::new(NodeId(0), class, 1000);
        (z.free, z.boost, z.min, z.low, z.high) = (w.free, w.boost, 100, 150, 200);
        z
    });
    h.eng.zones.set(zones.into());
    for &(kind, at, bits) in &w.folios {
        h.memcg = children[at as usize];
        h.lruvec = h.eng.lruvec_id(h.memcg, NodeId(0));
        let id = h.alloc(spec(kind, bits));
        script(&mut h, id, bits);
        h.queue(id, bits >> 30 & 1 == 0);
    }
    h.memcg = p;
    h.lruvec = h.eng.lruvec_id(p, NodeId(0));
    h.eng.memcgs.set_low(children[1], w.low).unwrap();
    h.eng.memcgs.set_min(children[2], w.low / 4).unwrap();
    if w.offline {
        h.eng.memcg_offline(children[2]).unwrap();
    }
    h
}

/// Steps a task to its end; returns the steps. `fold`: statistics are folded every so many steps.
fn steps(h: &mut Host, task: &mut ReclaimTask, fold: u64) -> u64 {
    let mut open = Undecided::default();
    for n in 0..5_000_000 {
        let work = task.step(&mut h.eng);
        open.follow(&h.eng, task, work);
        if work == Work::Done {
            return n;
        }
        if n % fold == 0 {
            h.eng.memcgs.fold();
        }
        if let Some(answer) = h.serve(work, task.freed(), task.pieces()) {
            task.answer(answer);
        }
    }
    panic!("the task does not end");
}

/// Steps that a call may take: each folio a few times in each of the rounds, plus what every round
/// and every list costs.
fn bound(folios: usize, rounds: u64) -> u64 {
    rounds * (12 * folios as u64 + 200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_task_ends(w in world(), which in 0u8..5, nr in 1u64..2000, fold in 1u64..500) {
        let mut h = host(&w);
        let p = h.memcg;
        let mut request = ScanControl::new(nr, [Some(p), None, Some(MemcgId::ROOT)][which as usize % 3]);
        request.fs = nr % 3 != 0;
        request.io = nr % 5 != 0;
        request.reclaim_idx = (nr % 7 != 0).into();
        let mut task = match which {
            0..=2 => ReclaimTask::try_to_free(request, 0, NodeId(0)),
            3 => {
                request.kind = ReclaimKind::Proactive;
                request.swappiness = Some((nr % 201) as u16);
                ReclaimTask::try_to_free(request, 0, NodeId(0))
            }
            _ => ReclaimTask::kswapd(&mut h.eng, NodeId(0), (nr % 3) as u8, 1, 0),
        };
        let n = steps(&mut h, &mut task, fold);
        let out = task.outcome();
        // A budget that is never reduced is the fault of a preset: it ends, but not soon.
        if !h.eng.switches().mut_no_decrement {
            prop_assert!(n <= bound(w.folios.len(), 65), "{n} steps, {out:?}");
        }
        prop_assert!(out.passes <= 5 && out.rounds <= 65, "{out:?}");
        prop_assert_eq!(out.reclaimed, h.seen.freed_pages());
        h.eng.lru_add_drain_all();
        h.eng.check();
        prop_assert_eq!(LruType::ALL.map(|t| h.eng.nodes[0].isolated(t)), [0, 0]);
    }

    #[test]
    fn oom_comes_after_exactly_18_fruitless_calls(w in world()) {
        let mut h = host(&w);
        // Every folio is in use: nothing can be freed, whatever is answered.
        for id in h.folios() {
            h.eng.folio_get(id, 1);
        }
        let p = h.memcg;
        let usage = h.eng.memcgs[p].memory().usage();
        h.eng.memcgs.set_max(p, CounterKind::Memory, usage).unwrap();
        let mut charge = ChargeTask::new(p, 1, ChargeFlags::USER);
        let mut calls = 0;
        loop {
            match charge.step(&mut h.eng.memcgs, 0, &mut TaskMemcg::default()) {
                ChargeStep::Reclaim { over, nr } => {
                    prop_assert_eq!(over, p);
                    let mut task = ReclaimTask::limit(p, nr, 0, NodeId(0));
                    steps(&mut h, &mut task, 1000);
                    prop_assert_eq!(task.outcome().reclaimed, 0);
                    prop_assert!(task.outcome().rounds >= 26);
                    charge.reclaim_done(0);
                    calls += 1;
                }
                ChargeStep::Oom { .. } => break,
                step => prop_assert!(false, "{step:?} after {calls} calls"),
            }
        }
        prop_assert_eq!(calls, 18);
        prop_assert_eq!(h.count(Counter::EventsMax), 18);
        h.eng.lru_add_drain_all();
        h.eng.check();
    }
}
