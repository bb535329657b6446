//! What can go wrong with a sweep as a whole. A cell that fails is no error of the sweep.

use crate::runner::RunnerError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a sweep cannot be done. Every message is one line.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The grid cannot be used.
    #[error("{grid}: {problem}")]
    Grid {
        /// File, or what the grid was given as.
        grid: String,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// Names, values, traces.
    #[error(transparent)]
    Lab(#[from] RunnerError),
    /// A file or a folder.
    #[error("{path}: {doing}: {source}; check the folder, its permissions and the free space")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// Cause.
        source: io::Error,
    },
    /// A Parquet file that no sweep has written, or a damaged one.
    #[error("{path}: this is no result of a sweep ({why}); move the file away, or give another folder for the results")]
    Foreign {
        /// File.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A cell that was sent to a worker and cannot be read.
    #[error("the cell cannot be read: {0}; the worker is of another version")]
    Cell(String),
    /// Workers cannot be started, or cannot work.
    #[error("{0}")]
    Worker(String),
}

impl SweepError {
    pub(super) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            path,
            doing,
            source,
        }
    }

    pub(super) fn foreign(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Self {
        let path = path.to_owned();
        move |why| Self::Foreign {
            path: path.clone(),
            why: why.to_string(),
        }
    }

    /// True if what was asked for is in order and the surroundings failed.
    #[must_use]
    pub fn is_environment(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Foreign { .. } | Self::Worker(_) => true,
            Self::Lab(error) => error.is_environment(),
            Self::Grid { .. } | Self::Cell(_) => false,
        }
    }
}
