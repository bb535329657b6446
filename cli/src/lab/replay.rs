//! `coldset lab replay`.

use super::assign;
use super::journal::Journal;
use super::reading::TraceReading;
use super::style;
use super::trace::{load_journal, load_within, page_ids, ReadAs};
use crate::args::{
    AccessArg, BoundsArg, DirtyLimitsArg, FileSystemArg, LimitArg, OnOff, PaceArg, ReplayArgs,
    ThpArg, TraceArgs,
};
use crate::error::{Failure, Verdict};
use crate::output::{command_line, file_name, json_with, Outputs};
use crate::tasks::protect;
use coldset_lab::experiment::DirtySettings;
use coldset_lab::pages;
use coldset_lab::replay::{
    Clock, FileExtents, Limit, ReplaySettings, EXTENTS_IN_INODE, LARGE_FOLIO_ORDER,
};
use coldset_lab::report::human;
use coldset_lab::runner::{
    killed_after, parse_device, parse_scale, parse_zones, render_replay, replay_all, replay_values,
    replays_json, room, show_pages, with_jobs, Progress, ReplayPlan, ReplayTable, RunnerError,
    Size, SwapSpec, Variant, SAMPLE_POINTS,
};
use coldset_lab::traces::{About, OpKind, Playable};
use coldset_machine::{ReadAhead, Thp};
use serde_json::{json, Value};
use std::path::Path;

/// Accesses of a trace that are held in memory: 1 GiB.
const HOLD: usize = 1 << 27;
/// Most pages read ahead: 64 MiB.
const READ_AHEAD_MAX: u64 = 16_384;

/// Misses from one fold to the next: at least one.
fn fold_every(text: &str) -> Result<Size, RunnerError> {
    match Size::parse("fold-every", text)? {
        Size::Pages(0) => Err(RunnerError::value(
            "fold-every",
            text,
            "1page or more, or a share of the limit",
        )),
        size => Ok(size),
    }
}

/// What the limits are limits of.
fn limit(args: &ReplayArgs) -> Result<Limit, Failure> {
    check_limit(args)?;
    let zones = args.watermarks.as_deref().map(parse_zones).transpose()?;
    match (args.limit, zones) {
        (LimitArg::Machine, zones) => Ok(Limit::Machine {
            zones: zones.unwrap_or_default(),
        }),
        (LimitArg::Cgroup, None) => Ok(Limit::Cgroup),
        (LimitArg::Cgroup, Some(_)) => Err(Failure::Usage(
            "--watermarks: a cgroup has none; add --limit machine, or leave it out".into(),
        )),
    }
}

/// Tasks of a machine that runs short of memory take its time.
fn check_limit(args: &ReplayArgs) -> Result<(), Failure> {
    let other = [
        ("--own-pages", args.own_pages > 0),
        ("--stream", args.stream),
    ];
    match other.iter().find(|(_, given)| *given) {
        Some((option, _)) if args.limit == LimitArg::Machine => Err(Failure::Usage(format!(
            "{option}: not with --limit machine, whose tasks take the time of the simulated machine; leave one out"
        ))),
        _ => Ok(()),
    }
}

