//! Nobody beats OPT: random traces of all kinds under all policies, and LRU as it is defined.

use super::{killed_after, replay_all, Progress, ReplayPlan, Size, SwapSpec, Variant};
use crate::bounds::Count;
use crate::mrc::{curves, MrcPlan};
use crate::replay::ReplaySettings;
use crate::traces::{Event, Op, OpKind, Step, StepKind, Trace};
use coldset_engine::policies::ListKind;
use coldset_machine::device::ZramAlgorithm;
use coldset_machine::ReadAhead;
use proptest::prelude::*;

const KERNELS: [&str; 6] = ["classic", "base", "v5", "v612", "v72", "v73"];
/// Every policy of the literature.
fn lists() -> Vec<&'static str> {
    ListKind::ALL.iter().map(|kind| kind.name()).collect()
}

const FILE: u8 = 0;
const ANON: u8 = 2;
/// Pages of each object.
const PAGES: u32 = 260;

/// A stretch of accesses of one task: in order from a page on, or to one place again and again.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    kind: OpKind,
    second: bool,
    task: u16,
    page: u32,
    accesses: u32,
    step: u32,
    /// The task gives its memory back afterwards.
    gives_back: Option<StepKind>,
}

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    let kind = prop::sample::select(OpKind::ALL.to_vec());
    let gives_back = prop_oneof![
        12 => Just(None),
        1 => Just(Some(StepKind::Unmap)),
        1 => Just(Some(StepKind::Exit)),
        1 => Just(Some(StepKind::Truncate)),
        1 => Just(Some(StepKind::Fsync)),
    ];
    let steps = prop::sample::select(vec![0, 1, 1, 1, 7, 91]);
    let one = (
        kind,
        any::<bool>(),
        0u16..2,
        0..PAGES,
        1u32..160,
        steps,
        gives_back,
    );
    let one = one.prop_map(
        |(kind, second, task, page, accesses, step, gives_back)| Stretch {
            kind,
            second,
            task,
            page,
            accesses,
            step,
            gives_back,
        },
    );
    prop::collection::vec(one, 8..40)
}

fn trace(stretches: &[Stretch]) -> Trace {
    let (mut ops, mut events) = (Vec::new(), Vec::new());
    for s in stretches {
        // Files are shared, and so is some anonymous memory; the rest is each task's own.
        let object = match (s.kind.is_anon(), s.second) {
            (false, second) => FILE + u8::from(second),
            (true, true) => ANON,
            (true, false) => ANON + 1 + s.task as u8,
        };
        for i in 0..s.accesses {
            ops.push(Op {
                kind: s.kind,
                object,
                task: s.task,
                page: (s.page + i * s.step) % PAGES,
            });
        }
        let at = ops.len() as u64;
        events.extend(s.gives_back.map(|kind| Event {
            at,
            step: Step {
                kind,
                object: if kind.is_of_file() { FILE } else { object },
                task: s.task,
                value: 50,
            },
        }));
    }
    // A step concerns a file only if there is one.
    let has_file = ops.iter().any(|op| op.object == FILE);
    events.retain(|e| has_file || !e.step.kind.is_of_file());
    Trace::from_ops(ops).with_events(events)
}

/// Settings that change what is read, or when.
#[derive(Clone, Debug)]
struct Settings {
    memory: u64,
    kernel_memory: bool,
    swap: Option<SwapSpec>,
    read_ahead: ReadAhead,
    large_folios: u8,
    swappiness: u16,
    fault_around: u32,
}

fn settings() -> impl Strategy<Value = Settings> {
    let device = coldset_machine::device::DeviceKind::Nvme;
    let swap = prop::sample::select(vec![
        None,
        Some(SwapSpec::None),
        Some(SwapSpec::Zram(Size::Percent(40.0), ZramAlgorithm::Zstd)),
        Some(SwapSpec::Disk(Size::Percent(100.0), device)),
    ]);
    let read_ahead = prop::sample::select(vec![
        ReadAhead::default(),
        ReadAhead::Fixed(3),
        ReadAhead::Windows { kb: 64 },
    ]);
    let large = prop::sample::select(vec![0u8, 0, 4]);
    let swappiness = prop::sample::select(vec![0u16, 60, 200]);
    let around = prop::sample::select(vec![1u32, 16]);
    let all = (
        128u64..500,
        any::<bool>(),
        swap,
        read_ahead,
        large,
        swappiness,
        around,
    );
    all.prop_map(
        |(memory, kernel_memory, swap, read_ahead, large_folios, swappiness, fault_around)| {
            Settings {
                memory,
                kernel_memory,
                swap,
                read_ahead,
                large_folios,
                swappiness,
                fault_around,
            }
        },
    )
}

