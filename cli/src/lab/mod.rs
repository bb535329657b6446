//! The commands of the lab.

pub mod ablate;
pub mod advise;
mod assign;
pub mod compare;
pub mod convert;
pub mod export;
pub mod fidelity;
pub mod fuzz;
pub mod inspect;
mod journal;
pub mod list;
pub mod mrc;
pub mod params;
mod plot;
pub mod races;
mod reading;
pub mod replay;
pub mod run;
pub mod sweep;
mod trace;
pub mod validate;
pub mod verify;

pub(crate) use trace::{load_trace, ReadAs};

use crate::args::{PlanArgs, SizeArgs};
use coldset_lab::experiment::{Costs, Experiment};
use coldset_lab::report::Style;
use coldset_lab::runner::{parse_effort, parse_scale, Plan, RunnerError, Variant};
use std::io::IsTerminal as _;

/// What `run` and `ablate` run.
fn plan(
    experiment: &'static Experiment,
    variants: Vec<Variant>,
    args: &PlanArgs,
) -> Result<Plan, RunnerError> {
    let plan = Plan {
        seeds: args.seeds,
        costs: assign::costs(&args.cost)?,
        ..sized(experiment, variants, &args.size)?
    };
    plan.check_costs(experiment)?;
    Ok(plan)
}

/// One run of each variant.
fn sized(
    experiment: &'static Experiment,
    variants: Vec<Variant>,
    args: &SizeArgs,
) -> Result<Plan, RunnerError> {
    Ok(Plan {
        variants,
        seeds: 1,
        scale: match &args.scale {
            Some(text) => parse_scale(text)?,
            None => experiment.scale,
        },
        effort_permille: parse_effort(&args.effort)?,
        costs: Costs::default(),
        params: assign::params(&args.param)?,
        record: Vec::new(),
        sample_points: 0,
    })
}

/// Columns of the terminal that standard output is; none: it is no terminal.
fn columns() -> Option<u16> {
    let size = std::io::stdout()
        .is_terminal()
        .then(ratatui::crossterm::terminal::size)?;
    size.ok().map(|(columns, _)| columns)
}

/// How tables look.
pub(crate) fn style(markdown: bool) -> Style {
    if markdown {
        Style::Markdown
    } else {
        columns().map_or(Style::Plain, Style::Columns)
    }
}
