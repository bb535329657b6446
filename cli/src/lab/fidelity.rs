//! `coldset lab fidelity`.

use super::style;
use crate::args::FidelityArgs;
use crate::error::{Failure, Verdict};
use crate::output::Outputs;
use coldset_lab::fidelity::compare::op_of;
use coldset_lab::fidelity::{Case, RecordedKernel, Reference, ReferenceError, KERNELS};
use coldset_lab::runner::{
    check, check_steps, fidelity_json, render_fidelity, render_series, with_jobs, CheckOptions,
    Checked, Progress, RunnerError,
};
use coldset_lab::traces::{PageOpsWriter, TraceError, WritePacking};
use std::path::Path;

/// All that are known, or those named.
fn chosen<T: Copy>(
    what: &'static str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    wanted: &[String],
) -> Result<Vec<T>, RunnerError> {
    let mut chosen: Vec<T> = Vec::new();
    for text in wanted {
        let found = all.iter().copied().find(|&x| name(x) == text);
        let found = found.ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|&x| name(x)).collect();
            let list = match names.len() {
                // Kernels and policies; cases are in a list.
                0..=9 => format!("one of {}", names.join(", ")),
                _ => "see: coldset lab list".into(),
            };
            RunnerError::name(what, text, names, list)
        })?;
        if chosen.iter().any(|&x| name(x) == name(found)) {
            return Err(RunnerError::Twice {
                what,
                name: text.clone(),
            });
        }
        chosen.push(found);
    }
    Ok(if wanted.is_empty() {
        all.to_vec()
    } else {
        chosen
    })
}

/// `1%` or `0.5` (per cent), in thousandths.
fn tolerance(text: &str) -> Result<u64, RunnerError> {
    let number = text.trim().trim_end_matches('%').trim_end();
    number
        .parse::<f64>()
        .ok()
        .map(|percent| (percent * 10.0).round())
        .filter(|permille| (1.0..=1000.0).contains(permille))
        .map(|permille| permille as u64)
        .ok_or_else(|| RunnerError::value("tolerance", text, "0.1% to 100%"))
}

/// The tables of the kernels: one that is given, or those that are built in.
fn tables(
    args: &FidelityArgs,
    kernels: &[&str],
) -> Result<Vec<(RecordedKernel, Reference)>, ReferenceError> {
    if let Some(path) = &args.dir {
        let table = Reference::load(path)?;
        return Ok(vec![(table.recorded_kernel(path)?, table)]);
    }
    let wanted = KERNELS.into_iter().filter(|k| kernels.contains(&k.name));
    wanted.map(|k| Ok((k, k.reference()?))).collect()
}

/// Writes each case's accesses to `FOLDER/CASE.pageops`.
fn write_traces(folder: &Path, cases: &[Case]) -> Result<(), RunnerError> {
    std::fs::create_dir_all(folder).map_err(|source| {
        let name = folder.display().to_string();
        RunnerError::Trace(TraceError::Write { name, source })
    })?;
    for &case in cases {
        let path = folder.join(format!("{}.pageops", case.name()));
        let write = || {
            let mut writer = PageOpsWriter::create(&path, WritePacking::Plain)?;
            case.sequence().try_for_each(|a| writer.push(op_of(a)))?;
            writer.finish()
        };
        write().map_err(RunnerError::Trace)?;
    }
    Ok(())
}

/// Runs the command.
///
/// # Errors
/// Unknown names, tables that cannot be read or belong to other sequences.
pub fn run(args: &FidelityArgs) -> Result<Verdict, Failure> {
    let names = KERNELS.map(|k| k.name);
    let kernels = chosen("kernel", &names, |n| n, &args.kernels)?;
    let recorded = RecordedKernel::all_policies();
    let options = CheckOptions {
        cases: chosen("case", &Case::ALL, Case::name, &args.cases)?,
        policies: chosen("policy", &recorded, |n| n, &args.policies)?,
        phases: args.phases,
        tolerance_permille: args.tolerance.as_deref().map(tolerance).transpose()?,
    };
    if let Some(folder) = &args.traces {
        write_traces(folder, &options.cases)?;
        return Ok(Verdict::of(true));
    }
    let tables = tables(args, &kernels).map_err(RunnerError::Reference)?;
    let has = |case: &&Case| {
        tables
            .iter()
            .any(|(_, t)| t.runs_of(case.name()).next().is_some())
    };
    let missing = options
        .cases
        .iter()
        .find(|c| !args.cases.is_empty() && !has(c));
    if let Some(missing) = missing {
        let message = format!(
            "case '{}' is not in the tables; leave it out",
            missing.name()
        );
        return Err(Failure::Usage(message));
    }
    let outputs = Outputs::open_json(args.form.json.as_deref(), [])?;
    let progress = Progress::new(check_steps(&tables, &options) as u64, "cases");
    let done = with_jobs(args.threads.jobs, || check(&tables, &options, &progress));
    progress.finish();
    let checked = done??;
    if checked.is_empty() {
        return Err(Failure::Usage(
            "the tables hold none of the known cases; nothing was checked".into(),
        ));
    }
    let style = style(args.form.markdown);
    outputs.write_text_or_json(
        || {
            let series = args.series.then(|| render_series(&checked, style));
            series.unwrap_or_default() + &render_fidelity(&checked, style)
        },
        || fidelity_json(&checked),
    )?;
    Ok(Verdict::of(checked.iter().all(Checked::pass)))
}
