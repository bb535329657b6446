//! Advice against replays, and against what is known of a trace.

use super::*;
use crate::runner::ReplayPlan;
use crate::traces::{load, Op, OpKind, TraceOptions};
use std::path::Path;

fn sqlite() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/sqlite.pageops.zst");
    load(path, None, &TraceOptions::default()).unwrap()
}

fn plan(variants: &[&str], memory: &[Size]) -> AdvicePlan {
    let variants = Variant::parse_all(variants, &[]).unwrap();
    AdvicePlan {
        variants,
        memory: memory.to_vec(),
        today: Today::Pages,
        replays: ReplayPlan::new(Vec::new(), Size::Percent(100.0)),
    }
}

fn ask(trace: &Trace, plan: &AdvicePlan) -> Advice {
    advise(trace, plan, |_| Progress::silent()).unwrap()
}

/// `rounds` times so many pages in a circle.
fn circle(pages: u32, rounds: u32) -> Trace {
    let op = |page| Op {
        kind: OpKind::Pread,
        object: 0,
        task: 0,
        page,
    };
    Trace::from_ops((0..rounds).flat_map(|_| (0..pages).map(op)).collect())
}

#[test]
fn figures_are_those_of_a_replay_under_the_same_limit() {
    let trace = sqlite();
    let plan = plan(&["v73", "classic"], &[Size::Percent(50.0)]);
    let advice = ask(&trace, &plan);
    let replays = ReplayPlan {
        bounds: true,
        ..ReplayPlan::new(plan.variants.clone(), Size::Pages(advice.levels[1].pages))
    };
    let table = &replay_all(&trace, &replays, |_| Progress::silent()).unwrap()[0];
    assert_eq!(advice.levels[1].pages, 2213 / 2);
    for case in &advice.levels[1].cases {
        let cost = case.cost.unwrap();
        let mean = |name: &str| table.result.variants[&case.variant][name].mean.as_f64();
        assert_eq!(cost.reads, mean("misses"));
        assert_eq!(
            (cost.swapped_in, cost.swapped_out),
            (mean("pswpin"), mean("pswpout"))
        );
        assert_eq!(cost.time_ns, mean("time_ns"));
        let (least, most) = case.reads_nearby.unwrap();
        assert!(least <= cost.reads && cost.reads <= most && least < most);
        assert!(case.reads_today.unwrap().clear, "{case:?}");
    }
    let opt = table.result.bounds["opt_misses"].as_f64();
    assert_eq!(advice.levels[1].opt_reads, Some(opt));
}

/// Memory of the kernel pushes pages out where all would fit, and that is said; not where it does not count.
#[test]
fn swapping_with_room_for_all_is_explained() {
    let trace = sqlite();
    for kernel_memory in [true, false] {
        let mut plan = plan(&["v73"], &[]);
        plan.replays.settings.kernel_memory = kernel_memory;
        let advice = ask(&trace, &plan);
        let out = advice.levels[0].cases[0].cost.unwrap().swapped_out;
        let said = sentences(&advice)[0].contains("page tables");
        assert_eq!((out > 0.0, said), (kernel_memory, kernel_memory));
    }
}

/// A program that goes round and round over a little too much reads everything again, today as with less memory. That is
/// said, with a memory that has room.
#[test]
fn a_today_that_is_too_small_is_not_called_no_difference_alone() {
    let trace = circle(5000, 6);
    let mut plan = plan(&["v618"], &[Size::Percent(50.0)]);
    let said = &sentences(&ask(&trace, &plan))[0];
    assert!(
        said.contains("page tables") && said.contains("a memory that is too small: v618 reads"),
        "{said}"
    );
    let given = said
        .split("--today ")
        .nth(1)
        .expect("a size")
        .trim_end_matches('.');
    plan.today = Today::parse(given).unwrap();
    let room = ask(&trace, &plan);
    assert_eq!(room.levels[0].cases[0].cost.unwrap().reads, 5000.0);
    assert!(room.levels[1].cases[0].reads_today.unwrap().clear);
    assert!(!sentences(&room)[0].contains("too small"));
}

/// Two names of one policy differ by nothing; two policies that are known to differ do.
#[test]
fn noise_is_called_noise_and_a_difference_is_not() {
    let trace = sqlite();
    let same = ask(&trace, &plan(&["v73"], &[Size::Percent(30.0)]).same());
    for level in &same.levels {
        assert!(!level.cases[1].reads_first.unwrap().clear, "{level:?}");
    }
    let said = sentences(&same).join(" ");
    assert!(
        said.contains("no difference in reads above noise"),
        "{said}"
    );
    let apart = ask(&trace, &plan(&["v73", "fifo"], &[Size::Percent(30.0)]));
    let against = apart.levels[1].cases[1].reads_first.unwrap();
    assert!(
        against.clear && against.ratio.unwrap() > 1.05,
        "{against:?}"
    );
}

