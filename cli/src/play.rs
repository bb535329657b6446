//! `coldset play`: a trace on the kernel that runs here.

use crate::args::{LimitArg, PlayArgs, PlayWorkerArgs};
use crate::compared::Compared;
use crate::error::{Failure, Verdict};
use crate::lab::{load_trace, style};
use crate::output::{command_line, file_name, json_with, Outputs};
use crate::played;
use crate::predict::{beside, Beside, Look, Setting, MONITOR, PAGE};
use crate::settings;
use crate::tasks;
use crate::this::{interrupted, this_command};
use coldset_lab::pages;
use coldset_lab::report::{human, CounterSummary, Number};
use coldset_lab::runner::{
    limit, render_counters, replay_values, replays_json, show_pages, Low, Progress, Size,
};
use coldset_lab::traces::{Op, OpKind, Trace};
use coldset_play::cgroup::Limits;
use coldset_play::disturbed::Disturbance;
use coldset_play::lists::{Generation, Lists};
use coldset_play::worker::{self, Orders, Timed};
use coldset_play::zones::Zone;
use coldset_play::{Plan, PlayError, Played, Stage};
use indexmap::IndexMap;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Points on the way at which counters are read, unless the user says how many.
const POINTS: u32 = 10;

fn points(args: &PlayArgs) -> u32 {
    args.points.number.unwrap_or(POINTS)
}

/// What `--memory` limits.
fn of_memory(limit: LimitArg, pages: u64) -> Limits {
    let bytes = Some(pages * PAGE);
    match limit {
        LimitArg::Cgroup => Limits {
            max: bytes,
            ..Limits::default()
        },
        LimitArg::Machine => Limits {
            free: bytes,
            ..Limits::default()
        },
    }
}

fn plan(args: &PlayArgs, trace: &Trace, memory: Size) -> Result<Plan, Failure> {
    let bytes = |name: &'static str, text: &Option<String>| -> Result<Option<u64>, Failure> {
        let size = text.as_deref().map(|t| Size::parse(name, t)).transpose()?;
        Ok(size.map(|s| s.pages_of(trace.unique_pages) * PAGE))
    };
    let low = args.tasks.protection()?;
    let limit = limit(memory, trace)?;
    let of_task = |l: &Low| (l.task, l.size.pages_of(limit) * PAGE);
    let this = this_command(&["play", "kernel-guest", "lab"])?;
    let this = this
        .into_iter()
        .map(|word| word.to_string_lossy().into_owned());
    Ok(Plan {
        dir: args.dir.clone(),
        limits: Limits {
            high: bytes("high", &args.high)?,
            low: low.whole.map(|s| s.pages_of(trace.unique_pages) * PAGE),
            swap_max: bytes("swap-max", &args.swap_max)?,
            ..of_memory(args.limit, limit)
        },
        cgroup: args.cgroup.clone(),
        exact_access: args.exact_access,
        points: points(args) as usize,
        worker: this.chain(["play-worker".into(), "--".into()]).collect(),
        order: args.tasks.order,
        tasks: args.tasks.tasks(),
        pace: args.tasks.pace(),
        scans: args.scans.scans,
        low: low.tasks.iter().map(of_task).collect(),
    })
}

/// Mean and spread of the runs.
fn summary(runs: &[Played]) -> IndexMap<String, CounterSummary> {
    // What a run has not counted has no mean.
    let of = |name: &String| {
        let value = |r: &Played| r.counters.get(name).copied().map(Number::Int);
        CounterSummary::of(runs.iter().map(value).collect::<Option<_>>()?)
    };
    let names = runs.first().into_iter().flat_map(|r| r.counters.keys());
    names
        .filter_map(|name| Some((name.clone(), of(name)?)))
        .collect()
}

/// The runs as a column of a table: its name and counters.
fn column(runs: &[Played]) -> (String, IndexMap<String, CounterSummary>) {
    let mut counters = summary(runs);
    let done = |r: &Played| r.tasks.iter().map(|t| t.accesses).sum();
    add_accesses(&mut counters, runs.iter().map(done).collect());
    (runs[0].machine.label(), counters)
}

