//! Charts of what the lab runs, beside those of [`coldset_report::charts`].

mod ablation;
mod heat;
mod replay;

use crate::experiments::EXPERIMENTS;
use coldset_report::{ExperimentResult, RunResult};

pub use ablation::ablation;
pub use coldset_report::charts::{curves, id, Chart, CurveLine};
pub use heat::heat;
pub use replay::replay;

/// Charts of an experiment, with or without the runs it is made of.
#[must_use]
pub fn experiment(result: &ExperimentResult, runs: &[RunResult]) -> Vec<Chart> {
    let known = EXPERIMENTS
        .iter()
        .find(|e| e.name == result.header.experiment);
    coldset_report::charts::experiment(result, runs, known.map_or(&[], |e| e.mechanism))
}
