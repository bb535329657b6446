//! What belongs to the process that made it.

use crate::errors::raise;
use coldset_pager::Error;
use pyo3::prelude::*;

/// A value that a child of fork leaves alone: what the pager holds may be locked there for ever, and
/// its threads are gone.
pub struct Held<T> {
    value: Option<T>,
    pid: u32,
}

impl<T> Held<T> {
    pub fn new(value: T) -> Self {
        Self {
            value: Some(value),
            pid: std::process::id(),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// `ForkedError` in a child of fork.
    pub fn get(&self, py: Python<'_>) -> PyResult<&T> {
        match &self.value {
            Some(v) if std::process::id() == self.pid => Ok(v),
            Some(_) => Err(raise(py, Error::Forked)),
            None => Err(raise(py, Error::Closed)),
        }
    }

    /// The value, also in a child of fork: for what neither waits nor changes.
    ///
    /// # Errors
    /// `ClosedError` when it has been taken.
    pub fn anywhere(&self, py: Python<'_>) -> PyResult<&T> {
        let value = self.value.as_ref();
        value.ok_or_else(|| raise(py, Error::Closed))
    }

    /// The value, for good; none in a child of fork.
    pub fn take(&mut self) -> Option<T> {
        if std::process::id() == self.pid {
            return self.value.take();
        }
        std::mem::forget(self.value.take());
        None
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
