//! How the command ends.

use coldset_guest::GuestError;
use coldset_lab::runner::RunnerError;
use coldset_lab::sweep::SweepError;
use coldset_pager::journal::JournalError;
use coldset_pager::observe::ObserveError;
use coldset_play::PlayError;
use std::io;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything judged is in.
    Good,
    /// Something judged is out.
    Out,
}

impl Verdict {
    /// In or out.
    pub fn of(good: bool) -> Self {
        if good {
            Self::Good
        } else {
            Self::Out
        }
    }
}

/// Why there is no result. Every message is one line.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something of the lab.
    #[error(transparent)]
    Lab(#[from] RunnerError),
    /// A trace that cannot be played.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// A kernel that cannot be run.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A sweep as a whole.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Something outside of this program is missing or has failed.
    #[error("{0}")]
    Surroundings(String),
    /// A journal of the pager that cannot be replayed.
    #[error("{name}: {error}")]
    Journal {
        /// File, or "standard output".
        name: String,
        /// What is wrong.
        error: JournalError,
    },
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
    /// Output cannot be written.
    #[error(
        "{name}: cannot write: {source}; check the folder, its permissions and the free space"
    )]
    Write {
        /// File, or "standard output".
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// Input cannot be read.
    #[error("{name}: cannot read: {source}; check the name and its permissions")]
    Read {
        /// File, or "standard output".
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A process cannot be looked at.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// No process at all can be looked at.
    #[error(
        "no process of this user has a pool that can be observed; start one with COLDSET_OBSERVE=1"
    )]
    NobodyObserved,
    /// The terminal cannot be drawn on.
    #[error("the terminal: {0}; try --once")]
    Terminal(io::Error),
    /// The reader of our output has gone.
    #[error("output closed")]
    PipeClosed,
}

impl Failure {
    /// Exit code: 1 for a journal that diverges, 2 for what the user can put right in the arguments, 3 for the surroundings.
    pub fn code(&self) -> u8 {
        match self {
            Self::Lab(error) if error.is_environment() => 3,
            Self::Sweep(error) if error.is_environment() => 3,
            Self::Sweep(_) => 2,
            Self::Surroundings(_) => 3,
            Self::Play(PlayError::Plan(_)) => 2,
            Self::Play(_) | Self::Guest(_) => 3,
            // A judgement: this engine does not decide as that one did.
            Self::Journal {
                error: JournalError::Diverged { .. },
                ..
            } => 1,
            Self::Journal {
                error: JournalError::Io(_),
                ..
            } => 3,
            Self::Lab(_) | Self::Usage(_) | Self::Read { .. } | Self::Journal { .. } => 2,
            Self::Write { .. } | Self::PipeClosed => 3,
            Self::Observe(_) | Self::NobodyObserved | Self::Terminal(_) => 3,
        }
    }

    /// A failure to write `name`.
    pub fn write(name: &str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            return Self::PipeClosed;
        }
        Self::Write {
            name: name.into(),
            source,
        }
    }
}
