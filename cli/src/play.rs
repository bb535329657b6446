//! `coldset play`: a trace on the kernel that runs here.

use crate::args::{PlayArgs, PlayWorkerArgs};
use crate::error::{Failure, Verdict};
use crate::lab::{load_trace, style};
use crate::output::{json_with, Outputs, Wanted};
use crate::tasks;
use crate::this::{interrupted, this_command};
use coldset_lab::report::{human, Align, CounterSummary, Number, ReplayResult, Table};
use coldset_lab::runner::{
    render_counters, replay_all, replay_values, replays_json, show_pages, Low, Memory, Progress,
    ReplayPlan, ReplayTable, Size, Variant,
};
use coldset_lab::traces::{OpKind, PageIds, Trace};
use coldset_machine::SwapConfig;
use coldset_play::cgroup::Limits;
use coldset_play::worker::{self, Orders};
use coldset_play::{Plan, PlayError, Played, Stage};
use indexmap::IndexMap;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Points on the way at which counters are read.
const POINTS: usize = 10;
/// Bytes of a page.
const PAGE: u64 = 4096;

fn plan(args: &PlayArgs, trace: &Trace, memory: Size) -> Result<Plan, Failure> {
    let bytes = |name: &'static str, text: &Option<String>| -> Result<Option<u64>, Failure> {
        let size = text.as_deref().map(|t| Size::parse(name, t)).transpose()?;
        Ok(size.map(|s| s.pages_of(trace.unique_pages) * PAGE))
    };
    let low = args.tasks.protection()?;
    let limit = memory.pages_of(trace.unique_pages);
    let of_task = |l: &Low| (l.task, l.size.pages_of(limit) * PAGE);
    let this = this_command(&["play", "kernel-guest"])?;
    let this = this
        .into_iter()
        .map(|word| word.to_string_lossy().into_owned());
    Ok(Plan {
        dir: args.dir.clone(),
        limits: Limits {
            max: Some(limit * PAGE),
            high: bytes("high", &args.high)?,
            low: low.whole.map(|s| s.pages_of(trace.unique_pages) * PAGE),
            swap_max: bytes("swap-max", &args.swap_max)?,
        },
        cgroup: args.cgroup.clone(),
        exact_access: args.exact_access,
        points: POINTS,
        worker: this.chain(["play-worker".into(), "--".into()]).collect(),
        order: args.tasks.order(),
        tasks: args.tasks.tasks(),
        low: low.tasks.iter().map(of_task).collect(),
    })
}

/// Mean and spread of the runs.
fn summary(runs: &[Played]) -> IndexMap<String, CounterSummary> {
    let names = runs.iter().flat_map(|r| r.counters.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    let of = |name: &String| {
        let value = |r: &Played| Number::Int(r.counters.get(name).copied().unwrap_or(0));
        CounterSummary::of(runs.iter().map(value).collect())
    };
    names
        .into_iter()
        .filter_map(|name| Some((name.clone(), of(name)?)))
        .collect()
}

/// The runs as a column of a table: its name and counters.
fn column(trace: &Trace, runs: &[Played]) -> (String, IndexMap<String, CounterSummary>) {
    let mut counters = summary(runs);
    let whole = |value| CounterSummary {
        mean: value,
        ci95: None,
        per_seed: vec![value; runs.len()],
    };
    let accesses = trace.ops.len() as u64;
    counters.insert("accesses".into(), whole(Number::Int(accesses)));
    if let Some(misses) = counters.get("misses") {
        let ratio = misses.mean.as_f64() / accesses as f64;
        counters.insert("miss_ratio".into(), whole(Number::Real(ratio)));
    }
    (runs[0].machine.label(), counters)
}

/// What was measured, column by column, and what the lab predicts.
///
/// # Errors
/// A variant that does not exist, a limit that is too small for the lab.
pub fn beside(
    trace: &Trace,
    variants: &[String],
    memory: Size,
    measured: IndexMap<String, IndexMap<String, CounterSummary>>,
) -> Result<ReplayTable, Failure> {
    let variants = Variant::parse_all(variants, &[])?;
    let mut table = match variants.is_empty() {
        true => ReplayTable {
            memory: Memory {
                size: memory,
                pages: memory.pages_of(trace.unique_pages),
            },
            swap: SwapConfig::None,
            result: ReplayResult::default(),
            series: IndexMap::new(),
            curves: Arc::default(),
        },
        false => {
            let plan = ReplayPlan::new(variants, memory);
            let mut tables = replay_all(trace, &plan, |_| Progress::silent())?;
            tables.remove(0)
        }
    };
    let predicted = std::mem::take(&mut table.result).variants;
    let mut all = measured;
    all.extend(predicted);
    table.result = ReplayResult {
        variants: all,
        bounds: IndexMap::new(),
    };
    Ok(table)
}

/// How long accesses took, by kind.
fn latencies(run: &Played) -> Table {
    let right = |name| (name, Align::Right);
    let names = ["accesses", "mean, us", "p50", "p99", "p99.9", "longest"];
    let mut columns = vec![("", Align::Left)];
    columns.extend(names.map(right));
    let mut table = Table::new(columns);
    let us = |ns: u64| format!("{:.2}", ns as f64 / 1000.0);
    for (kind, l) in OpKind::ALL.iter().zip(&run.latencies.latencies) {
        let Some(mean) = l.sum.checked_div(l.count) else {
            continue;
        };
        let row = [word(*kind).into(), human(l.count as f64), us(mean)];
        let row = row.into_iter().chain([l.p50, l.p99, l.p999, l.max].map(us));
        table.row(row.collect::<Vec<String>>());
    }
    table
}

fn word(kind: OpKind) -> &'static str {
    match kind {
        OpKind::MappedRead => "mapped read",
        OpKind::Pread => "pread",
        OpKind::Pwrite => "pwrite of a byte",
        OpKind::AnonWrite => "anonymous store",
        OpKind::AnonRead => "anonymous load",
        OpKind::WholeWrite => "pwrite of a page",
        OpKind::MappedWrite => "mapped store",
    }
}

