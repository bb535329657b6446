//! `coldset lab mrc`.

use super::plot::plot;
use super::style;
use super::trace::{load, ReadAs};
use crate::args::{MrcArgs, OnOff};
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs};
use coldset_lab::bounds::Count;
use coldset_lab::mrc::{curves, mrc_json, mrc_table, render_mrc, Curves, MrcPlan, Sample};
use coldset_lab::pages;
use coldset_lab::report::human;
use coldset_lab::runner::{show_pages, with_jobs, Progress, RunnerError, Size};

fn plan(args: &MrcArgs) -> Result<MrcPlan, RunnerError> {
    let sample = args.sample.as_deref().map(Sample::parse).transpose()?;
    Ok(MrcPlan {
        policies: MrcPlan::policies(&args.policies, sample.as_ref(), args.count)?,
        sizes: args
            .sizes
            .iter()
            .map(|text| Size::parse("sizes", text))
            .collect::<Result<_, _>>()?,
        points: args.points,
        sample,
        count: args.count,
        kernel_memory: args.kernel_memory == OnOff::On,
    })
}

fn text(args: &MrcArgs, curves: &Curves) -> String {
    let mut out = format!(
        "{}: {} references, {} different; miss ratios{}\n\n",
        args.trace.display(),
        human(curves.references as f64),
        show_pages(curves.unique_pages),
        match args.count {
            Count::Reads => "",
            Count::Absences => ", of all absent pages",
        },
    );
    out.push_str(&render_mrc(curves, style(args.out.form.markdown)));
    if !args.no_plot && !args.out.form.markdown && curves.sizes.len() > 1 {
        out.push('\n');
        out.push_str(&plot(curves));
    }
    out
}

/// Runs the command.
///
/// # Errors
/// Unknown names, unusable values, a trace that cannot be read, output that cannot be written.
pub fn run(args: &MrcArgs) -> Result<Verdict, Failure> {
    let plan = plan(args)?;
    let (trace, _) = load(&args.trace, &args.reading, ReadAs::default())?;
    plan.pages(trace.unique_pages)?;
    let outputs = Outputs::open(args.out.wanted().beside_trace(&args.trace))?;
    let mut bar = Progress::silent();
    let begin = |steps| {
        bar = Progress::new(steps, "curves");
        bar.clone()
    };
    let done = with_jobs(args.out.threads.jobs, || curves(&trace, &plan, begin));
    bar.finish();
    let curves = done??;
    outputs.write(
        || text(args, &curves),
        || mrc_json(&curves),
        || mrc_table(&curves),
        || {
            let heading = format!("Miss-ratio curves of {}", args.trace.display());
            pages::mrc(&heading, &curves, mrc_json(&curves), &command_line())
        },
    )?;
    Ok(Verdict::Good)
}
