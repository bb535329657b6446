use super::super::{Size, SwapSpec};
use super::*;
use crate::replay::{Clock, Limit};
use crate::traces::{Op, OpKind, Order, Trace};

/// `pages` pages in a circle, `rounds` times, of a file or of anonymous memory.
fn circle(kind: OpKind, pages: u32, rounds: u32) -> Trace {
    let op = |page| Op {
        kind,
        object: 0,
        task: 0,
        page,
    };
    Trace::from_ops((0..rounds).flat_map(|_| (0..pages).map(op)).collect())
}

fn plan(variants: &[&str], memory: &[Size]) -> ReplayPlan {
    let variants = Variant::parse_all(variants, &[]).unwrap();
    let mut plan = ReplayPlan::new(variants, Size::Percent(50.0));
    plan.memory = memory.to_vec();
    plan.settings.kernel_memory = false;
    plan.bounds = true;
    plan
}

fn tables(trace: &Trace, plan: &ReplayPlan) -> Result<Vec<ReplayTable>, RunnerError> {
    replay_all(trace, plan, |_| Progress::silent())
}

#[test]
fn no_policy_beats_opt_and_fifo_is_no_better_than_lru_on_a_circle() {
    let trace = circle(OpKind::Pread, 1000, 5);
    let p = plan(&["fifo", "classic", "base", "v5"], &[Size::Percent(50.0)]);
    let table = &tables(&trace, &p).unwrap()[0];
    let bound = |n: &str| table.result.bounds[n].as_f64();
    assert_eq!(bound("capacity_pages"), 500.0);
    assert_eq!(bound("lru_misses"), 5000.0);
    assert!(bound("opt_misses") < 5000.0);
    for counters in table.result.variants.values() {
        assert!(counters["misses"].mean.as_f64() >= bound("opt_misses"));
    }
    assert_eq!(
        table.result.variants["fifo"]["misses"].mean.as_f64(),
        5000.0
    );
    assert_eq!(table.swap, SwapConfig::None);
}

#[test]
fn default_limits_leave_out_what_is_too_small() {
    let trace = circle(OpKind::Pread, 1000, 2);
    let limits = plan(&["base"], &[]).limits(&trace).unwrap();
    assert_eq!(
        limits.iter().map(|m| m.pages).collect::<Vec<_>>(),
        [250, 500]
    );
    let error = plan(&["base"], &[Size::Percent(10.0)])
        .limits(&trace)
        .unwrap_err();
    assert!(
        error.to_string().contains(
            "'10%' cannot be used: write 128 pages (512 KiB) or more; it is 100 pages, and"
        ),
        "{error}"
    );
    let tiny = circle(OpKind::Pread, 100, 2);
    let error = plan(&["base"], &[]).limits(&tiny).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--memory is needed: 50%, the largest that is tried without it, is 50 pages, and 128 pages (512 KiB) are \
         the least"
    );
}

#[test]
fn anonymous_traces_get_swap_of_their_size() {
    let trace = circle(OpKind::AnonWrite, 600, 3);
    let p = plan(&["base"], &[Size::Pages(300)]);
    let table = &tables(&trace, &p).unwrap()[0];
    assert_eq!(
        table.swap,
        SwapConfig::Zram {
            pages: 600,
            algorithm: "lz4".into()
        }
    );
    assert!(table.result.variants["base"]["pswpin"].mean.as_f64() > 0.0);
    assert_eq!(table.result.bounds["evictable_accesses"], Number::Int(1800));

    let none = ReplayPlan {
        swap: Some(SwapSpec::None),
        ..p
    };
    let killed = tables(&trace, &none).unwrap();
    let counters = &killed[0].result.variants["base"];
    // It has what the limit holds, less the batch that an allocation asks for.
    let after = killed_after(counters).unwrap();
    assert!((200..=300).contains(&after), "{after}");
    let error = check_survivors(trace.about(), &killed)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("out of memory") && error.contains("--swap"),
        "{error}"
    );
    let with_swap = ReplayPlan { swap: None, ..none };
    assert!(check_survivors(trace.about(), &tables(&trace, &with_swap).unwrap()).is_ok());
}

#[test]
fn a_task_that_another_has_killed_ends_the_replay() {
    let anon = |task: u8, page| Op {
        kind: OpKind::AnonWrite,
        object: task,
        task: task.into(),
        page,
    };
    // The second task takes the last page, and the first, which is to come again, has most.
    let first = (0..600).map(|page| anon(0, page));
    let second = (0..500).map(|page| anon(1, page));
    let trace = Trace::from_ops(first.chain(second).chain([anon(0, 0)]).collect());
    let machine = Limit::Machine { zones: Vec::new() };
    for (limit, order) in [
        (machine, Order::Strict),
        (Limit::Cgroup, Order::Within(100)),
    ] {
        let mut p = plan(&["v618"], &[Size::Pages(1000)]);
        (p.settings.limit, p.settings.order) = (limit, order);
        p.swap = Some(SwapSpec::None);
        let table = &tables(&trace, &p).unwrap()[0];
        let after = killed_after(&table.result.variants["v618"]).unwrap();
        assert!((600..1100).contains(&after), "{after}");
        let victim = &table.result.variants["v618"]["task0.events_oom_kill"];
        assert_eq!(victim.mean.as_f64(), 1.0);
    }
}

