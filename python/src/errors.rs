//! The pager's errors as exceptions of `coldset._errors`.

use coldset_engine::switches::SwitchError;
use coldset_engine::Switches;
use coldset_pager::sys::sigbus::InstallError;
use coldset_pager::{Error, Feature, Missing};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::io::{self, ErrorKind};

/// The number of an error that is not the kernel's own, or has been told more by us.
fn number_of(source: &io::Error) -> i32 {
    source.raw_os_error().unwrap_or(match source.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::StorageFull => libc::ENOSPC,
        ErrorKind::QuotaExceeded => libc::EDQUOT,
        ErrorKind::NotADirectory => libc::ENOTDIR,
        ErrorKind::ReadOnlyFilesystem => libc::EROFS,
        _ => libc::EIO,
    })
}

/// An `OSError`, which says its number itself.
fn os_error(number: i32, e: &Error) -> PyErr {
    let text = e.to_string().replace(&format!(" (os error {number})"), "");
    PyOSError::new_err((number, text))
}

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
        return os_error(number_of(source), &e);
    }
    if let Error::File { errno, .. } = &e {
        return os_error(*errno, &e);
    }
    match &e {
        Error::Missing(m) => return named(py, "MissingFeature", &missing(m)),
        Error::Sigbus(why) => return named(py, "HandlerError", &handler(*why)),
        _ => {}
    }
    let class = match &e {
        Error::InUse { .. } => "FileInUseError",
        Error::Pressure { .. } => "MissingFeature",
        Error::Switch(_) | Error::Group(_) | Error::Setting { .. } | Error::Parse { .. } => {
            "SettingError"
        }
        Error::GroupName { .. } => "SettingError",
        Error::Range { .. } | Error::NoPage { .. } => "SettingError",
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
    match &e {
        Error::Switch(wrong) => named(py, class, &format!("{e}{}", where_listed(wrong))),
        _ => named(py, class, &e),
    }
}

/// What the kernel lacks, and what to do in Python: the pager's own text names calls of Rust.
fn missing(m: &Missing) -> String {
    let remedy = match m.feature {
        Feature::FullUserfaultfd => {
            "use fault_mode=\"sigbus\", which needs no privilege, and hold a pin (with array.pin(): ...) on what system \
             calls use"
        }
        _ => {
            "or use regions instead of arrays, which need nothing of the kernel: \
             pool = coldset.Pool(..., fault_mode=\"explicit\"), region = pool.region(size), with region.fix(page) as view: ..."
        }
    };
    format!("{}; {remedy}", m.reason())
}

/// Why misses cannot arrive, and what to do in Python.
fn handler(why: InstallError) -> String {
    match why {
        InstallError::Blocked => "this thread blocks SIGBUS, by which misses arrive: its first miss would end the process; unblock it \
             in every thread that uses arrays: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGBUS])"
            .into(),
        InstallError::Replaced => format!(
            "{why}. In Python that is often faulthandler: call faulthandler.enable() (or start with -X faulthandler) before the \
             first pool, and do not call faulthandler.disable(). Or it is signal.signal(signal.SIGBUS, ...): leave that out"
        ),
        InstallError::Refused(_) => why.to_string(),
    }
}

/// Where the names are that one was not among, in Python.
fn where_listed(wrong: &SwitchError) -> String {
    match wrong {
        SwitchError::Preset { name, .. }
            if name.contains('=') || Switches::NAMES.contains(&name.as_str()) =>
        {
            let assignment = match name.contains('=') {
                true => name.clone(),
                false => format!("{name}=on"),
            };
            format!("; a switch is given by switches=[\"{assignment}\"]")
        }
        SwitchError::Preset { .. } => " (see: coldset.lab.variants())".into(),
        SwitchError::Unknown { .. } => " (see: coldset.lab.switches())".into(),
        _ => String::new(),
    }
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
