//! `coldset lab export`.

use super::assign;
use super::list::pretty;
use super::sized;
use crate::args::{ExportArgs, WorkArgs};
use crate::error::{Failure, Verdict};
use crate::output::{Outputs, Target, Wanted};
use coldset_lab::experiment::{Host, RunInput};
use coldset_lab::export::export;
use coldset_lab::recording::{Part, Summary};
use coldset_lab::report::human;
use coldset_lab::runner::{
    check_asked, check_params, experiment, show_pages, show_scale, show_swap, Plan, RunnerError,
    Variant,
};
use coldset_lab::traces::{PageOpsWriter, WritePacking};
use coldset_machine::{FileSystem, ReadAhead, SwapConfig};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

/// Level of zstd: a trace is large, and written once.
const LEVEL: i32 = 9;

fn packing(path: &Path) -> WritePacking {
    match path.extension().is_some_and(|e| e == "zst") {
        true => WritePacking::Zstd(LEVEL),
        false => WritePacking::Plain,
    }
}

/// What the trace does not have, and play is to be given.
fn surroundings(host: &Host) -> String {
    let swap = match &host.swap {
        SwapConfig::None => "no swap".to_owned(),
        SwapConfig::Zram { pages, algorithm } => {
            format!("{} of zram ({algorithm})", show_pages((*pages).into()))
        }
        SwapConfig::Disk { pages, .. } => {
            format!("{} of swap on a device", show_pages((*pages).into()))
        }
    };
    format!(
        "{} CPU{}, {swap}, swappiness {}",
        host.cpus,
        if host.cpus == 1 { "" } else { "s" },
        host.swappiness
    )
}

fn text(args: &ExportArgs, written: &Written) -> String {
    let (s, host) = (&written.summary, &written.host);
    let mut out = format!(
        "{}: {} accesses and {} steps of {} task{} in {} process{} to {} files and regions\n",
        args.out.display(),
        human(s.accesses as f64),
        human(s.steps as f64),
        s.tasks,
        if s.tasks == 1 { "" } else { "s" },
        s.processes,
        if s.processes == 1 { "" } else { "es" },
        s.objects,
    );
    let limits: Vec<String> = s.limits.iter().map(|&pages| show_pages(pages)).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "the machine: {}, limits of memcgs: {}",
        surroundings(host),
        match limits.is_empty() {
            true => "none".to_owned(),
            false => limits.join(", "),
        }
    );
    let _ = writeln!(out, "as it ran: {}", written.as_it_ran);
    if s.files && !s.reads && matches!(host.read_ahead, ReadAhead::Windows { .. }) {
        out.push_str(
            "but for what faults read ahead, which replays of a trace without reads do not\n",
        );
    }
    if s.limits.len() > 1 {
        out.push_str(
            "but for its limits: a replay has one for all tasks, here as large as those together\n",
        );
    }
    if let ([], Some(ram)) = (&s.limits[..], host.ram) {
        let ram = show_pages(ram);
        let _ = writeln!(
            out,
            "but for its memory: a machine of {ram} without a limit"
        );
    }
    if s.stopped {
        out.push_str("stopped after the accesses asked for, before the end of the run\n");
    }
    out
}

/// The command that replays it as it ran, as far as a replay can.
fn as_it_ran(out: &Path, s: &Summary, host: &Host, input: &RunInput) -> String {
    let mut words = vec![format!("coldset lab replay {}", out.display())];
    match (&s.limits[..], host.ram) {
        // A replay has one limit for all tasks.
        ([_, ..], _) => words.push(format!("--memory {}pages", s.limit_in_all)),
        // A replay has no machine that is short of memory: a limit of its size is the nearest.
        ([], Some(ram)) => words.push(format!("--memory {ram}pages")),
        ([], None) => {}
    }
    words.push(format!("--variants {}", input.variant));
    let swap = show_swap(&host.swap);
    words.push(format!("--swap {swap} --swappiness {}", host.swappiness));
    if let (ReadAhead::Windows { kb }, true) = (host.read_ahead, s.reads) {
        words.push(format!("--read-ahead-kb {kb}"));
    }
    if let (Some(device), true) = (host.devices.first(), s.files) {
        words.push(format!("--device {}", device.name()));
    }
    if host.file_system != FileSystem::default() {
        words.push(format!("--file-system {}", host.file_system));
    }
    if !host.memcg_writeback {
        words.push("--dirty-limits host".into());
    }
    let ratios = [
        ("ratio", host.dirty.ratio),
        ("background-ratio", host.dirty.background_ratio),
    ];
    for (name, percent) in ratios {
        words.extend(percent.map(|n| format!("--dirty-{name} {n}")));
    }
    let at_once = format!("--order per-task --pace trace --cpus {}", host.cpus);
    words.push(at_once);
    words.push(format!("--scale {}", show_scale(input.scale_on(host))));
    let own = input.deviations.iter().map(|d| d.name);
    let set = input.costs.were_set().iter().copied();
    let costs = input.costs_on(&host.name);
    for name in own.chain(set) {
        let value = costs.get(name).expect("a row of the table");
        words.push(format!("--cost {name}={value}"));
    }
    words.push("--bounds none".into());
    words.join(" ")
}

