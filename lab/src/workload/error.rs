//! A workload that cannot be used.

use std::fmt;

/// What is wrong with a workload, in one line: where, which key, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError {
    /// The file, or what the workload was given as.
    pub origin: String,
    /// Line of the file, from 1; none if it is no file.
    pub line: Option<usize>,
    /// The key, with the tables it is in: `tasks[1].phases[1].time`; empty for the whole.
    pub key: String,
    /// What is wrong, and what to write.
    pub problem: String,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for WorkloadError {}
