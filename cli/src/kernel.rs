//! `coldset kernel`: traces on kernels in virtual machines.

use crate::args::{play_args, DirtyLimitsArg, GuestArgs, KernelPlayArgs, LimitArg, OnOff};
use crate::compared::Compared;
use crate::error::{Failure, Verdict};
use crate::lab::{load_trace, style};
use crate::output::{command_line, file_name, print, Outputs};
use crate::play;
use crate::played;
use crate::predict::{beside, Beside, Look, Setting, MONITOR, PAGE};
use crate::scratch;
use crate::settings;
use crate::this::interrupted;
use coldset_guest::image::Image;
use coldset_guest::job::Job;
use coldset_guest::modules::{Modules, DISK_INSIDE, NEEDED, ZRAM};
use coldset_guest::packages::{Cache, Kernel};
use coldset_guest::vm::{acceleration, Machine};
use coldset_lab::experiment::DirtySettings;
use coldset_lab::pages;
use coldset_lab::report::{human, CounterSummary, Number};
use coldset_lab::runner::{
    limit, render_counters, replay_values, show_pages, Progress, RunnerError, Size,
};
use coldset_lab::traces::Trace;
use coldset_play::check_tasks;
use indexmap::IndexMap;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;

/// The kernel that runs here, in `lab validate`.
pub const HERE: &str = "here";
/// The trace in the guest.
const TRACE: &str = "/trace.pageops";
/// Most pages mapped around a fault.
const FAULT_AROUND_MAX: u64 = 512;
/// Leaves nothing to the zone of the first 16 MiB, so that all memory is in one zone, as in the lab.
const ONE_ZONE: &str = " memmap=15M$1M";
/// MiB that a guest needs beside what the trace may use.
const GUEST_MIB: u64 = 768;

/// `coldset kernel list`.
///
/// # Errors
/// No apt, no network.
pub fn list() -> Result<Verdict, Failure> {
    let mut text = String::new();
    for version in Cache::open()?.list()? {
        let _ = writeln!(text, "debian:{version}");
    }
    print(&text)?;
    Ok(Verdict::Good)
}

fn kernel(name: &str, args: &GuestArgs) -> Result<Kernel, Failure> {
    if let Some(version) = name.strip_prefix("debian:") {
        return Ok(Cache::open()?.get(version)?);
    }
    if name == HERE {
        let text = "--kernel here: that is coldset play; name debian:VERSION or a bootable file";
        return Err(Failure::Usage(text.into()));
    }
    let image = PathBuf::from(name);
    let Some(modules) = &args.modules else {
        let text = format!("--kernel {name}: a file needs --modules, its /lib/modules/VERSION; or name debian:VERSION");
        return Err(Failure::Usage(text));
    };
    if !image.is_file() {
        let text = format!("--kernel {name}: no such file; name debian:VERSION or a bootable file");
        return Err(Failure::Usage(text));
    }
    Ok(Kernel {
        name: name.to_owned(),
        image,
        modules: modules.clone(),
    })
}

/// What guests of this trace are told, and what they run on.
fn job(args: &GuestArgs, trace: &Trace) -> Result<(Job, Machine), Failure> {
    let pages = |name: &'static str, text: &str| -> Result<u64, Failure> {
        Ok(Size::parse(name, text)?.pages_of(trace.unique_pages))
    };
    let mib = |pages: u64| (pages * PAGE).div_ceil(1 << 20);
    let memory = limit(Size::parse("memory", &args.memory)?, trace)?;
    let of_files: u64 = trace
        .objects
        .iter()
        .filter(|o| !o.is_anon)
        .map(|o| u64::from(o.used))
        .sum();
    let anon = trace.objects.iter().any(|o| o.is_anon);
    let zram_mib = match args.zram.as_deref() {
        Some("none") => 0,
        Some(size) => mib(pages("zram", size)?),
        None if anon => mib(trace.unique_pages).max(1),
        None => 0,
    };
    // A quarter more for the file system's own, and its journal.
    let disk_mib = mib(of_files) * 5 / 4 + 256;
    let inside = if args.virtual_time { disk_mib } else { 0 };
    // What is wrong is said before anything is booted.
    let low = args.tasks.protection()?.tasks;
    let low: Vec<u16> = low.iter().map(|l| l.task).collect();
    check_tasks(trace, args.tasks.tasks(), args.tasks.order, &low)?;
    check_ratios(args)?;
    let fault_around = fault_around(&args.fault_around)?;
    let mut arguments = vec![
        TRACE.to_owned(),
        format!("--memory={}KiB", memory * PAGE / 1024),
        format!("--exact-access={}", args.exact_access),
        args.runs.argument(),
    ];
    if args.limit == LimitArg::Machine {
        arguments.push("--limit=machine".into());
    }
    arguments.extend(args.points.number.map(|n| format!("--points={n}")));
    arguments.extend(args.tasks.arguments());
    let job = Job {
        modules: Vec::new(),
        multi_gen: args.multi_gen.map(|on| on == OnOff::On),
        fault_around: fault_around * PAGE,
        read_ahead_kb: args.read_ahead_kb,
        file_system: args.file_system.into(),
        swappiness: args.swappiness,
        dirty_limits_of_host: args.dirty_limits == DirtyLimitsArg::Host,
        zram_mib,
        disk_inside: args.virtual_time.then_some((disk_mib, args.disk_us * 1000)),
        arguments,
    };
    // The trace is in memory once packed and once not.
    let trace_mib = (trace.ops().len() as u64 * 16) >> 20;
    let least = GUEST_MIB + mib(memory) + zram_mib + inside + trace_mib;
    let memory_mib = args.guest_memory.unwrap_or(least);
    if memory_mib < least {
        return Err(Failure::Usage(format!(
            "--guest-memory {memory_mib}: this run needs {least} MiB or more; leave it out to give the guest that"
        )));
    }
    let machine = Machine {
        cpus: args.cpus,
        memory_mib,
        nodes: args.guest_nodes,
        disk_mib,
        file_system: args.file_system.into(),
        virtual_time: args.virtual_time,
        append: append(args),
        patience: Duration::from_secs(args.timeout),
    };
    Ok((job, machine))
}