/// The name of a trace to be written is one of its format.
fn check_name(out: &Path) -> Result<(), Failure> {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let plain = name.strip_suffix(".zst").unwrap_or(&name);
    match plain.rsplit_once('.') {
        Some((stem, other)) if !["pageops", "bin"].contains(&other) => Err(Failure::Usage(format!(
            "{}: export writes pageops, not {other}; name the file {stem}.pageops or {stem}.pageops.zst",
            out.display()
        ))),
        _ => Ok(()),
    }
}

/// What was written.
pub struct Written {
    /// What it has.
    pub summary: Summary,
    /// The machine that it ran on.
    pub host: Host,
    /// The command that replays it as it ran.
    pub as_it_ran: String,
}

/// Writes the work of an experiment to a file.
///
/// # Errors
/// Unknown names, unusable values, a run that fails, a file that cannot be written.
pub fn write(name: &str, work: &WorkArgs, out: &Path) -> Result<Written, Failure> {
    let experiment = experiment(name)?;
    let variant = work.variant.as_deref().unwrap_or(experiment.after);
    let variant = Variant::parse_all(&[variant], &[])?.remove(0);
    let plan = Plan {
        costs: assign::costs(&work.cost)?,
        ..sized(experiment, Vec::new(), &work.size)?
    };
    plan.check_costs(experiment)?;
    check_params(experiment, &plan.params)?;
    let input = plan.input(experiment, &variant, work.seed);
    let hosts = (experiment.hosts)(&input).map_err(|error| RunnerError::Experiment {
        experiment: experiment.name,
        variant: variant.label.clone(),
        seed: work.seed,
        error,
    })?;
    let first = hosts.first().map_or("", |h| h.name.as_str());
    let machine = work.machine.as_deref().unwrap_or(first).to_owned();
    let host = hosts.iter().find(|h| h.name == machine).cloned();
    check_name(out)?;
    let path = out.display().to_string();
    let target = match out == Path::new("-") {
        true => {
            let what = "--out -: what is said of a trace goes to standard output, the trace to a file; name one";
            return Err(Failure::Usage(what.into()));
        }
        false => Target::open(out).map_err(|e| Failure::write(&path, e))?,
    };
    let (asked, ran) = (input.asked.clone(), input.clone());
    let part = Part {
        machine,
        most: work.accesses,
    };
    let summary = target.put_by(&path, |to| {
        let writer = PageOpsWriter::new(&path, to, packing(out)).map_err(RunnerError::Trace)?;
        let summary = export(experiment, input, part, writer)?;
        if !summary.stopped {
            check_asked(&asked, &plan.params)?;
        }
        Ok(summary)
    })?;
    let host = host.unwrap_or_default();
    Ok(Written {
        as_it_ran: as_it_ran(out, &summary, &host, &ran),
        summary,
        host,
    })
}

/// Runs the command.
///
/// # Errors
/// As [`write`], output that cannot be written.
pub fn run(args: &ExportArgs) -> Result<Verdict, Failure> {
    let wanted = Wanted {
        json: args.json.as_deref(),
        writes: vec![("--out", &args.out)],
        ..Wanted::default()
    };
    let outputs = Outputs::open(wanted.beside_experiment(&args.experiment))?;
    let written = write(&args.experiment, &args.work, &args.out)?;
    let (summary, host) = (&written.summary, &written.host);
    outputs.write_text_or_json(
        || text(args, &written),
        || {
            pretty(&json!({
                "accesses": summary.accesses,
                "steps": summary.steps,
                "tasks": summary.tasks,
                "processes": summary.processes,
                "objects": summary.objects,
                "limits_pages": summary.limits,
                "stopped": summary.stopped,
                "cpus": host.cpus,
                "swappiness": host.swappiness,
                "surroundings": surroundings(host),
                "as_it_ran": written.as_it_ran,
            }))
        },
    )?;
    Ok(Verdict::Good)
}
