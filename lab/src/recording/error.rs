//! Why a run is no trace.

use crate::traces::TraceError;

/// Why what a run does cannot be written down.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A machine whose tasks do nothing that a trace has.
    #[error("{experiment}: no task does anything on its machine '{machine}'; name another with --machine, or another experiment")]
    Idle {
        /// Name of the experiment.
        experiment: &'static str,
        /// Name of the machine.
        machine: String,
    },
    /// A trace cannot name all of them.
    #[error("more than {most} {what}: a trace cannot name them all; choose a smaller --scale or --param, or stop earlier with --accesses")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many a trace can name.
        most: u32,
    },
}
