//! What can go wrong before or during a run.

use super::Size;
use crate::bounds::TooLong;
use crate::experiment::ExperimentError;
use crate::fidelity::ReferenceError;
use crate::recording::ExportError;
use crate::replay::clock::ClockError;
use crate::replay::ReplayError;
use crate::traces::{About, TraceError};
use crate::workload::WorkloadError;
use coldset_engine::switches::SwitchError;
use coldset_machine::params::ParamError;
use coldset_machine::OpError;
use coldset_nearest::did_you_mean;
use coldset_report::ReportError;

/// Why something could not be run. Every message is one line.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A name that does not exist.
    #[error("there is no {what} '{name}' ({list}){hint}")]
    Name {
        /// What kind of name.
        what: &'static str,
        /// The name given.
        name: String,
        /// How to see the names.
        list: String,
        /// See [`did_you_mean`].
        hint: String,
    },
    /// A value that cannot be used.
    #[error("{what} '{value}' cannot be used: write {expected}")]
    Value {
        /// What it was given for.
        what: &'static str,
        /// The text given.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// Sizes that are tried unless others are given, of which none can be.
    #[error(
        "--memory is needed: {most}, the largest that is tried without it, is {pages} pages, and {least} pages ({kib} KiB) are \
         the least", kib = least * 4
    )]
    NoDefault {
        /// The largest of them.
        most: Size,
        /// In pages.
        pages: u64,
        /// Fewest pages.
        least: u64,
    },
    /// The same thing twice.
    #[error("{what} '{name}' is listed twice; list it once")]
    Twice {
        /// What kind of thing it is.
        what: &'static str,
        /// The name given twice.
        name: String,
    },
    /// Unknown switch or value.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// Unknown cost or value.
    #[error(transparent)]
    Cost(#[from] ParamError),
    /// A clock that cannot be read.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// A cost without effect.
    #[error("--cost {name} has no effect on {experiments}: {why}; leave it out")]
    Idle {
        /// The row.
        name: &'static str,
        /// The experiments that run.
        experiments: String,
        /// Why it has none.
        why: String,
    },
    /// A parameter that no run has asked for.
    #[error("--param {0} has no effect as the other parameters are: no run has asked for it; leave it out")]
    Unasked(String),
    /// A workload that cannot be used.
    #[error(transparent)]
    Workload(Box<WorkloadError>),
    /// A trace that cannot be read or written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace is too long for exact bounds.
    #[error("{0}; or leave the bounds out with --bounds none")]
    Bounds(#[from] TooLong),
    /// Reference tables that cannot be read.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// One run of an experiment failed.
    #[error("{experiment}, variant {variant}, seed {seed}: {error}")]
    Experiment {
        /// Name of the experiment.
        experiment: &'static str,
        /// The variant that ran.
        variant: String,
        /// The seed it ran under.
        seed: u64,
        /// Why it failed.
        error: ExperimentError,
    },
    /// A replay failed.
    #[error("variant {variant}: {error}")]
    Replay {
        /// The variant that ran.
        variant: String,
        /// Why it failed.
        error: ReplayError,
    },
    /// A recorded case failed.
    #[error("case {case}, policy {policy}: {error}")]
    Case {
        /// Name of the recorded case.
        case: &'static str,
        /// The policy it ran under.
        policy: &'static str,
        /// Why it failed.
        error: ReplayError,
    },
    /// A generated sequence is not the recorded one.
    #[error("case {case}: the generated sequence hashes to {ours:016x}, the recorded one to {recorded}; the tables belong to another version")]
    Hash {
        /// Name of the recorded case.
        case: &'static str,
        /// Hash of what was generated.
        ours: u64,
        /// Hash in the tables.
        recorded: String,
    },
    /// Results that make no table.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// It was stopped from outside.
    #[error("stopped before it was finished; run it again")]
    Stopped,
    /// Two files that cannot be compared.
    #[error(transparent)]
    Compare(#[from] crate::compare::CompareError),
    /// What a run does is no trace.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// Threads cannot be had.
    #[error("cannot start {jobs} threads: {why}; give a smaller --jobs")]
    Threads {
        /// Threads asked for.
        jobs: usize,
        /// What the system said.
        why: String,
    },
}

impl RunnerError {
    /// A value that cannot be used.
    pub fn value(what: &'static str, value: &str, expected: impl Into<String>) -> Self {
        Self::Value {
            what,
            value: value.escape_debug().to_string(),
            expected: expected.into(),
        }
    }

    /// A size for `what` that is less than `least` pages: `given` is what was written, or its default.
    pub(crate) fn too_small(
        what: &'static str,
        (given, pages): (&str, u64),
        least: u64,
        trace: &About,
    ) -> Self {
        let all = trace.unique_pages;
        let kib = least * 4;
        let is = match given == Size::Pages(pages).to_string() {
            true => String::new(),
            false => format!("it is {pages} pages, and "),
        };
        let expected =
            format!("{least} pages ({kib} KiB) or more; {is}the trace has {all} different pages");
        Self::value(what, given, expected)
    }

    /// A name that does not exist; guesses which was meant.
    pub fn name<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        list: impl Into<String>,
    ) -> Self {
        Self::Name {
            what,
            name: name.escape_debug().to_string(),
            list: list.into(),
            hint: did_you_mean(name, known),
        }
    }

    /// True if what was asked for is in order and the surroundings failed: threads, devices,
    /// disks, damaged built-in data.
    #[must_use]
    pub fn is_environment(&self) -> bool {
        match self {
            // A formula of the user's own.
            Self::Report(ReportError::NotFinite { .. }) => false,
            Self::Threads { .. } | Self::Report(_) => true,
            Self::Trace(error) | Self::Export(ExportError::Trace(error)) => {
                matches!(error, TraceError::Write { .. })
            }
            Self::Experiment {
                error: ExperimentError::Op { error, .. },
                ..
            } => matches!(error, OpError::Device(_)),
            Self::Replay { error, .. } | Self::Case { error, .. } => {
                matches!(
                    error,
                    ReplayError::Op {
                        error: OpError::Device(_),
                        ..
                    }
                )
            }
            _ => false,
        }
    }
}

impl From<WorkloadError> for RunnerError {
    fn from(error: WorkloadError) -> Self {
        Self::Workload(Box::new(error))
    }
}
