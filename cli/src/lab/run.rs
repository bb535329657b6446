//! `coldset lab run`.

use super::{plan, style};
use crate::args::RunArgs;
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs, Wanted};
use coldset_lab::pages;
use coldset_lab::report::{experiment_json, render_short, render_text, series_table, values_table};
use coldset_lab::runner::{
    experiment, in_band, run as run_plan, with_jobs, Progress, Variant, SAMPLE_POINTS,
};
use std::path::Path;

/// Runs the command.
///
/// # Errors
/// Unknown names, unusable values, a run that fails, output that cannot be written.
pub fn run(args: &RunArgs) -> Result<Verdict, Failure> {
    let experiment = experiment(&args.experiment)?;
    let given = !args.variants.is_empty();
    let names: Vec<&str> = if given {
        args.variants.iter().map(String::as_str).collect()
    } else {
        experiment.default_variants()
    };
    let variants = Variant::parse_all(&names, &args.set)?;
    let mut plan = plan(experiment, variants, &args.what)?;
    let record = |prefix: &str, list: &[String]| -> Vec<(String, String)> {
        let split = |text: &String| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (format!("{prefix} {}", name.trim()), value.trim().to_owned())
        };
        list.iter().map(split).collect()
    };
    plan.record = [record("set", &args.set), record("cost", &args.what.cost)].concat();
    let series = args.series.as_deref().filter(|name| *name != "-");
    let wanted = args.out.wanted().beside_experiment(&args.experiment);
    let outputs = Outputs::open(Wanted {
        writes: Vec::from_iter(series.map(|name| ("--series", Path::new(name)))),
        ..wanted
    })?;
    let series = Outputs::open(Wanted {
        csv: args.series.as_deref(),
        ..Wanted::default()
    })?;
    if outputs.has_report() || args.series.is_some() {
        plan.sample_points = SAMPLE_POINTS;
    }
    let progress = Progress::new(plan.variants.len() as u64 * plan.seeds, experiment.name);
    let done = with_jobs(args.out.threads.jobs, || {
        run_plan(experiment, &plan, &progress)
    })?;
    progress.finish();
    let outcome = done?;
    let result = &outcome.result;
    if args.series.is_some() {
        series.write_csv_only(|| series_table(&outcome.runs))?;
    }
    outputs.write(
        || {
            let render = if args.all { render_text } else { render_short };
            render(result, style(args.out.form.markdown))
        },
        || experiment_json(result),
        || values_table(result),
        || pages::experiment(experiment, &plan, &outcome, &command_line()),
    )?;
    Ok(Verdict::of(in_band(result)))
}
