//! What can go wrong in a run.

use crate::draw::DrawError;
use crate::workload::WorkloadError;
use coldset_engine::memcg::MemcgError;
use coldset_machine::{MachineError, OpError};

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The machine cannot be built.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Memcg settings.
    #[error(transparent)]
    Memcg(#[from] MemcgError),
    /// A draw cannot be built.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// A workload that cannot be used at this scale, or with these parameters.
    #[error(transparent)]
    Workload(Box<WorkloadError>),
    /// A workload that does not end.
    #[error("{0}")]
    Stuck(String),
    /// An operation of the workload failed.
    #[error("{what}: {error}")]
    Op {
        /// What was being done.
        what: &'static str,
        /// Failure.
        error: OpError,
    },
    /// A parameter has a value that cannot be used.
    #[error("parameter '{name}' does not take '{value}': {expected}")]
    Param {
        /// Which one, as on the command line.
        name: String,
        /// What was given for it.
        value: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// A parameter has a value that is too large.
    #[error("parameter '{name}' does not take '{value}': the largest value that fits is {most}")]
    TooLarge {
        /// Which one, as on the command line.
        name: String,
        /// What was given for it.
        value: u64,
        /// Its greatest value.
        most: u64,
    },
    /// All files and regions of a machine together do not fit into this computer.
    #[error("more than {most} pages of files and memory, which is what fits; use smaller values{given}, or a smaller scale")]
    TooManyPages {
        /// Most pages of a machine.
        most: u64,
        /// The parameters that were given, or nothing: ` (a=1, b=2)`.
        given: String,
    },
    /// A parameter that changes nothing as the others are.
    #[error("--param {name} has no effect: {why}; leave it out")]
    Unused {
        /// Which one, as on the command line.
        name: &'static str,
        /// Why it has none.
        why: &'static str,
    },
    /// The experiment cannot be made smaller.
    #[error("scale 1/{scale} does not suit it: {why}; use 1/1")]
    Unscalable {
        /// Denominator.
        scale: u64,
        /// Why it has one size.
        why: &'static str,
    },
    /// The scale leaves too little of the experiment.
    #[error("scale 1/{scale} leaves {what} of {left}; use 1/{max} or larger")]
    Scale {
        /// Denominator.
        scale: u64,
        /// What becomes too small.
        what: &'static str,
        /// What is left.
        left: u64,
        /// Greatest usable denominator.
        max: u64,
    },
}

impl From<WorkloadError> for ExperimentError {
    fn from(error: WorkloadError) -> Self {
        Self::Workload(Box::new(error))
    }
}
