//! `coldset lab inspect`.

use super::trace::{load, ReadAs};
use crate::args::InspectArgs;
use crate::error::{Failure, Verdict};
use crate::output::Outputs;
use coldset_lab::replay::Command;
use coldset_lab::runner::{
    inspect_all, show_pages, Inspection, ReplayPlan, RunnerError, Size, SwapSpec, Variant,
};

fn plan(args: &InspectArgs) -> Result<ReplayPlan, RunnerError> {
    let variants = Variant::parse_all(&args.variants, &args.set)?;
    let mut plan = ReplayPlan::new(variants, Size::parse("memory", &args.memory)?);
    plan.settings.swappiness = args.swappiness;
    plan.swap = args.swap.as_deref().map(SwapSpec::parse).transpose()?;
    Ok(plan)
}

fn text(all: &[Inspection]) -> String {
    let mut out = String::new();
    for i in all {
        out += &format!(
            "{}: after {} accesses, {} ms, limit {}\n",
            i.variant,
            i.accesses,
            i.time_ms,
            show_pages(i.limit_pages)
        );
        i.lruvecs.iter().for_each(|l| out += &l.text());
        out.push('\n');
    }
    out
}

/// Runs the command.
///
/// # Errors
/// Unknown names, unusable values, a trace that cannot be read or does not fit, a command that is
/// refused, output that cannot be written.
pub fn run(args: &InspectArgs) -> Result<Verdict, Failure> {
    let plan = plan(args)?;
    let (mut trace, _) = load(&args.trace, &args.reading, ReadAs::default())?;
    if let Some(at) = args.at {
        let all = trace.ops().len();
        if at > all as u64 {
            return Err(Failure::Usage(format!(
                "--at {at} is beyond the end; the trace has {all} accesses"
            )));
        }
        trace = trace.up_to(at as usize);
    }
    let age = std::iter::repeat_n(Command::Age, args.age.into());
    let evict = args.evict.iter();
    let evict = evict.map(|&(seq, nr)| Command::Evict { seq, nr });
    let commands: Vec<Command> = age.chain(evict).collect();
    let outputs = Outputs::open_json(args.json.as_deref(), [("the trace", &*args.trace)])?;
    let all = inspect_all(&trace, &plan, &commands)?;
    outputs.write_text_or_json(
        || text(&all),
        || {
            format!(
                "{}\n",
                serde_json::to_string_pretty(&all).expect("plain data")
            )
        },
    )?;
    Ok(Verdict::Good)
}