/// Adds what was done, by run, and what share of it had to be read.
fn add_accesses(counters: &mut IndexMap<String, CounterSummary>, done: Vec<u64>) {
    let misses = counters.get("misses").map(|misses| misses.per_seed.clone());
    let of = |(misses, &done): (Number, &u64)| Number::Real(misses.as_f64() / done.max(1) as f64);
    let ratios =
        misses.and_then(|m| CounterSummary::of(m.into_iter().zip(&done).map(of).collect()));
    let done = CounterSummary::of(done.into_iter().map(Number::Int).collect());
    counters.extend(done.map(|done| ("accesses".to_owned(), done)));
    counters.extend(ratios.map(|ratios| ("miss_ratio".to_owned(), ratios)));
}

/// What a prediction of these runs is to have, and what it cannot.
fn setting(args: &PlayArgs, m: &Measured) -> Result<Setting, Failure> {
    let machine = &m.runs[0].machine;
    let setting = Setting::of_machine(m.memory, machine, m.limits.swap_max);
    let setting = setting.with_cpus(machine.size.0 as u64);
    let mut setting = setting.with_tasks(&args.tasks)?;
    let anon = m.trace.objects.iter().any(|o| o.is_anon);
    let mapped = |op: &Op| matches!(op.kind, OpKind::MappedRead | OpKind::MappedWrite);
    if m.limits.high.is_some() {
        setting.leave_out("memory.high");
    }
    if machine.monitored {
        setting.leave_out(MONITOR);
    }
    if anon && machine.huge_pages.as_deref() == Some("always") {
        setting.leave_out("huge pages of anonymous memory");
    }
    match &machine.device {
        // With advice the prediction reads ahead as well.
        Some((_, kib))
            if *kib > 0
                && !machine.quiet_faults
                && !m.trace.has_advice()
                && m.trace.ops().iter().any(mapped) =>
        {
            setting.leave_out(format!("{kib} KiB read round a fault"));
        }
        _ => {}
    }
    Ok(setting)
}

fn word(what: Timed) -> &'static str {
    let kind = match what {
        Timed::Access(kind) => kind,
        Timed::Fsync => return "fsync",
    };
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

fn text(args: &PlayArgs, m: &Measured, beside: &Beside, played: &Value, way: &Compared) -> String {
    let (trace, runs, table) = (&m.trace, &m.runs, &beside.table);
    let run = &runs[0];
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{}: {} accesses; memory {}; {} run{}\n{}\n",
        args.trace.display(),
        human(trace.ops().len() as f64),
        show_pages(table.memory.pages),
        runs.len(),
        if runs.len() == 1 { "" } else { "s" },
        run.machine,
    );
    let style = style(args.form.markdown);
    out.push_str(&render_counters(table, style));
    out.push_str(&beside.text());
    for line in way.lines() {
        let _ = writeln!(out, "{line}");
    }
    out.push('\n');
    out.push_str(&played::latencies(played).text(style));
    let own = run.own_bytes.div_ceil(1024);
    let _ = writeln!(
        out,
        "\nthe workers themselves: {own} KiB in the cgroup before the first access"
    );
    if run.machine_wide.iter().any(|n| n == "pgactivate") {
        out.push_str(
            "cgroup v1: activated and deactivated, and refaults activated and restored, are of the whole machine; \
             scanned, stolen and refilled pages are not counted\n",
        );
    }
    for remark in played::remarks(played) {
        let _ = writeln!(out, "{remark}");
    }
    out
}

fn lists(l: &Lists) -> Value {
    let generation =
        |g: &Generation| json!({"seq": g.seq, "age_ms": g.age_ms, "anon": g.anon, "file": g.file});
    let generations: Vec<Value> = l.generations.iter().map(generation).collect();
    json!({"memcg": l.memcg, "node": l.node, "generations": generations})
}

fn zone(z: &Zone) -> Value {
    json!({
        "node": z.node, "name": z.name, "managed": z.managed, "free": z.free, "kept": z.kept,
        "compressed": z.compressed, "listed": z.listed, "reserve": z.reserve, "min": z.min, "low": z.low, "high": z.high,
        "batch": z.batch,
    })
}

