//! The lab's errors as exceptions of `coldset._errors`.

use crate::errors::named;
use coldset_lab::replay::ReplayError;
use coldset_lab::runner::RunnerError;
use coldset_lab::sweep::SweepError;
use coldset_lab::traces::TraceError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

fn os(e: &std::io::Error, text: String) -> Option<PyErr> {
    let number = e.raw_os_error()?;
    Some(PyOSError::new_err((number, text)))
}

/// What a policy written in Python has raised.
fn raised(py: Python<'_>, e: &RunnerError) -> Option<PyErr> {
    let RunnerError::Replay {
        error: ReplayError::Policy { error, .. },
        ..
    } = e
    else {
        return None;
    };
    Some(error.downcast_ref::<PyErr>()?.clone_ref(py))
}

/// A message with the lists of Python in place of those of the command.
fn in_python(text: String) -> String {
    for (what, list) in [
        ("no variant ", "coldset.lab.variants()"),
        ("no experiment ", "coldset.lab.experiments()"),
    ] {
        if text.contains(what) {
            return text.replace("coldset lab list", list);
        }
    }
    if text.contains("no switch is named") {
        return text + " (see: coldset.lab.switches())";
    }
    // Of the machine, which are costs to whoever runs the lab.
    text.replace("no parameter is named", "no cost is named")
        .replace(
            "list the parameters to see their names",
            "see: coldset.lab.costs()",
        )
}

/// The exception itself for what a policy in Python has raised, `OSError` with its number for what the system refused, `SettingError` for what can be put right
/// in the arguments, `Error` for a run that fails.
pub fn runner(py: Python<'_>, e: &RunnerError) -> PyErr {
    if let Some(raised) = raised(py, e) {
        return raised;
    }
    let found = match e {
        RunnerError::Trace(
            TraceError::Open { source, .. }
            | TraceError::Read { source, .. }
            | TraceError::Write { source, .. },
        ) => os(source, e.to_string()),
        _ => None,
    };
    let class = match e {
        RunnerError::Experiment { .. } | RunnerError::Replay { .. } | RunnerError::Stopped => {
            "Error"
        }
        e if e.is_environment() => "Error",
        _ => "SettingError",
    };
    found.unwrap_or_else(|| named(py, class, &in_python(e.to_string())))
}

/// The same for sweeps.
pub fn sweep(py: Python<'_>, e: &SweepError) -> PyErr {
    match e {
        SweepError::Lab(e) => runner(py, e),
        SweepError::Io { source, .. } => {
            os(source, e.to_string()).unwrap_or_else(|| named(py, "Error", e))
        }
        SweepError::Grid { .. } => named(py, "SettingError", &in_python(e.to_string())),
        SweepError::Foreign { .. } => PyValueError::new_err(e.to_string()),
        SweepError::Cell(_) | SweepError::Worker(_) => named(py, "Error", e),
    }
}
