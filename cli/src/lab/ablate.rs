//! `coldset lab ablate`.

use super::trace::{load, ReadAs};
use super::{assign, plan, style};
use crate::args::AblateArgs;
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs};
use coldset_lab::ablate::{
    ablate, ablate_trace, ablation_json, parts, render_ablation, render_trace_ablation,
    trace_ablation_json, TracePlan,
};
use coldset_lab::pages;
use coldset_lab::replay::ReplaySettings;
use coldset_lab::report::Table;
use coldset_lab::runner::{
    experiment, is_workload, show_pages, with_jobs, Progress, ReplayPlan, Size, Variant,
};
use std::path::Path;

/// Of experiments, unless others are asked for.
const SEEDS: u64 = 5;

/// Before and after.
fn pair(args: &AblateArgs, default: [&str; 2]) -> Result<Vec<Variant>, Failure> {
    match args.variants.as_slice() {
        [] => Ok(Variant::parse_all(&default, &[])?),
        [_, _] => Ok(Variant::parse_all(&args.variants, &[])?),
        _ => Err(Failure::Usage(
            "--variants of an ablation are two: BEFORE,AFTER".into(),
        )),
    }
}

/// Replays a trace.
fn of_trace(args: &AblateArgs) -> Result<Verdict, Failure> {
    let of = &args.what.size;
    let experiments = !of.param.is_empty() || of.scale.is_some() || of.effort != "1";
    if experiments || args.what.seeds != SEEDS {
        let what = "--param, --scale, --effort and --seeds go with an experiment; leave them out for a trace";
        return Err(Failure::Usage(what.into()));
    }
    if args.page.report.is_some() {
        let what =
            "--report of an ablation goes with an experiment; a trace has the table and --json";
        return Err(Failure::Usage(what.into()));
    }
    let mut variants = pair(args, ["base", "v5"])?;
    let (after, before) = (variants.pop().expect("two"), variants.pop().expect("two"));
    let memory = args.memory.as_deref().unwrap_or("50%");
    let plan = TracePlan {
        before,
        after,
        memory: Size::parse("memory", memory)?,
        replays: ReplayPlan {
            settings: ReplaySettings {
                costs: assign::costs(&args.what.cost)?,
                ..ReplaySettings::default()
            },
            ..ReplayPlan::new(Vec::new(), Size::Percent(100.0))
        },
    };
    let path = Path::new(&args.experiment);
    let (trace, _) = load(path, &args.reading, ReadAs::default())?;
    plan.pages(&trace)?;
    let outputs = Outputs::open(args.page.wanted(&args.form).beside_trace(path))?;
    let mut bar = Progress::silent();
    let begin = |steps| {
        bar = Progress::new(steps, "replays");
        bar.clone()
    };
    let done = with_jobs(args.threads.jobs, || ablate_trace(&trace, &plan, begin));
    bar.finish();
    let ablation = done??;
    outputs.write_text_or_json(
        || {
            format!(
                "{}: which change matters from {} to {}, memory {}\n\n{}",
                path.display(),
                ablation.before,
                ablation.after,
                show_pages(ablation.memory_pages),
                render_trace_ablation(&ablation, style(args.form.markdown))
            )
        },
        || trace_ablation_json(&ablation),
    )?;
    Ok(Verdict::Good)
}

/// Runs the command.
///
/// # Errors
/// Unknown names, unusable values, a run that fails, output that cannot be written.
pub fn run(args: &AblateArgs) -> Result<Verdict, Failure> {
    let experiment = match experiment(&args.experiment) {
        // What is no experiment is a trace if there is such a file.
        Err(_)
            if !is_workload(&args.experiment)
                && (args.experiment == "-" || Path::new(&args.experiment).exists()) =>
        {
            return of_trace(args)
        }
        other => other?,
    };
    if args.memory.is_some() {
        let what = format!(
            "--memory goes with a trace; {} sets its own",
            experiment.name
        );
        return Err(Failure::Usage(what));
    }
    let variants = pair(args, [experiment.before, experiment.after])?;
    let plan = plan(experiment, variants, &args.what)?;
    let wanted = args.page.wanted(&args.form);
    let outputs = Outputs::open(wanted.beside_experiment(&args.experiment))?;
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