/// `--fault-around`, pages. The kernel would round to a power of two, and not say so.
fn fault_around(text: &str) -> Result<u64, Failure> {
    match Size::parse_whole("fault-around", text)? {
        Size::Pages(pages) if pages.is_power_of_two() && pages <= FAULT_AROUND_MAX => Ok(pages),
        _ => {
            let expected = "a power of two of pages, from 4KiB (none) to 2MiB";
            Err(RunnerError::value("fault-around", text, expected).into())
        }
    }
}

/// Flushers start before writers are throttled; the kernel would choose another ratio, and not say so.
fn check_ratios(args: &GuestArgs) -> Result<(), Failure> {
    match (args.dirty_background_ratio, args.dirty_ratio) {
        (Some(flush), Some(throttle)) if flush > throttle => Err(Failure::Usage(format!(
            "--dirty-background-ratio {flush} is above --dirty-ratio {throttle}: flushers start before writers are \
             throttled; write {throttle} or less"
        ))),
        _ => Ok(()),
    }
}

/// More words of the kernel's command line.
fn append(args: &GuestArgs) -> String {
    let ratios = [
        ("dirty_ratio", args.dirty_ratio),
        ("dirty_background_ratio", args.dirty_background_ratio),
    ];
    let mut words = args.append.clone();
    if args.limit == LimitArg::Machine {
        words.push_str(ONE_ZONE);
        // The lab has neither lists that grow nor kinds of blocks, whose theft would wake kswapd (`docs/rules/zones.md#boost`).
        words.push_str(
            " sysctl.vm.percpu_pagelist_high_fraction=100000 sysctl.vm.watermark_boost_factor=0",
        );
    }
    if args.monitor == OnOff::Off {
        words.push_str(" damon_stat.enabled=0");
    }
    for (name, value) in ratios {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(words, " sysctl.vm.{name}={value}");
        }
    }
    words
}

/// What a prediction of these guests is to have.
///
/// # Errors
/// A size that cannot be read.
pub fn setting(args: &GuestArgs, trace: &Trace) -> Result<Setting, Failure> {
    let (job, _) = job(args, trace)?;
    // The first page of the area says what it is.
    let zram = (job.zram_mib * ((1 << 20) / PAGE)).saturating_sub(1);
    let memory = Size::parse("memory", &args.memory)?;
    let dirty = DirtySettings {
        ratio: args.dirty_ratio,
        background_ratio: args.dirty_background_ratio,
        no_periodic: false,
        of_host: args.dirty_limits == DirtyLimitsArg::Host,
    };
    let ns = job.disk_inside.map(|(_, ns)| ns);
    let setting = Setting::of_guest(memory, zram, job.swappiness, job.fault_around);
    let setting = setting
        .with_device(dirty, ns)
        .with_read_ahead(args.read_ahead_kb)
        .with_file_system(args.file_system.into())
        .with_cpus(args.cpus.into());
    let mut setting = setting.with_tasks(&args.tasks)?;
    if args.limit == LimitArg::Machine {
        setting = setting.limited_by_machine();
    }
    if args.virtual_time {
        setting = setting.in_virtual_time();
    }
    if args.monitor == OnOff::On {
        setting.leave_out(MONITOR);
    }
    Ok(setting)
}

