//! Why a kernel cannot be run.

use std::io;

/// Why there is no result of a guest. Every message is one line and says what helps.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A program that is not installed.
    #[error("{program} is missing; install it: apt-get install {package}")]
    Program {
        /// Its name.
        program: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// A kernel that is not to be had.
    #[error("no kernel {wanted}: {have}; see coldset kernel list, or name a file: --kernel vmlinuz --modules DIR")]
    NoKernel {
        /// As asked for.
        wanted: String,
        /// What there is.
        have: String,
    },
    /// A module the guest cannot do without.
    #[error("the kernel has no {name}, neither built in nor as a module in {dir}; build it with {config}")]
    NoModule {
        /// Its name.
        name: &'static str,
        /// Where it was looked for.
        dir: String,
        /// The option of the kernel's configuration.
        config: &'static str,
    },
    /// A program has failed.
    #[error("{program}: {said}")]
    Failed {
        /// Which.
        program: String,
        /// The last line it said.
        said: String,
    },
    /// The guest has not come to an end.
    #[error("the guest {what}; its console ends: {console}")]
    Guest {
        /// What it did.
        what: String,
        /// Last line of its console.
        console: String,
    },
    /// A file, a folder.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the name.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl GuestError {
    /// For `map_err`: something failed while `what` was done.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
