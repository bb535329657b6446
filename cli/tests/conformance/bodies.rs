//! What must hold in every arm.

use super::arm::{Arm, Limits, Plan, RegionPlan};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

pub const POLICIES: [&str; 3] = ["classic", "base", "v5"];

#[derive(Clone, Debug)]
enum Op {
    Load(usize, u32),
    Store(usize, u32),
    /// A run of pages: first, number, is it stored to.
    Run(usize, u32, u32, bool),
    Sync(usize),
    Set(usize, Limits),
    Reclaim(usize, u64),
}

/// Anonymous memory and a file in two groups, a file and anonymous memory in none.
fn plan(policy: &'static str) -> Plan {
    let region = |group, anon, pages| RegionPlan { group, anon, pages };
    Plan {
        policy,
        budget: 256,
        groups: vec![Limits::default(); 2],
        regions: vec![
            region(Some(0), true, 300),
            region(Some(1), false, 300),
            region(None, true, 200),
            region(None, false, 200),
        ],
    }
}

fn op(plan: &Plan) -> impl Strategy<Value = Op> {
    let sizes: Vec<u32> = plan.regions.iter().map(|r| r.pages).collect();
    let page = (0..sizes.len(), any::<u32>());
    let page = page.prop_map(move |(r, p)| (r, p % sizes[r], sizes[r]));
    let limits = (0u64..100, prop::option::of(60u64..250));
    let limits = limits.prop_map(|(low, max)| Limits { low, max });
    prop_oneof![
        4 => page.clone().prop_map(|(r, p, _)| Op::Load(r, p)),
        4 => page.clone().prop_map(|(r, p, _)| Op::Store(r, p)),
        4 => (page, 1u32..200, any::<bool>())
            .prop_map(|((r, p, size), n, w)| Op::Run(r, p, n.min(size - p), w)),
        1 => prop_oneof![Just(1usize), Just(3)].prop_map(Op::Sync),
        1 => (0usize..2, limits).prop_map(|(g, l)| Op::Set(g, l)),
        1 => (0usize..2, 1u64..100).prop_map(|(g, n)| Op::Reclaim(g, n)),
    ]
}

/// The same contents as flat memory after any sequence of operations; never more than the budget,
/// never more than a group's limit; counters and lists agree; what was synced is durable.
pub fn any_sequence<A: Arm>() {
    for policy in POLICIES {
        let plan = plan(policy);
        // The seed is fixed: a failure names the shortest sequence, and comes again.
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
        let config = Config {
            cases: 12,
            failure_persistence: None,
            max_shrink_iters: 300,
            ..Config::default()
        };
        let ops = prop::collection::vec(op(&plan), 1..120);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let run = |ops: Vec<Op>| {
            if let Some(mut arm) = A::new(&plan) {
                flat(&mut arm, &plan, &ops);
            }
            Ok(())
        };
        if let Err(e) = runner.run(&ops, run) {
            panic!("{policy}, seed [7; 32]: {e}");
        }
    }
}

fn flat<A: Arm>(arm: &mut A, plan: &Plan, ops: &[Op]) {
    let flat: Vec<u32> = plan.regions.iter().map(|r| r.pages).collect();
    let mut flat: Vec<Vec<u32>> = flat.iter().map(|&n| vec![0; n as usize]).collect();
    let mut max: Vec<Option<u64>> = vec![None; plan.groups.len()];
    let mut one = |arm: &mut A, r: usize, p: u32, write: bool, max: &[Option<u64>]| {
        if write {
            arm.store(r, p);
            flat[r][p as usize] += 1;
        }
        let found = arm.load(r, p);
        assert_eq!(found, flat[r][p as usize], "page {p} of region {r}");
        assert!(arm.resident() <= plan.budget);
        for (g, max) in max.iter().enumerate() {
            let usage = arm.usage(g);
            assert!(max.is_none_or(|m| usage <= m), "{usage} of {max:?}");
        }
        flat[r][p as usize]
    };
    for op in ops {
        match *op {
            Op::Load(r, p) => _ = one(arm, r, p, false, &max),
            Op::Store(r, p) => _ = one(arm, r, p, true, &max),
            Op::Run(r, p, n, w) => (p..p + n).for_each(|p| _ = one(arm, r, p, w, &max)),
            Op::Sync(r) => {
                assert!(arm.sync(r));
                for p in 0..plan.regions[r].pages {
                    // Reading brings pages in: ask the disk first.
                    let durable = arm.durable(r, p);
                    assert_eq!(durable, one(arm, r, p, false, &max), "page {p} of file {r}");
                    if p % 40 == 39 {
                        break;
                    }
                }
            }
            Op::Set(g, l) => {
                arm.set(g, l);
                max[g] = l.max;
            }
            Op::Reclaim(g, n) => {
                let before = arm.usage(g);
                arm.reclaim(g, n);
                assert!(arm.usage(g) <= before);
            }
        }
        arm.check();
    }
    for (r, region) in plan.regions.iter().enumerate() {
        (0..region.pages).for_each(|p| _ = one(arm, r, p, false, &max));
    }
    arm.check();
}