/// Boots a kernel with the job; what it answers.
fn boot(
    kernel: &Kernel,
    job: &Job,
    machine: &Machine,
    trace: &Path,
    go_on: impl FnMut() -> bool,
) -> Result<Value, Failure> {
    let mut wanted = NEEDED.to_vec();
    wanted.extend(job.file_system.modules());
    wanted.extend(if job.zram_mib > 0 { ZRAM } else { &[] });
    wanted.extend(if job.disk_inside.is_some() {
        DISK_INSIDE
    } else {
        &[]
    });
    let modules = Modules::of(&kernel.modules)?.load_order(&wanted)?;
    let mut job = job.clone();
    job.modules = modules.iter().map(|m| m.name.clone()).collect();
    let program = std::env::current_exe();
    let program = program.map_err(|e| Failure::Surroundings(format!("this program: {e}")))?;
    let folder = scratch::folder("a folder for the guest")?;
    let initramfs = folder.path().join("initramfs");
    let image = Image {
        program,
        modules: &modules,
        job: &job,
        files: vec![(TRACE.into(), trace.to_owned())],
    };
    image.write(&initramfs)?;
    let text = machine.boot(kernel, &initramfs, folder.path(), go_on)?;
    let answer: Value = serde_json::from_str(&text).map_err(|_| {
        let line = text.lines().next().unwrap_or("nothing").to_owned();
        Failure::Surroundings(format!("{}: the guest answered: {line}", kernel.name))
    })?;
    match answer["error"].as_str() {
        Some(error) => Err(Failure::Surroundings(format!("{}: {error}", kernel.name))),
        None => Ok(answer),
    }
}

/// The counters of the one variant that a guest has.
fn counters(answer: &Value) -> Option<(String, IndexMap<String, CounterSummary>)> {
    let (label, counters) = answer["variants"].as_object()?.iter().next()?;
    let summary = |value: &Value| {
        let number = |v: &Value| {
            let int = v.as_u64().map(Number::Int);
            int.or_else(|| v.as_f64().map(Number::Real))
        };
        let per_seed: Vec<Number> = value["per_seed"]
            .as_array()?
            .iter()
            .filter_map(number)
            .collect();
        CounterSummary::of(per_seed)
    };
    let each = counters
        .as_object()?
        .iter()
        .filter_map(|(name, v)| Some((name.clone(), summary(v)?)));
    Some((label.clone(), each.collect()))
}

/// What a kernel did.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Kernel and policy, as a table calls it.
    pub label: String,
    /// Counters: mean and spread of the runs.
    pub counters: IndexMap<String, CounterSummary>,
    /// What it ran on, points, latencies.
    pub played: Value,
}

impl Measured {
    /// What befell it, a line a run.
    pub fn remarks(&self) -> impl Iterator<Item = String> + '_ {
        let own = played::remarks(&self.played).into_iter();
        own.map(|remark| format!("{}, {remark}", self.label))
    }

    fn machine(&self) -> &str {
        self.played["machine"].as_str().unwrap_or_default()
    }
}

/// The trace in a file, as it is read again.
fn written(trace: &Trace) -> Result<NamedTempFile, Failure> {
    let file = scratch::file("a file for the trace", "")?;
    let bytes: Vec<u8> = trace.file_records().flat_map(|r| r.to_bytes()).collect();
    fs::write(file.path(), bytes).map_err(|e| Failure::write("the trace to play", e))?;
    Ok(file)
}

/// Plays the trace on the kernel that runs here, as a guest would; with what a prediction of it is to have.
///
/// # Errors
/// As `coldset play`.
pub fn here(args: &GuestArgs, trace: &Trace) -> Result<(Measured, Setting), Failure> {
    let (job, _) = job(args, trace)?;
    let file = written(trace)?;
    let words = ["coldset", "play", "--format=pageops"].map(String::from);
    let path = file.path().to_string_lossy().into_owned();
    let own = job.arguments.into_iter().filter(|word| word != TRACE);
    let words = words.into_iter().chain([path]).chain(own);
    let args = play_args(words).map_err(Failure::Usage)?;
    let (json, setting) = play::measured(&args)?;
    let answer: Value = serde_json::from_str(&json).expect("our own JSON");
    Ok((measured(HERE, &answer)?, setting))
}

fn measured(name: &str, answer: &Value) -> Result<Measured, Failure> {
    let none = || Failure::Surroundings(format!("{name}: nothing was measured"));
    let (label, counters) = counters(answer).ok_or_else(none)?;
    Ok(Measured {
        label,
        counters,
        played: answer["played"].clone(),
    })
}