fn plan(args: &ReplayArgs) -> Result<ReplayPlan, Failure> {
    let mut low = Vec::new();
    for text in &args.low {
        protect(&mut low, text)?;
    }
    let clock = args.clock.as_deref().map(Clock::parse);
    let clock = clock.transpose().map_err(RunnerError::from)?;
    let fault_around = match Size::parse_whole("fault-around", &args.fault_around)? {
        Size::Pages(pages) if pages.is_power_of_two() && pages <= 512 => pages as u32,
        _ => {
            let expected = "a power of two of pages, from 4KiB (none) to 2MiB";
            let error = RunnerError::value("fault-around", &args.fault_around, expected);
            return Err(error.into());
        }
    };
    let read_ahead = match Size::parse("read-ahead", &args.read_ahead)? {
        Size::Pages(pages) if pages <= READ_AHEAD_MAX => ReadAhead::Fixed(pages as u32),
        _ => {
            let error = RunnerError::value("read-ahead", &args.read_ahead, "0 to 64MiB");
            return Err(error.into());
        }
    };
    let read_ahead = match args.read_ahead_kb {
        None => read_ahead,
        Some(kb) => ReadAhead::Windows { kb },
    };
    Ok(ReplayPlan {
        settings: ReplaySettings {
            limit: limit(args)?,
            kernel_memory: args.kernel_memory != Some(OnOff::Off),
            own_pages: args.own_pages,
            swappiness: args.swappiness,
            fault_around,
            read_ahead,
            device: args
                .device
                .as_deref()
                .map(parse_device)
                .transpose()?
                .unwrap_or_default(),
            file_system: args.file_system.into(),
            large_folios: match args.large_folios {
                OnOff::On => LARGE_FOLIO_ORDER,
                OnOff::Off => 0,
            },
            extents: FileExtents {
                others: args.extents,
                held: args.hold_blocks == OnOff::On,
                ..FileExtents::default()
            },
            thp: match args.thp {
                ThpArg::Always => Thp::Always,
                ThpArg::Never => Thp::Never,
            },
            dirty: DirtySettings {
                ratio: args.dirty_ratio,
                background_ratio: args.dirty_background_ratio,
                no_periodic: false,
                of_host: args.dirty_limits == DirtyLimitsArg::Host,
            },
            inodes: args.inodes.into(),
            clock,
            pace: args.pace == PaceArg::Trace,
            order: args.order,
            cpus: args.cpus,
            shares_cpu: false,
            scale: parse_scale(&args.scale)?,
            costs: assign::costs(&args.cost)?,
        },
        variants: Variant::parse_all(&args.variants, &args.set)?,
        memory: args
            .memory
            .iter()
            .map(|text| Size::parse("memory", text))
            .collect::<Result<_, _>>()?,
        swap: args.swap.as_deref().map(SwapSpec::parse).transpose()?,
        fold_phases: args.fold_phases,
        spread_limits: false,
        clocks: Vec::new(),
        limits_of: Vec::new(),
        fold_every: args.fold_every.as_deref().map(fold_every).transpose()?,
        bounds: args.bounds == BoundsArg::Exact,
        low,
        max: Vec::new(),
        sample_points: 0,
        curves: false,
        scans: false,
    })
}

/// What a journal says of its pool holds unless it is said otherwise. A pager has no kernel memory.
fn as_recorded(plan: &mut ReplayPlan, args: &ReplayArgs, journal: &Journal) {
    if plan.memory.is_empty() {
        plan.memory.push(journal.memory());
    }
    plan.settings.kernel_memory = args.kernel_memory == Some(OnOff::On);
    let (low, max) = journal.limits();
    if plan.low.is_empty() {
        plan.low = low;
    }
    plan.max = max;
}

/// The read-ahead asked for, KiB.
fn kb(args: &ReplayArgs) -> u32 {
    args.read_ahead_kb.unwrap_or(0)
}

/// A recorded trace of nothing but faults contains read-ahead already; one that says what programs asked for does not.
///
/// # Errors
/// Read-ahead is asked for, and there is nothing that it could be for.
pub(super) fn check_read_ahead(path: &Path, kb: Option<u32>, trace: &About) -> Result<(), Failure> {
    if kb.unwrap_or(0) > 0 && !trace.occurs(OpKind::Pread) && !trace.has_advice() {
        return Err(Failure::Usage(format!(
            "--read-ahead-kb: {} has no reads through descriptors, and recorded faults have their read-ahead \
             behind them; leave it out",
            path.display()
        )));
    }
    Ok(())
}