fn disturbance(d: &Disturbance) -> Value {
    json!({"name": d.name, "count": d.count, "text": d.to_string()})
}

/// The runs as JSON.
fn played_json(runs: &[Played]) -> Value {
    let point = |p: &coldset_play::Point| {
        let counters: BTreeMap<_, _> = p.counters.iter().collect();
        let mut point = json!({
            "access": p.access,
            "time_ms": p.time.as_millis() as u64,
            "counters": counters,
        });
        if let Some(asleep) = p.asleep {
            point["asleep_us"] = (asleep.as_micros() as u64).into();
        }
        point["zones"] = p.zones.iter().map(zone).collect();
        if let Some(phase) = p.phase {
            point["phase"] = phase.into();
        }
        if !p.scans.is_empty() {
            point["scans"] = p.scans.clone().into();
        }
        if let Some(all) = &p.lists {
            point["lru_gen"] = all.iter().map(lists).collect();
        }
        point
    };
    let run = |r: &Played| {
        let latencies = r.latencies.latencies().map(|(what, l)| {
            let figures = json!({"count": l.count, "sum_ns": l.sum, "p50_ns": l.p50, "p99_ns": l.p99,
                "p999_ns": l.p999, "max_ns": l.max});
            (word(what).to_owned(), figures)
        });
        json!({
            "points": r.points.iter().map(point).collect::<Vec<_>>(),
            "latencies": latencies.collect::<serde_json::Map<_, _>>(),
            "limit_pages": r.limit.map(|bytes| bytes / PAGE),
            "own_bytes": r.own_bytes,
            "zones": r.zones.iter().map(zone).collect::<Vec<_>>(),
            "first_fold_us": r.first_fold.map(|t| t.as_micros() as u64),
            "tasks": tasks::json_of(r),
            "killed_after": r.killed.as_ref().map(|k| k.after),
            "killed_task": r.killed.as_ref().and_then(|k| k.task),
            "killed_tasks": r.killed.as_ref().map(|k| &k.tasks),
            "disturbed": r.disturbed.iter().map(disturbance).collect::<Vec<_>>(),
        })
    };
    json!({
        "machine": runs[0].machine.to_string(),
        "quiet_faults": runs[0].machine.quiet_faults,
        "machine_wide": runs[0].machine_wide,
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    })
}

/// A table of what was played, with the rest.
pub fn json_of(
    trace: &Path,
    settings: Value,
    beside: &Beside,
    played: Value,
    way: &Compared,
) -> String {
    let mut more = vec![
        ("trace", file_name(trace).into()),
        ("memory_pages", beside.table.memory.pages.into()),
        ("settings", settings),
        ("played", played),
        ("prediction", beside.json()),
    ];
    more.extend(way.fields());
    json_with(&replays_json(std::slice::from_ref(&beside.table)), more)
}

/// A trace that has been played.
struct Measured {
    trace: Trace,
    memory: Size,
    limits: Limits,
    runs: Vec<Played>,
}

/// All memory of the machine but little is locked, so the machine has to be a guest of ours, whose first process this is.
fn check_limit(args: &PlayArgs) -> Result<(), Failure> {
    match args.limit {
        LimitArg::Machine if std::process::id() != 1 => Err(Failure::Usage(
            "--limit machine: everything on this machine would run short of memory; coldset kernel play has a machine of \
             its own"
                .into(),
        )),
        _ => Ok(()),
    }
}

fn measure(args: &PlayArgs) -> Result<Measured, Failure> {
    check_limit(args)?;
    let memory = Size::parse("memory", &args.memory)?;
    let (trace, _) = load_trace(&args.trace, &args.reading, args.tasks.reading())?;
    let plan = plan(args, &trace, memory)?;
    let stop = interrupted();
    let stage = Stage::new(&trace, &plan)?;
    let all = u64::from(points(args)) * u64::from(args.runs.count());
    let bar = Progress::new(all, "points");
    let mut runs = Vec::new();
    for pages in args.runs.limits(memory.pages_of(trace.unique_pages)) {
        let Limits { max, free, .. } = of_memory(args.limit, pages);
        let limits = Limits {
            max,
            free,
            ..plan.limits
        };
        runs.push(stage.play(limits, || bar.step(), || !stop())?);
    }
    bar.finish();
    drop(stage);
    Ok(Measured {
        trace,
        memory,
        limits: plan.limits,
        runs,
    })
}

