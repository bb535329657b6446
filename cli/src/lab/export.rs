//! `coldset lab export`.

use super::list::pretty;
use super::sized;
use crate::args::{ExportArgs, WorkArgs};
use crate::error::{Failure, Verdict};
use crate::output::Outputs;
use coldset_lab::experiment::Host;
use coldset_lab::export::export;
use coldset_lab::recording::{Part, Summary};
use coldset_lab::report::human;
use coldset_lab::runner::{
    check_asked, check_params, experiment, show_pages, RunnerError, Variant,
};
use coldset_lab::traces::{PageOpsWriter, WritePacking};
use coldset_machine::SwapConfig;
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

fn text(args: &ExportArgs, s: &Summary, host: &Host) -> String {
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
    if s.stopped {
        out.push_str("stopped after the accesses asked for, before the end of the run\n");
    }
    out
}

/// Writes the work of an experiment to a file; what it has, and the machine that it ran on.
///
/// # Errors
/// Unknown names, unusable values, a run that fails, a file that cannot be written.
pub fn write(name: &str, work: &WorkArgs, out: &Path) -> Result<(Summary, Host), Failure> {
    let experiment = experiment(name)?;
    let variant = work.variant.as_deref().unwrap_or(experiment.after);
    let variant = Variant::parse_all(&[variant], &[])?.remove(0);
    let plan = sized(experiment, Vec::new(), &work.size)?;
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
    let writer = PageOpsWriter::create(out, packing(out)).map_err(RunnerError::Trace)?;
    let asked = input.asked.clone();
    let part = Part {
        machine,
        most: work.accesses,
    };
    let summary = export(experiment, input, part, writer).and_then(|summary| {
        if !summary.stopped {
            check_asked(&asked, &plan.params)?;
        }
        Ok(summary)
    });
    let summary = summary.inspect_err(|_| {
        // What is there is no whole trace.
        let _ = std::fs::remove_file(out);
    })?;
    Ok((summary, host.unwrap_or_default()))
}

/// Runs the command.
///
/// # Errors
/// As [`write`], output that cannot be written.
pub fn run(args: &ExportArgs) -> Result<Verdict, Failure> {
    let outputs = Outputs::open_json(args.json.as_deref())?;
    let (summary, host) = write(&args.experiment, &args.work, &args.out)?;
    outputs.write_text_or_json(
        || text(args, &summary, &host),
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
                "surroundings": surroundings(&host),
            }))
        },
    )?;
    Ok(Verdict::Good)
}