impl AdvicePlan {
    /// The first variant twice.
    fn same(mut self) -> Self {
        self.variants.truncate(1);
        let mut twin = self.variants[0].clone();
        twin.label = "twin".into();
        self.variants.push(twin);
        self
    }
}

/// Reads of a circle are known: all of it each round, if it does not fit; once, if it does. The knee is at its size.
#[test]
fn a_circle_is_as_it_must_be() {
    let trace = circle(1000, 5);
    let mut plan = plan(&["v73"], &[Size::Percent(80.0)]);
    plan.replays.settings.kernel_memory = false;
    let advice = ask(&trace, &plan);
    assert_eq!(advice.levels[0].cases[0].cost.unwrap().reads, 1000.0);
    assert_eq!(advice.levels[1].cases[0].cost.unwrap().reads, 5000.0);
    assert_eq!(advice.knee_pages, Some(1000));
    let cost = advice.levels[1].cases[0].cost.unwrap();
    assert!(
        0.0 < cost.wait_ns && cost.wait_ns < cost.time_ns,
        "{cost:?}"
    );
    let said = sentences(&advice);
    assert!(
        said[1].contains("20 % less memory") && said[1].contains("4,000 more reads"),
        "{said:?}"
    );
    assert!(said.iter().all(|s| !s.contains("page tables")), "{said:?}");
    let tables = paying(&trace, 1000, 800);
    assert_eq!(tables[1].1, [("file 0".to_owned(), 1000, 5000)]);
}

/// Pages are written in a circle. Under the limits of the cgroup the writer is stopped for nearly all of the time, which
/// is said, with the option that leaves the stops out.
#[test]
fn time_that_is_stops_of_writers_is_no_cost_of_memory() {
    let mut trace = circle(4000, 3);
    let whole = |op: &Op| Op {
        kind: OpKind::WholeWrite,
        ..*op
    };
    trace = Trace::from_ops(trace.ops().iter().map(whole).collect());
    let mut plan = plan(&["v73"], &[Size::Percent(50.0)]);
    for of_host in [false, true] {
        plan.replays.settings.dirty.of_host = of_host;
        let advice = ask(&trace, &plan);
        let cost = advice.levels[1].cases[0].cost.unwrap();
        let said = sentences(&advice).join("\n");
        let table = advice_table(&advice).text(coldset_report::Style::Plain);
        assert!(cost.stopped_ns <= cost.wait_ns, "{cost:?}");
        assert_eq!(cost.is_stops(), !of_host, "{cost:?}");
        assert_eq!(said.contains("--dirty-limits host"), !of_host, "{said}");
        assert_eq!(said.contains("cannot be compared"), !of_host, "{said}");
        assert_eq!(table.contains("stops"), !of_host, "{table}");
    }
}

#[test]
fn others_read_so_many_times_as_many_as_the_first() {
    let mut plan = plan(&["lirs", "lru"], &[Size::Percent(80.0)]);
    plan.replays.settings.kernel_memory = false;
    let said = sentences(&ask(&circle(1000, 20), &plan)).join("\n");
    assert!(said.contains(" times as many as lirs"), "{said}");
    assert!(!said.contains("than lirs"), "{said}");
}

#[test]
fn the_knee_is_where_a_curve_bends() {
    let bend = [(10, 0.9), (20, 0.5), (30, 0.1), (40, 0.08), (100, 0.0)];
    assert_eq!(knee(&bend), Some(30));
    assert_eq!(knee(&[(10, 0.5), (20, 0.5)]), None);
    assert_eq!(knee(&[]), None);
}

#[test]
fn shares_are_of_todays_memory_and_small_sizes_are_refused() {
    let trace = circle(1000, 2);
    let mut plan = plan(&["v73"], &[Size::Percent(50.0), Size::Pages(700)]);
    assert_eq!(plan.sizes(&trace).unwrap(), [1000, 500, 700]);
    plan.today = Today::Size(Size::Pages(800));
    assert_eq!(plan.sizes(&trace).unwrap(), [800, 400, 700]);
    plan.memory = vec![Size::Percent(10.0)];
    let error = plan.sizes(&trace).unwrap_err().to_string();
    assert!(
        error.contains("memory '10%'") && error.contains("80 pages") && error.contains("133 pages"),
        "{error}"
    );
}