fn text(args: &PlayArgs, trace: &Trace, table: &ReplayTable, runs: &[Played]) -> String {
    let run = &runs[0];
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{}: {} accesses; memory {}; {} run{}\n{}\n",
        args.trace.display(),
        human(trace.ops.len() as f64),
        show_pages(table.memory.pages),
        runs.len(),
        if runs.len() == 1 { "" } else { "s" },
        run.machine,
    );
    let style = style(args.form.markdown);
    out.push_str(&render_counters(table, style));
    out.push('\n');
    out.push_str(&latencies(run).text(style));
    let own = run.own_bytes.div_ceil(1024);
    let _ = writeln!(
        out,
        "\nthe workers themselves: {own} KiB in the cgroup before the first access"
    );
    if run.machine_wide.iter().any(|n| n == "pgactivate") {
        out.push_str("cgroup v1: activated, deactivated and refilled are of the whole machine; scanned and stolen pages are not counted\n");
    }
    for line in (1..).zip(runs).filter_map(|(n, run)| tasks::killed(n, run)) {
        let _ = writeln!(out, "{line}");
    }
    out
}

fn json(table: &ReplayTable, runs: &[Played]) -> String {
    let point = |p: &coldset_play::Point| {
        let counters: BTreeMap<_, _> = p.counters.iter().collect();
        json!({"access": p.access, "time_ms": p.time.as_millis() as u64, "counters": counters})
    };
    let run = |r: &Played| {
        let latencies = OpKind::ALL.iter().zip(&r.latencies.latencies);
        let latencies = latencies.filter(|(_, l)| l.count > 0).map(|(kind, l)| {
            let figures = json!({"count": l.count, "sum_ns": l.sum, "p50_ns": l.p50, "p99_ns": l.p99,
                "p999_ns": l.p999, "max_ns": l.max});
            (word(*kind).to_owned(), figures)
        });
        json!({
            "points": r.points.iter().map(point).collect::<Vec<_>>(),
            "latencies": latencies.collect::<serde_json::Map<_, _>>(),
            "own_bytes": r.own_bytes,
            "tasks": tasks::json_of(r),
            "killed_after": r.killed.map(|k| k.after),
            "killed_task": r.killed.and_then(|k| k.task),
        })
    };
    let played = json!({
        "machine": runs[0].machine.to_string(),
        "quiet_faults": runs[0].machine.quiet_faults,
        "machine_wide": runs[0].machine_wide,
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    });
    json_with(&replays_json(std::slice::from_ref(table)), "played", played)
}

/// A trace that has been played.
struct Measured {
    trace: Trace,
    memory: Size,
    runs: Vec<Played>,
}

fn measure(args: &PlayArgs) -> Result<Measured, Failure> {
    let memory = Size::parse("memory", &args.memory)?;
    let (trace, _) = load_trace(&args.trace, &args.reading, PageIds::default())?;
    let plan = plan(args, &trace, memory)?;
    let stop = interrupted();
    let stage = Stage::new(&trace, &plan)?;
    let bar = Progress::new(POINTS as u64 * u64::from(args.repeat), "tenths");
    let mut runs = Vec::new();
    for _ in 0..args.repeat {
        runs.push(stage.play(|| bar.step(), || !stop())?);
    }
    bar.finish();
    drop(stage);
    Ok(Measured {
        trace,
        memory,
        runs,
    })
}

/// Plays the trace; the JSON form of what was measured.
///
/// # Errors
/// As [`run`].
pub fn measured_json(args: &PlayArgs) -> Result<String, Failure> {
    let m = measure(args)?;
    let measured = IndexMap::from([column(&m.trace, &m.runs)]);
    let table = beside(&m.trace, &[], m.memory, measured)?;
    Ok(json(&table, &m.runs))
}

/// Runs the command.
///
/// # Errors
/// A trace that cannot be read, values that do not fit, a cgroup or files that cannot be made.
pub fn run(args: &PlayArgs) -> Result<Verdict, Failure> {
    let outputs = Outputs::open(Wanted {
        json: args.form.json.as_deref(),
        csv: args.rows.csv.as_deref(),
        report: None,
    })?;
    let m = measure(args)?;
    let measured = IndexMap::from([column(&m.trace, &m.runs)]);
    let table = beside(&m.trace, &args.variants, m.memory, measured)?;
    outputs.write(
        || text(args, &m.trace, &table, &m.runs),
        || json(&table, &m.runs),
        || replay_values(std::slice::from_ref(&table)),
        String::new,
    )?;
    Ok(Verdict::Good)
}

/// `coldset play-worker`.
///
/// # Errors
/// An access that fails.
pub fn work(args: &PlayWorkerArgs) -> Result<Verdict, Failure> {
    let orders = Orders::from_arguments(&args.orders);
    let orders = orders.ok_or_else(|| Failure::Usage("play-worker is started by play".into()))?;
    // Without what standard streams put between: they take records that are not yet to be done.
    let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let ends = own(io::stdin().as_fd()).and_then(|i| Ok((i, own(io::stdout().as_fd())?)));
    let (input, output) = ends.map_err(|e| Failure::write("the worker's pipes", e))?;
    match worker::work(&orders, input, output) {
        Ok(()) => Ok(Verdict::Good),
        Err(error) => Err(PlayError::Worker(error).into()),
    }
}