fn variants(names: &[&str]) -> Vec<Variant> {
    Variant::parse_all(names, &[]).unwrap()
}

/// Cases: each is 14 replays. `make soak` and PROPTEST_CASES ask for more.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: cases.and_then(|c| c.parse().ok()).unwrap_or(96),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_policy_reads_less_than_opt(stretches in stretches(), s in settings()) {
        let trace = trace(&stretches);
        let plan = ReplayPlan {
            settings: ReplaySettings {
                kernel_memory: s.kernel_memory,
                read_ahead: s.read_ahead,
                large_folios: s.large_folios,
                swappiness: s.swappiness,
                fault_around: s.fault_around,
                ..ReplaySettings::default()
            },
            swap: s.swap.clone(),
            bounds: true,
            ..ReplayPlan::new(variants(&[&KERNELS[..], &lists()].concat()), Size::Pages(s.memory))
        };
        let tables = replay_all(&trace, &plan, |_| Progress::silent()).unwrap();
        let table = &tables[0];
        let bound = |name: &str| table.result.bounds[name].as_f64();
        prop_assert!(bound("opt_misses") <= bound("lru_misses"));
        for (name, counters) in &table.result.variants {
            // Who is killed has not done all of it.
            if killed_after(counters).is_none() {
                let misses = counters["misses"].mean.as_f64();
                prop_assert!(bound("opt_misses") <= misses, "{} reads {}, OPT {}", name, misses, bound("opt_misses"));
            }
        }
        if let Some(&misses) = table.alone.get("lru") {
            prop_assert_eq!(misses as f64, bound("lru_misses"));
        }
        for (name, &misses) in &table.alone {
            prop_assert!(bound("opt_misses") <= misses as f64, "{} alone", name);
        }
    }

    /// Curves are of the same figures: those of replays, of the list policies alone, and of the bounds.
    #[test]
    fn curves_and_replays_agree(stretches in stretches(), memory in 128u64..500, kernel_memory: bool) {
        let trace = trace(&stretches);
        let names: Vec<String> = [&KERNELS[..2], &lists(), &["opt"]].concat().iter().map(|n| (*n).to_owned()).collect();
        let plan = MrcPlan {
            policies: MrcPlan::policies(&names, None, Count::Reads).unwrap(),
            sizes: vec![Size::Pages(memory)],
            points: 1,
            sample: None,
            count: Count::Reads,
            kernel_memory,
        };
        let all = curves(&trace, &plan, |_| Progress::silent()).unwrap();
        let replays = ReplayPlan {
            settings: ReplaySettings {
                kernel_memory,
                ..ReplaySettings::default()
            },
            bounds: true,
            // In a curve anonymous pages can leave in any case.
            ..ReplayPlan::new(variants(&[&KERNELS[..2], &lists()].concat()), Size::Pages(memory))
        };
        let tables = replay_all(&trace, &replays, |_| Progress::silent()).unwrap();
        let table = &tables[0];
        for curve in &all.curves {
            let counters = table.result.variants.get(&curve.policy);
            let killed = KERNELS.contains(&curve.policy.as_str()) && killed_after(counters.unwrap()).is_some();
            let misses = match (curve.policy.as_str(), table.alone.get(&curve.policy)) {
                ("opt", _) => table.result.bounds["opt_misses"].as_f64(),
                (_, Some(&alone)) => alone as f64,
                (_, None) => counters.unwrap()["misses"].mean.as_f64(),
            };
            prop_assert_eq!(curve.points.len(), usize::from(!killed));
            if !killed {
                prop_assert_eq!(curve.points[0].misses as f64, misses, "{}", curve.policy);
            }
        }
        prop_assert_eq!(table.alone["lru"] as f64, table.result.bounds["lru_misses"].as_f64());
    }
}
