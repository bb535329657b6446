//! The pager's errors as exceptions of `coldset._errors`.

use coldset_pager::Error;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// `EIO`, for errors of a store that are not the kernel's.
const EIO: i32 = 5;

/// The exception of an error: `OSError` with its number for what the kernel or a device refused, a
/// subclass of `coldset.Error` for the rest.
pub fn raise(py: Python<'_>, e: Error) -> PyErr {
    let e = match e {
        Error::Policy(failure) => match failure.downcast::<PyErr>() {
            Ok(raised) => return *raised,
            Err(other) => Error::Policy(other),
        },
        other => other,
    };
    if let Error::Io { source, .. } = &e {
        let number = source.raw_os_error().unwrap_or(EIO);
        return PyOSError::new_err((number, e.to_string()));
    }
    if let Error::File { errno, .. } = &e {
        return PyOSError::new_err((*errno, e.to_string()));
    }
    let class = match &e {
        Error::InUse { .. } => "FileInUseError",
        Error::Missing(_) | Error::Pressure { .. } => "MissingFeature",
        Error::Sigbus(_) => "HandlerError",
        Error::Switch(_) | Error::Group(_) | Error::Setting { .. } | Error::Parse { .. } => {
            "SettingError"
        }
        Error::Range { .. } => "SettingError",
        Error::Overcommit { .. }
        | Error::NoMemory { .. }
        | Error::Shrink { .. }
        | Error::Promised { .. } => "OutOfMemory",
        Error::ReadOnly => "ReadOnlyError",
        Error::Policy(_) => "PolicyError",
        Error::Forked => "ForkedError",
        Error::Closed => "ClosedError",
        _ => "Error",
    };
    named(py, class, &e)
}

/// An exception of `coldset._errors`.
pub fn named(py: Python<'_>, class: &str, e: &dyn std::fmt::Display) -> PyErr {
    let made = py
        .import("coldset._errors")
        .and_then(|m| m.getattr(class))
        .and_then(|c| c.call1((e.to_string(),)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(e) => e,
    }
}
