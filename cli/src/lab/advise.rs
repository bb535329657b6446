//! `coldset lab advise`.

use super::style;
use super::trace::{load, ReadAs};
use crate::args::{AdviseArgs, OnOff};
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs};
use coldset_lab::advise::{
    advice_json, advice_table, advise, render_advice, Advice, AdvicePlan, Today,
};
use coldset_lab::pages;
use coldset_lab::report::human;
use coldset_lab::runner::{
    parse_device, show_pages, with_jobs, Progress, ReplayPlan, RunnerError, Size, SwapSpec, Variant,
};

fn plan(args: &AdviseArgs) -> Result<AdvicePlan, RunnerError> {
    let sizes = args.memory.iter().map(|text| Size::parse("memory", text));
    let device = args.device.as_deref().map(parse_device).transpose()?;
    Ok(AdvicePlan {
        variants: Variant::parse_all(&args.kernels, &[])?,
        memory: sizes.collect::<Result<_, _>>()?,
        today: Today::parse(&args.today)?,
        replays: ReplayPlan {
            kernel_memory: args.kernel_memory == OnOff::On,
            swap: args.swap.as_deref().map(SwapSpec::parse).transpose()?,
            swappiness: args.swappiness,
            device: device.unwrap_or_default(),
            ..ReplayPlan::new(Vec::new(), Size::Percent(100.0))
        },
    })
}

fn text(args: &AdviseArgs, advice: &Advice) -> String {
    format!(
        "{}: {} accesses, {} different\n\n{}",
        args.trace.display(),
        human(advice.accesses as f64),
        show_pages(advice.unique_pages),
        render_advice(advice, style(args.form.markdown))
    )
}

/// Runs the command.
///
/// # Errors
/// Unknown names, unusable values, a trace that cannot be read, output that cannot be written.
pub fn run(args: &AdviseArgs) -> Result<Verdict, Failure> {
    let plan = plan(args)?;
    let (trace, _) = load(&args.trace, &args.reading, ReadAs::default())?;
    plan.sizes(&trace)?;
    let outputs = Outputs::open(args.page.wanted(&args.form))?;
    let mut bar = Progress::silent();
    let begin = |steps| {
        bar = Progress::new(steps, "replays");
        bar.clone()
    };
    let done = with_jobs(args.threads.jobs, || advise(&trace, &plan, begin));
    bar.finish();
    let advice = done??;
    outputs.write(
        || text(args, &advice),
        || advice_json(&advice),
        || advice_table(&advice),
        || {
            let heading = format!("Memory of {}", args.trace.display());
            let json = advice_json(&advice);
            pages::advice(
                &heading,
                &trace,
                &plan.variants,
                &advice,
                json,
                &command_line(),
            )
        },
    )?;
    Ok(Verdict::Good)
}
