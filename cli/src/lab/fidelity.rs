//! `coldset lab fidelity`.

use super::style;
use crate::args::FidelityArgs;
use crate::error::{Failure, Verdict};
use crate::output::Outputs;
use coldset_lab::fidelity::compare::{Policy, POLICIES};
use coldset_lab::fidelity::{Case, Reference};
use coldset_lab::runner::{
    check, fidelity_json, render_fidelity, with_jobs, CheckOptions, Progress, RunnerError,
};

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
            let names = all.iter().map(|&x| name(x));
            RunnerError::name(what, text, names, "see: coldset lab list")
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

/// Runs the command.
///
/// # Errors
/// Unknown names, tables that cannot be read or belong to other sequences.
pub fn run(args: &FidelityArgs) -> Result<Verdict, Failure> {
    let options = CheckOptions {
        cases: chosen("case", &Case::ALL, Case::name, &args.cases)?,
        policies: chosen("policy", &POLICIES, |p: Policy| p.recorded, &args.policies)?,
        phases: args.phases,
        tolerance_permille: args.tolerance.as_deref().map(tolerance).transpose()?,
    };
    let reference = match &args.dir {
        Some(path) => Reference::load(path),
        None => Reference::embedded(),
    };
    let reference = reference.map_err(RunnerError::Reference)?;
    let recorded = |case: &&Case| reference.runs_of(case.name()).next().is_some();
    if let Some(missing) = options
        .cases
        .iter()
        .find(|c| !args.cases.is_empty() && !recorded(c))
    {
        let message = format!(
            "case '{}' is not in the tables; leave it out",
            missing.name()
        );
        return Err(Failure::Usage(message));
    }
    let outputs = Outputs::open_json(args.form.json.as_deref())?;
    let steps = options.cases.iter().filter(recorded).count() * options.policies.len();
    let progress = Progress::new(steps as u64, "cases");
    let done = with_jobs(args.threads.jobs, || check(&reference, &options, &progress));
    progress.finish();
    let checked = done??;
    if checked.is_empty() {
        return Err(Failure::Usage(
            "the tables hold none of the known cases; nothing was checked".into(),
        ));
    }
    outputs.write_text_or_json(
        || render_fidelity(&checked, style(args.form.markdown)),
        || fidelity_json(&checked),
    )?;
    Ok(Verdict::of(checked.iter().all(|c| c.pass())))
}
