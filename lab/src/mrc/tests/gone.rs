//! Memory that is given back, and files that are cut: what is gone takes no frame under any policy.

use super::*;
use crate::traces::{Event, Step, StepKind};

/// Anonymous memory of 300 pages that is filled, read and unmapped, 20 times.
fn rounds() -> Trace {
    let op = |kind, page| Op {
        kind,
        object: 0,
        task: 0,
        page,
    };
    let (mut ops, mut events) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        ops.extend((0..300).map(|page| op(OpKind::AnonWrite, page)));
        ops.extend((0..300).map(|page| op(OpKind::AnonRead, page)));
        events.push(unmapped(ops.len()));
    }
    Trace::from_ops(ops).with_events(events)
}

fn unmapped(at: usize) -> Event {
    let step = Step {
        kind: StepKind::Unmap,
        object: 0,
        task: 0,
        value: 0,
    };
    let at = at as u64;
    Event { at, step }
}

fn absences(policies: &[&str], sizes: &[Size]) -> MrcPlan {
    MrcPlan {
        count: Count::Absences,
        ..plan(policies, sizes, None)
    }
}

#[test]
fn memory_for_all_that_is_there_at_a_time_is_enough() {
    let trace = rounds();
    let sizes = [300, 400].map(Size::Pages);
    let policies = [&lists()[..], &["lru-stack", "opt"]].concat();
    for curve in run(&trace, &plan(&policies, &sizes, None)).curves {
        let misses: Vec<u64> = curve.points.iter().map(|p| p.misses).collect();
        assert_eq!(misses, [0, 0], "{}", curve.policy);
    }
    for curve in run(&trace, &absences(&policies, &sizes)).curves {
        let misses: Vec<u64> = curve.points.iter().map(|p| p.misses).collect();
        assert_eq!(misses, [6000, 6000], "{}", curve.policy);
    }
    let sampled = run(&trace, &plan(&policies, &sizes, Some("10%")));
    for curve in sampled.curves {
        let ratios: Vec<f64> = curve.points.iter().map(|p| p.miss_ratio).collect();
        assert_eq!(ratios, [0.0, 0.0], "{}", curve.policy);
    }
}

#[test]
fn a_replay_shows_the_same_beside_its_policies() {
    let trace = rounds();
    let names: Vec<String> = lists().into_iter().map(str::to_owned).collect();
    let replays = ReplayPlan {
        memory: vec![Size::Pages(300)],
        bounds: true,
        ..ReplayPlan::new(Variant::parse_all(&names, &[]).unwrap(), Size::Pages(0))
    };
    let tables = replay_all(&trace, &replays, |_| Progress::silent()).unwrap();
    for table in tables {
        assert!(table.alone.values().all(|&misses| misses == 0));
        assert_eq!(table.alone.len(), names.len());
        for bound in ["lru_misses", "opt_misses"] {
            assert_eq!(table.result.bounds[bound].as_f64(), 0.0, "{bound}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn lists_forget_what_is_gone(
        deeds in prop::collection::vec(prop_oneof![1 => Just(None), 9 => (0u32..40).prop_map(Some)], 1..300),
        frames in 1u32..30,
    ) {
        let (mut ops, mut events) = (Vec::new(), Vec::new());
        for deed in deeds {
            match deed {
                None => events.push(unmapped(ops.len())),
                Some(page) => ops.push(Op { kind: OpKind::AnonWrite, object: 0, task: 0, page }),
            }
        }
        let trace = Trace::from_ops(ops).with_events(events);
        for count in [Count::Reads, Count::Absences] {
            let sequence = Sequence::of_trace(&trace, count, true).unwrap();
            let best = opt(&sequence, frames).misses;
            let room = sequence.room();
            for name in lists() {
                let misses = |frames: u32| cache::misses(&switches(name), &sequence, frames.into());
                prop_assert!(misses(frames) >= best, "{}", name);
                prop_assert_eq!(misses(room), u64::from(sequence.compulsory()), "{}", name);
                if name == "lru" {
                    prop_assert_eq!(misses(frames), lru(&sequence, frames).misses);
                }
            }
        }
    }
}