/// Plays the trace; the JSON form of what was measured, and what a prediction of it is to have.
///
/// # Errors
/// As [`run`].
pub fn measured(args: &PlayArgs) -> Result<(String, Setting), Failure> {
    let m = measure(args)?;
    let setting = setting(args, &m)?;
    let measured = IndexMap::from([column(&m.runs)]);
    let beside = beside(&m.trace, &[], setting.clone(), measured, Look::default())?;
    let json = json_of(
        &args.trace,
        settings::of_play(args),
        &beside,
        played_json(&m.runs),
        &Compared::default(),
    );
    Ok((json, setting))
}

fn page(args: &PlayArgs, m: &Measured, mut beside: Beside, played: &Value, json: String) -> String {
    let (label, _) = column(&m.runs);
    beside
        .table
        .series
        .insert(label.clone(), played::series(played));
    let mut remarks = beside.lines();
    remarks.extend(played::remarks(played));
    let page = pages::Played {
        title: format!("{} on this kernel", file_name(&args.trace)),
        lead: heading(&m.trace, m.runs.len()),
        machines: vec![(label, m.runs[0].machine.to_string())],
        table: &beside.table,
        variants: &beside.variants,
        latencies: vec![played::latencies(played)],
        remarks,
        json,
        command: command_line(),
    };
    page.page()
}

fn heading(trace: &Trace, runs: usize) -> String {
    let s = if runs == 1 { "" } else { "s" };
    format!(
        "{} accesses, {runs} run{s}.",
        human(trace.ops().len() as f64)
    )
}

/// Runs the command.
///
/// # Errors
/// A trace that cannot be read, values that do not fit, a cgroup or files that cannot be made.
pub fn run(args: &PlayArgs) -> Result<Verdict, Failure> {
    let wanted = args.rows.wanted(&args.page, &args.form);
    let outputs = Outputs::open(wanted.beside_trace(&args.trace))?;
    let m = measure(args)?;
    let measured = IndexMap::from([column(&m.runs)]);
    let look = Look {
        points: args.points.samples(outputs.has_report()),
        scans: args.scans.scans,
    };
    let played = played_json(&m.runs);
    let setting = setting(args, &m)?.on_machine_of(&played);
    let setting = setting.at_times_of(&played, args.runs);
    let beside = beside(&m.trace, &args.variants, setting, measured, look)?;
    let (label, _) = column(&m.runs);
    let machines = [(label.as_str(), &played)];
    let way = Compared::of(&machines, &beside.table, args.points, args.scans.scans);
    let json = || {
        let settings = settings::of_play(args);
        json_of(&args.trace, settings, &beside, played.clone(), &way)
    };
    outputs.write(
        || text(args, &m, &beside, &played, &way),
        json,
        || replay_values(std::slice::from_ref(&beside.table)),
        || page(args, &m, beside.clone(), &played, json()),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of which one was cut short.
    #[test]
    fn every_run_has_its_own_accesses_and_ratio() {
        let misses = CounterSummary::of(vec![Number::Int(30), Number::Int(40)]);
        let mut counters = IndexMap::from([("misses".to_owned(), misses.unwrap())]);
        add_accesses(&mut counters, vec![100, 50]);
        let values = |name: &str| {
            let each = counters[name].per_seed.iter();
            each.map(|n| n.as_f64()).collect::<Vec<_>>()
        };
        assert_eq!(values("accesses"), [100.0, 50.0]);
        assert_eq!(values("miss_ratio"), [0.3, 0.8]);
        assert!((counters["miss_ratio"].mean.as_f64() - 0.55).abs() < 1e-9);
        let mut none = IndexMap::new();
        add_accesses(&mut none, vec![7]);
        assert!(none.contains_key("accesses") && !none.contains_key("miss_ratio"));
    }
}
