//! `coldset lab advise`.

use super::replay::{check_read_ahead, windows};
use super::style;
use super::trace::{load, page_ids, ReadAs};
use crate::args::{AdviseArgs, DirtyLimitsArg, OnOff};
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs};
use coldset_lab::advise::{
    advice_json, advice_table, advise, render_advice, Advice, AdvicePlan, Today, LEAST_PAGES,
    MEMORY_DEFAULT,
};
use coldset_lab::experiment::{DirtySettings, READ_AHEAD_KB};
use coldset_lab::pages;
use coldset_lab::replay::ReplaySettings;
use coldset_lab::report::human;
use coldset_lab::runner::{
    parse_device, show_pages, with_jobs, Progress, ReplayPlan, RunnerError, Size, SwapSpec, Variant,
};
use coldset_lab::traces::Trace;
use coldset_machine::ReadAhead;

fn plan(args: &AdviseArgs) -> Result<AdvicePlan, RunnerError> {
    let sizes = args.memory.iter().map(|text| Size::parse("memory", text));
    let device = args.device.as_deref().map(parse_device).transpose()?;
    Ok(AdvicePlan {
        variants: Variant::parse_all(&args.kernels, &[])?,
        memory: sizes.collect::<Result<_, _>>()?,
        today: Today::parse(&args.today)?,
        replays: ReplayPlan {
            settings: ReplaySettings {
                kernel_memory: args.kernel_memory == OnOff::On,
                swappiness: args.swappiness,
                device: device.unwrap_or_default(),
                read_ahead: args
                    .read_ahead_kb
                    .map_or_else(ReadAhead::default, |kb| ReadAhead::Windows { kb }),
                dirty: DirtySettings {
                    of_host: args.dirty_limits == DirtyLimitsArg::Host,
                    ..DirtySettings::default()
                },
                ..ReplaySettings::default()
            },
            swap: args.swap.as_deref().map(SwapSpec::parse).transpose()?,
            ..ReplayPlan::new(Vec::new(), Size::Percent(100.0))
        },
    })
}

fn text(args: &AdviseArgs, trace: &Trace, advice: &Advice) -> String {
    let usual = trace.has_advice().then_some(READ_AHEAD_KB);
    let read_ahead = args
        .read_ahead_kb
        .or(usual)
        .map_or_else(String::new, windows);
    // Without today's.
    let tried = advice.levels.len() - 1;
    let left_out = match args.memory.is_empty() && tried < MEMORY_DEFAULT.len() {
        true => format!("\nSizes below {} are left out.\n", show_pages(LEAST_PAGES)),
        false => String::new(),
    };
    format!(
        "{}: {} accesses, {} different{read_ahead}\n\n{}{left_out}",
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
    let read_as = ReadAs {
        page_ids: page_ids(args.read_ahead_kb, false),
        ..ReadAs::default()
    };
    let (trace, _) = load(&args.trace, &args.reading, read_as)?;
    check_read_ahead(&args.trace, args.read_ahead_kb, &trace)?;
    plan.sizes(&trace)?;
    let outputs = Outputs::open(args.page.wanted(&args.form).beside_trace(&args.trace))?;
    let mut bar = Progress::silent();
    let begin = |steps| {
        bar = Progress::new(steps, "replays");
        bar.clone()
    };
    let done = with_jobs(args.threads.jobs, || advise(&trace, &plan, begin));
    bar.finish();
    let advice = done??;
    outputs.write(
        || text(args, &trace, &advice),
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
