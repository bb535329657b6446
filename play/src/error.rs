//! Why a run is not possible.

use std::io;
use std::path::{Path, PathBuf};

/// Why a trace cannot be played. Every message is one line and says what helps.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// No memory controller is mounted.
    #[error("no memory cgroup is mounted; mount one (mount -t cgroup2 none /sys/fs/cgroup) or play in a VM")]
    NoCgroup,
    /// A cgroup cannot be made or used.
    #[error("{}: {source}; as root, or with a delegated cgroup: systemd-run --user --scope -p Delegate=yes coldset play ...", .path.display())]
    Denied {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A value that a cgroup refuses.
    #[error("{}: the kernel refuses {value}: {source}", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What was written to it.
        value: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the trace cannot be made, or something else of the system fails.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the name of the file.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not say what it scans.
    #[error("the kernel's reclaim tracepoints (events/vmscan) cannot be read; as root: mount -t tracefs none /sys/kernel/tracing, or leave --scans out")]
    NoTracepoints,
    /// The worker cannot do an access.
    #[error("{0}")]
    Worker(String),
    /// Stopped from outside.
    #[error("interrupted; files are removed, and cgroups are as they were")]
    Interrupted,
    /// A plan that does not fit the trace.
    #[error("{0}")]
    Plan(String),
}

impl PlayError {
    /// For `map_err`: something failed while `what` was done.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// For `map_err`: `path` may not be used.
    pub(crate) fn denied(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Denied {
            path: path.to_owned(),
            source,
        }
    }
}
