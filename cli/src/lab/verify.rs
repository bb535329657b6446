//! `coldset lab verify`.

use super::assign::costs;
use super::style;
use crate::args::{SensitivityArg, VerifyArgs};
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs};
use coldset_lab::pages;
use coldset_lab::report::experiments_json;
use coldset_lab::report::Table;
use coldset_lab::runner::{with_jobs, Progress};
use coldset_lab::verify::{
    render_sensitivity, render_verify, sensitivity, sensitivity_json, verify, Costing, VerifyPlan,
};

/// Runs the command.
///
/// # Errors
/// Unknown names, unusable values, output that cannot be written.
pub fn run(args: &VerifyArgs) -> Result<Verdict, Failure> {
    let seeds = if args.quick { 1 } else { args.seeds };
    let mut plan = VerifyPlan::new(&args.only, seeds)?;
    plan.quick = args.quick;
    plan.costs = costs(&args.cost)?;
    plan.check()?;
    let outputs = Outputs::open(args.page.wanted(&args.form))?;
    let costings = match args.sensitivity {
        None => Vec::new(),
        Some(SensitivityArg::All) => Costing::all(&plan.costs),
        Some(SensitivityArg::Each) => Costing::each(&plan.costs),
    };
    let progress = Progress::new(plan.runs() * (1 + costings.len() as u64), "verify");
    let (verified, changes) = with_jobs(args.threads.jobs, || {
        let verified = verify(&plan, &progress);
        let changes = args
            .sensitivity
            .map(|_| sensitivity(&plan, &verified, &costings, &progress));
        (verified, changes)
    })?;
    progress.finish();
    let (results, failed) = verified.split();
    let look = style(args.form.markdown);
    outputs.write(
        || {
            let mut text = render_verify(&verified, look);
            if let Some(changes) = &changes {
                text.push('\n');
                text.push_str(&render_sensitivity(changes, look));
            }
            text
        },
        || experiments_json(&results, &failed, changes.as_ref().map(sensitivity_json)),
        Table::default,
        || pages::verify(&verified, changes.as_ref(), &plan.costs, &command_line()),
    )?;
    Ok(Verdict::of(verified.accepted()))
}