/// Boots each kernel and plays the trace there; with its scans, if they are wanted.
///
/// # Errors
/// A kernel that is not to be had, no QEMU, a guest that fails.
pub fn measure(args: &GuestArgs, trace: &Trace, scans: bool) -> Result<Vec<Measured>, Failure> {
    let (mut job, machine) = job(args, trace)?;
    job.arguments.extend(scans.then(|| "--scans".to_owned()));
    let names = args.kernel.iter();
    let kernels: Vec<Kernel> = names
        .map(|name| kernel(name, args))
        .collect::<Result<_, _>>()?;
    let stop = interrupted();
    let file = written(trace)?;
    let bar = Progress::new(kernels.len() as u64, "kernels");
    let mut all = Vec::new();
    for kernel in &kernels {
        let answer = boot(kernel, &job, &machine, file.path(), || !stop())?;
        bar.step();
        all.push(measured(&kernel.name, &answer)?);
    }
    bar.finish();
    Ok(all)
}

/// `coldset kernel play`.
///
/// # Errors
/// A trace that cannot be read, and as [`measure`].
pub fn play(args: &KernelPlayArgs) -> Result<Verdict, Failure> {
    let (trace, _) = load_trace(&args.trace, &args.reading, args.guest.tasks.reading())?;
    let setting = setting(&args.guest, &trace)?;
    let wanted = args.rows.wanted(&args.page, &args.form);
    let outputs = Outputs::open(wanted.beside_trace(&args.trace))?;
    let measured = measure(&args.guest, &trace, args.scans.scans)?;
    let columns = measured
        .iter()
        .map(|m| (m.label.clone(), m.counters.clone()));
    let look = Look {
        points: args.guest.points.samples(outputs.has_report()),
        scans: args.scans.scans,
    };
    let setting = match measured.as_slice() {
        [one] => setting
            .on_kernel(&one.label)
            .on_machine_of(&one.played)
            .at_times_of(&one.played, args.guest.runs),
        // Each kernel has its own times, and a prediction is beside all of them. The machine is much the same.
        [first, ..] => setting.on_kernel(&first.label).on_machine_of(&first.played),
        [] => setting,
    };
    let beside = beside(&trace, &args.variants, setting, columns.collect(), look)?;
    let table = &beside.table;
    let heading = format!(
        "{} accesses; memory {}; guests in QEMU ({})",
        human(trace.ops().len() as f64),
        show_pages(table.memory.pages),
        acceleration(args.guest.virtual_time),
    );
    let machines = measured.iter().map(|m| (m.label.as_str(), &m.played));
    let machines: Vec<_> = machines.collect();
    let way = Compared::of(&machines, table, args.guest.points, args.scans.scans);
    let text = || {
        let mut out = format!("{}: {heading}\n", args.trace.display());
        for m in &measured {
            let _ = writeln!(out, "{}", m.machine());
        }
        out.push('\n');
        out.push_str(&render_counters(table, style(args.form.markdown)));
        out.push_str(&beside.text());
        for line in way.lines() {
            let _ = writeln!(out, "{line}");
        }
        for remark in measured.iter().flat_map(Measured::remarks) {
            let _ = writeln!(out, "{remark}");
        }
        out
    };
    let json = || {
        let played = measured.iter().map(|m| (m.label.clone(), m.played.clone()));
        let played = played.collect::<serde_json::Map<_, _>>().into();
        let settings = settings::of_guests(&args.guest);
        play::json_of(&args.trace, settings, &beside, played, &way)
    };
    outputs.write(
        text,
        json,
        || replay_values(std::slice::from_ref(table)),
        || page(args, &heading, &measured, beside.clone(), json()),
    )?;
    Ok(Verdict::Good)
}

fn page(
    args: &KernelPlayArgs,
    heading: &str,
    measured: &[Measured],
    mut beside: Beside,
    json: String,
) -> String {
    let each = measured.iter();
    let series = each
        .clone()
        .map(|m| (m.label.clone(), played::series(&m.played)));
    beside.table.series.extend(series);
    let latencies = each
        .clone()
        .map(|m| played::latencies(&m.played).caption(&m.label));
    let mut remarks = beside.lines();
    remarks.extend(each.clone().flat_map(Measured::remarks));
    let page = pages::Played {
        title: format!("{} on other kernels", file_name(&args.trace)),
        lead: format!("{heading}."),
        machines: each
            .map(|m| (m.label.clone(), m.machine().to_owned()))
            .collect(),
        table: &beside.table,
        variants: &beside.variants,
        latencies: latencies.collect(),
        remarks,
        json,
        command: command_line(),
    };
    page.page()
}

/// The first process of a guest.
pub fn inside() -> ! {
    coldset_guest::inside::run(|arguments| {
        let words = ["coldset".to_owned(), "play".to_owned()].into_iter();
        let all = words.chain(arguments.iter().cloned());
        let parsed = play_args(all);
        let played = parsed
            .map_err(Failure::Usage)
            .and_then(|args| play::measured(&args));
        // An error is an answer: the host tells it.
        Ok(match played {
            Ok((json, _)) => json,
            Err(e) => format!("{}\n", serde_json::json!({"error": e.to_string()})),
        })
    })
}
