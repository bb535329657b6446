//! Charts of what the lab runs, beside those of [`crate::report::charts`].

mod ablation;
mod replay;

use crate::experiments::EXPERIMENTS;
use crate::report::{ExperimentResult, RunResult};

pub use crate::report::charts::{curves, id, Chart, CurveLine};
pub use ablation::ablation;
pub use replay::replay;

/// Charts of an experiment, with or without the runs it is made of.
#[must_use]
pub fn experiment(result: &ExperimentResult, runs: &[RunResult]) -> Vec<Chart> {
    let known = EXPERIMENTS
        .iter()
        .find(|e| e.name == result.header.experiment);
    crate::report::charts::experiment(result, runs, known.map_or(&[], |e| e.mechanism))
}