/// A group below its protection keeps its pages while another one streams through all there is.
pub fn protected<A: Arm>() {
    for policy in POLICIES {
        let mut plan = plan(policy);
        plan.groups[0].low = 150;
        plan.regions[1].pages = 3000;
        let Some(mut arm) = A::new(&plan) else { return };
        (0..120).for_each(|p| arm.store(0, p));
        for round in 0..3 {
            for p in 0..3000 {
                assert_eq!(arm.load(1, p), 0);
            }
            assert_eq!(arm.usage(0), 120, "{policy}, round {round}");
        }
        let before = arm.misses();
        (0..120).for_each(|p| assert_eq!(arm.load(0, p), 1));
        assert_eq!(arm.misses(), before, "{policy}: nothing had left");
        // Without it they go.
        arm.set(0, Limits::default());
        for _ in 0..3 {
            (0..3000).for_each(|p| _ = arm.load(1, p));
        }
        assert!(arm.usage(0) < 120, "{policy}: {} pages stay", arm.usage(0));
        arm.check();
    }
}

/// A limit holds from the moment it is set, for what is there and for what comes.
pub fn limited<A: Arm>() {
    for policy in POLICIES {
        let plan = plan(policy);
        let Some(mut arm) = A::new(&plan) else { return };
        (0..200).for_each(|p| arm.store(0, p));
        // A charge takes a few pages more than it needs, for the next ones.
        assert!((200..264).contains(&arm.usage(0)), "{policy}");
        let max = Some(80);
        arm.set(0, Limits { low: 0, max });
        assert!(arm.usage(0) <= 80, "{policy}: {}", arm.usage(0));
        for p in 0..300 {
            arm.load(0, p);
            assert!(arm.usage(0) <= 80, "{policy}: {}", arm.usage(0));
        }
        // The other group has all the rest.
        (0..170).for_each(|p| _ = arm.load(1, p));
        assert!(arm.usage(1) >= 165, "{policy}: {}", arm.usage(1));
        (0..200).for_each(|p| assert_eq!(arm.load(0, p), 1, "{policy}"));
        arm.check();
    }
}

/// A failed write keeps the pages; the next sync tells it, once; the one after that has all of it.
pub fn write_errors<A: Arm>() {
    for policy in POLICIES {
        let plan = plan(policy);
        let Some(mut arm) = A::new(&plan) else { return };
        (0..20).for_each(|p| arm.store(3, p));
        assert!(arm.sync(3), "{policy}");
        arm.fail_writes(true);
        (0..20).for_each(|p| arm.store(3, p));
        // Whoever meets it first, the error is kept.
        arm.let_flushers_try();
        arm.fail_writes(false);
        assert!(!arm.sync(3), "{policy}: the error of the flusher is told");
        assert!(arm.sync(3), "{policy}: and told once");
        for p in 0..20 {
            assert_eq!((arm.load(3, p), arm.durable(3, p)), (2, 2), "{policy}");
        }
        // And met by the sync itself.
        arm.store(3, 7);
        arm.fail_writes(true);
        assert!(!arm.sync(3), "{policy}");
        arm.fail_writes(false);
        assert_eq!(arm.load(3, 7), 3);
        // A flusher may have failed meanwhile, which is told once.
        assert!(arm.sync(3) || arm.sync(3), "{policy}");
        assert_eq!(arm.durable(3, 7), 3, "{policy}");
        arm.check();
    }
}