#[test]
fn without_swap_anonymous_pages_take_frames_from_the_bounds() {
    let trace = circle(OpKind::Pread, 400, 3);
    let anon = |page| Op {
        kind: OpKind::AnonWrite,
        object: 1,
        task: 0,
        page,
    };
    let then = (0..100).chain(0..100).map(anon);
    let trace = Trace::from_ops(trace.ops().iter().copied().chain(then).collect());
    let mut p = plan(&["v5"], &[Size::Pages(300)]);
    p.swap = Some(SwapSpec::None);
    p.settings.own_pages = 3;
    let table = &tables(&trace, &p).unwrap()[0];
    assert_eq!(table.result.bounds["capacity_pages"], Number::Int(197));
    assert_eq!(table.result.bounds["evictable_accesses"], Number::Int(1200));
}

#[test]
fn phases_are_listed() {
    let trace = circle(OpKind::Pread, 600, 3);
    let p = ReplayPlan {
        fold_phases: 4,
        ..plan(&["classic"], &[Size::Pages(300)])
    };
    let table = &tables(&trace, &p).unwrap()[0];
    assert_eq!(table.result.variants["classic"]["pgscan"].per_seed.len(), 4);
    let limits = p.limits(&trace).unwrap();
    let late = |plan: &ReplayPlan, number, phase| {
        let o = plan.options(&limits, number, &SwapConfig::None, &p.variants[0], phase);
        (o.fold_phase, o.settings.clock)
    };
    assert_eq!(late(&p, 0, 0), (500_000_000, None));
}

#[test]
fn limits_have_phases_and_clocks_of_their_own() {
    let trace = circle(OpKind::Pread, 600, 3);
    let clock = |text: &str| Clock::parse(text).unwrap();
    let machine = Limit::Machine { zones: Vec::new() };
    let p = ReplayPlan {
        spread_limits: true,
        clocks: vec![clock("0:0,9:1"), clock("0:0,9:2")],
        limits_of: vec![Limit::Cgroup, machine.clone()],
        ..plan(&["v618"], &[Size::Pages(300), Size::Pages(301)])
    };
    let limits = p.limits(&trace).unwrap();
    let of = |number| {
        let o = p.options(&limits, number, &SwapConfig::None, &p.variants[0], 0);
        let on = o.settings;
        (o.memory, o.fold_phase, on.clock.unwrap(), on.limit)
    };
    assert_eq!(of(0), (300, 1_000_000_000, clock("0:0,9:1"), Limit::Cgroup));
    assert_eq!(of(1), (301, 2_000_000_000, clock("0:0,9:2"), machine));
}

#[test]
fn a_fold_that_is_known_is_not_spread() {
    let trace = circle(OpKind::Pread, 600, 3);
    let phase = |fold: &str, fold_phases| {
        let mut p = ReplayPlan {
            fold_phases,
            ..plan(&["classic"], &[Size::Pages(300)])
        };
        p.settings.clock = Some(Clock::parse(&format!("0:0,9:1{fold}")).unwrap());
        let limits = p.limits(&trace).unwrap();
        let o = p.options(&limits, 0, &SwapConfig::None, &p.variants[0], 0);
        o.fold_phase
    };
    assert_eq!(phase("", 1), 2_000_000_000);
    assert_eq!(phase(",fold:0.7", 1), 700_000_000);
    // Timers are late.
    assert_eq!(phase(",fold:2.016", 1), 2_000_000_000);
    assert_eq!(phase(",fold:0.7", 4), 500_000_000, "asked for");
}

/// Where nothing but dirty pages can go, some have to be written before others can.
#[test]
fn every_list_policy_lives_with_a_program_that_only_writes() {
    let mut x = 7u64;
    let mut page = || {
        x = x
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (x >> 33) as u32 % 900
    };
    let op = |page| Op {
        kind: OpKind::WholeWrite,
        object: 0,
        task: 0,
        page,
    };
    let trace = Trace::from_ops((0..4000).map(|_| op(page())).collect());
    let names = [
        "fifo",
        "clock",
        "lru",
        "arc",
        "2q",
        "slru",
        "lirs",
        "clock-pro",
        "s3fifo",
        "w-tinylfu",
        "lhd",
        "sieve",
    ];
    let tables = tables(&trace, &plan(&names, &[Size::Pages(300), Size::Pages(450)])).unwrap();
    for (table, name) in tables
        .iter()
        .flat_map(|t| names.iter().map(move |n| (t, n)))
    {
        let after = killed_after(&table.result.variants[*name]);
        assert_eq!(after, None, "{name}, {} pages", table.memory.pages);
    }
}