/// Options that change nothing for a trace are refused: what they are for does not occur in it.
fn check_files(args: &ReplayArgs, trace: &About) -> Result<(), Failure> {
    let files = trace.objects.iter().any(|o| !o.is_anon);
    let written = || {
        use OpKind::{MappedWrite, Pwrite, WholeWrite};
        [Pwrite, WholeWrite, MappedWrite]
            .iter()
            .any(|&kind| trace.occurs(kind))
    };
    let dirty = args.dirty_ratio.or(args.dirty_background_ratio).is_some();
    let large = args.large_folios == OnOff::On;
    let anon = trace.objects.iter().any(|o| o.is_anon);
    let (option, lacks) = if args.device.is_some() && !files {
        ("--device", "no pages of files")
    } else if dirty && !written() {
        (
            "--dirty-ratio, --dirty-background-ratio",
            "no writes to files",
        )
    } else if large && kb(args) == 0 && !trace.occurs(OpKind::WholeWrite) {
        (
            "--large-folios",
            "no writes of whole pages, and nothing is read ahead (--read-ahead-kb)",
        )
    } else if args.file_system != FileSystemArg::Ext4 && !written() {
        ("--file-system", "no writes to files")
    } else if args.extents > 1 && !files {
        ("--extents", "no pages of files")
    } else if args.hold_blocks == OnOff::On && args.extents <= EXTENTS_IN_INODE {
        return Err(Failure::Usage(format!(
            "--hold-blocks: no effect on files of up to {EXTENTS_IN_INODE} extents, which have no blocks; give more with --extents, or leave it out"
        )));
    } else if args.thp == ThpArg::Always && !anon {
        ("--thp", "no anonymous memory")
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "{option}: no effect on {}, which has {lacks}; leave it out",
        args.trace.display()
    )))
}

/// The read-ahead of the page cache, in a heading.
pub(super) fn windows(kb: u32) -> String {
    match kb {
        0 => ", no read-ahead".into(),
        kb => format!(", read-ahead of {kb} KiB"),
    }
}

/// What the trace holds, and what is not as it is by default.
fn heading(trace: &About, args: &ReplayArgs, plan: &ReplayPlan) -> String {
    let read_ahead = match plan.settings.read_ahead {
        ReadAhead::Windows { kb } => windows(kb),
        ReadAhead::Fixed(0) => {
            ", no read-ahead (the trace is taken to contain it; else --read-ahead-kb)".into()
        }
        ReadAhead::Fixed(pages) => format!(", {pages} pages read ahead of each request"),
    };
    let files = trace.objects.iter().any(|o| !o.is_anon);
    let read_ahead = if files { read_ahead } else { String::new() };
    let large = match args.large_folios {
        OnOff::On => ", large folios",
        OnOff::Off => "",
    };
    let system = match args.file_system {
        FileSystemArg::Ext4 => "",
        FileSystemArg::F2fs => ", f2fs",
    };
    let extents = match (args.extents, args.hold_blocks) {
        (1, _) => String::new(),
        (n, OnOff::Off) => format!(", files of {n} extents"),
        (n, OnOff::On) => format!(", files of {n} extents whose blocks are held"),
    };
    let huge = match args.thp {
        ThpArg::Always => ", huge pages",
        ThpArg::Never => "",
    };
    let limit = match &plan.settings.limit {
        Limit::Cgroup => "",
        Limit::Machine { .. } => ", limited by the machine's free memory",
    };
    format!(
        "{} accesses, {} different, {} writes, {} task{}{system}{read_ahead}{large}{extents}{huge}{limit}",
        human(trace.accesses as f64),
        show_pages(trace.unique_pages),
        human(trace.writes as f64),
        trace.acting(),
        if trace.acting() == 1 { "" } else { "s" },
    )
}

fn text(args: &ReplayArgs, trace: &dyn Playable, heading: &str, tables: &[ReplayTable]) -> String {
    let mut out = format!("{}: {heading}\n", args.trace.display());
    for table in tables {
        out.push('\n');
        out.push_str(&render_replay(table, style(args.out.form.markdown)));
        let mut all = table.result.variants.values();
        if all.any(|counters| killed_after(counters).is_some()) {
            let remedy = room(trace.about(), &table.swap);
            out.push_str(&format!("\nso that nobody is killed: {remedy}\n"));
        }
    }
    if args.bounds == BoundsArg::Exact {
        out.push_str(match (trace.held().is_some(), args.order.is_at_once()) {
            (false, _) => "\nexact LRU and OPT take all of a trace in memory, and are left out where it is read again.\n",
            (true, true) => "\nexact LRU and OPT are those of the trace's order, and left out where tasks are at once.\n",
            (true, false) => "\nexact LRU and OPT have the whole limit: no kernel memory is deducted.\n",
        });
    }
    out
}

