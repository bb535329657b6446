//! Charts of what the lab runs, beside those of [`coldset_report::charts`].

mod ablation;
mod heat;
mod replay;

use coldset_report::{ExperimentResult, RunResult};

pub use ablation::ablation;
pub use coldset_report::charts::{curves, id, Chart, CurveLine};
pub use heat::heat;
pub use replay::replay;

/// Charts of an experiment, with or without the runs it is made of; counters of its `mechanism` first.
#[must_use]
pub fn experiment(result: &ExperimentResult, runs: &[RunResult], mechanism: &[&str]) -> Vec<Chart> {
    coldset_report::charts::experiment(result, runs, mechanism)
}
