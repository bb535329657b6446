//! What the tasks of an experiment did, as a trace with steps that real kernels can be given.
//!
//! One machine of a run is recorded ([`Recording`]); the trace has its tasks' accesses in the order in which they began
//! them, with calls, advice, fsync, truncation, ends of mappings and processes, and the time tasks computed or
//! slept between them.

use crate::experiment::{Experiment, RunInput};
use crate::recording::{ExportError, Part, Recording, Summary};
use crate::runner::RunnerError;
use crate::traces::PageOpsWriter;
use std::sync::Arc;

/// Runs the experiment once, and writes what the tasks of one machine do.
///
/// # Errors
/// A machine that the run does not have, a run that fails, more objects or tasks than a trace can name, a file
/// that cannot be written.
pub fn export(
    experiment: &Experiment,
    input: RunInput,
    part: Part,
    out: PageOpsWriter,
) -> Result<Summary, RunnerError> {
    let failed = |error| RunnerError::Experiment {
        experiment: experiment.name,
        variant: input.variant.clone(),
        seed: input.seed,
        error,
    };
    let hosts = (experiment.hosts)(&input).map_err(failed)?;
    let names: Vec<&str> = hosts.iter().map(|h| h.name.as_str()).collect();
    if !names.contains(&part.machine.as_str()) {
        let list = "its counters begin with the name of their machine";
        return Err(RunnerError::name("machine", &part.machine, names, list));
    }
    let recording = Arc::new(Recording::new(part, out));
    let recorded = RunInput {
        recording: Some(recording.clone()),
        ..input.clone()
    };
    let ran = experiment.run_once(&recorded);
    let machine = recording.machine().to_owned();
    let summary = recording.finish()?;
    // A run whose machines are stopped half-way may miss what it would have come to.
    match ran {
        _ if summary.accesses > 0 => Ok(summary),
        Err(error) => Err(failed(error)),
        Ok(_) => Err(ExportError::Idle {
            experiment: experiment.name,
            machine,
        }
        .into()),
    }
}