/// How the trace was read, of what was asked for.
fn read_as(args: &TraceArgs) -> impl Iterator<Item = (&'static str, Value)> {
    let list = |given: &[String]| match given {
        [] => Value::Null,
        some => json!(some),
    };
    let all = [
        ("format", json!(args.format)),
        ("events", list(&args.events)),
        ("columns", list(&args.columns)),
        (
            "access",
            match args.access {
                AccessArg::Read => Value::Null,
                AccessArg::Mapped => "mapped".into(),
            },
        ),
        (
            "blocks_per_page",
            match args.blocks_per_page {
                1 => Value::Null,
                n => n.into(),
            },
        ),
        (
            "one_task",
            match args.one_task {
                true => "on".into(),
                false => Value::Null,
            },
        ),
    ];
    all.into_iter().filter(|(_, value)| !value.is_null())
}

/// All that the replay is made with.
fn settings(args: &ReplayArgs, plan: &ReplayPlan, trace: &About) -> Result<Value, Failure> {
    let mut all = plan.made_with(trace, &args.set)?;
    for (name, value) in read_as(&args.reading) {
        all[name] = value;
    }
    Ok(all)
}

/// The tables, the name of the trace and the settings; of a journal, what its exact replay came to, too; of a trace that
/// may have bad lines, how it was read.
fn json(
    args: &ReplayArgs,
    settings: &Value,
    journal: Option<&Journal>,
    reading: Option<&TraceReading>,
    tables: &[ReplayTable],
) -> String {
    let more = match (journal, reading.and_then(TraceReading::json)) {
        (Some(journal), _) => ("journal", journal.json()),
        (None, Some(reading)) => ("reading", reading),
        (None, None) => ("reading", Value::Null),
    };
    let trace = ("trace", file_name(&args.trace).into());
    let settings = ("settings", settings.clone());
    json_with(&replays_json(tables), [trace, settings, more])
}

/// Runs the command.
///
/// # Errors
/// Unknown names, unusable values, a trace that cannot be read or does not fit, output that
/// cannot be written.
pub fn run(args: &ReplayArgs) -> Result<Verdict, Failure> {
    let mut plan = plan(args)?;
    let journal = load_journal(&args.trace, &args.reading)?;
    let other;
    let mut reading = None;
    let trace = match &journal {
        Some(journal) => {
            as_recorded(&mut plan, args, journal);
            &journal.trace as &dyn Playable
        }
        None => {
            let large = args.large_folios == OnOff::On || args.thp == ThpArg::Always;
            let read_as = ReadAs {
                page_ids: page_ids(args.read_ahead_kb, large),
                threads: args.order.is_at_once(),
            };
            if args.stream && !args.trace.is_file() {
                return Err(Failure::Usage(format!(
                    "--stream: {} cannot be read again; give a file, or leave it out",
                    args.trace.display()
                )));
            }
            let held = args.order.is_at_once() || args.limit == LimitArg::Machine;
            let hold = match (args.stream, held) {
                (true, _) => 0,
                (false, true) => usize::MAX,
                (false, false) => HOLD,
            };
            let (trace, how) = load_within(&args.trace, &args.reading, read_as, hold)?;
            reading = Some(how);
            other = trace;
            other.playable()
        }
    };
    let about = trace.about();
    plan = plan.of_trace(about);
    plan.limits(about)?;
    check_read_ahead(&args.trace, args.read_ahead_kb, about)?;
    check_files(args, about)?;
    let settings = settings(args, &plan, about)?;
    let outputs = Outputs::open(args.out.wanted().beside_trace(&args.trace))?;
    if outputs.has_report() {
        plan.sample_points = SAMPLE_POINTS;
    }
    let mut bar = Progress::silent();
    let begin = |steps| {
        bar = Progress::new(steps, "replays");
        bar.clone()
    };
    let done = with_jobs(args.out.threads.jobs, || replay_all(trace, &plan, begin));
    bar.finish();
    let tables = done??;
    outputs.write(
        || {
            let before = journal.as_ref().map(|j| j.text(&args.trace));
            before.unwrap_or_default() + &text(args, trace, &heading(about, args, &plan), &tables)
        },
        || json(args, &settings, journal.as_ref(), reading.as_ref(), &tables),
        || replay_values(&tables),
        || {
            let title = format!("Replay of {}", args.trace.display());
            pages::replay(
                &title,
                &(heading(about, args, &plan) + "."),
                &plan.variants,
                &tables,
                json(args, &settings, journal.as_ref(), reading.as_ref(), &tables),
                &command_line(),
            )
        },
    )?;
    Ok(Verdict::Good)
}
