//! `coldset lab ablate`.

use super::{plan, style};
use crate::args::AblateArgs;
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs};
use coldset_lab::ablate::{ablate, ablation_json, parts, render_ablation};
use coldset_lab::pages;
use coldset_lab::report::Table;
use coldset_lab::runner::{experiment, with_jobs, Progress, Variant};

/// Runs the command.
///
/// # Errors
/// Unknown names, unusable values, a run that fails, output that cannot be written.
pub fn run(args: &AblateArgs) -> Result<Verdict, Failure> {
    let experiment = experiment(&args.experiment)?;
    let variants = match args.variants.as_slice() {
        [] => Variant::parse_all(&[experiment.before, experiment.after], &[])?,
        [_, _] => Variant::parse_all(&args.variants, &[])?,
        _ => {
            return Err(Failure::Usage(
                "--variants of an ablation are two: BEFORE,AFTER".into(),
            ))
        }
    };
    let plan = plan(experiment, variants, &args.what)?;
    let outputs = Outputs::open(args.page.wanted(&args.form))?;
    let changes = parts(&plan.variants[0].switches, &plan.variants[1].switches);
    let runs = (2 + 2 * changes.len() as u64) * plan.seeds;
    let progress = Progress::new(runs, experiment.name);
    let done = with_jobs(args.threads.jobs, || ablate(experiment, &plan, &progress))?;
    progress.finish();
    let ablation = done?;
    outputs.write(
        || render_ablation(&ablation, style(args.form.markdown)),
        || ablation_json(&ablation),
        Table::default,
        || pages::ablation(experiment, &plan, &ablation, &command_line()),
    )?;
    Ok(Verdict::Good)
}
