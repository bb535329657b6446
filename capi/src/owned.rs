//! What belongs to the process that made it.

use crate::error::Failure;
use coldset_pager::Error;

/// A value that a child of fork neither uses nor drops: what the pager holds may be locked there for
/// ever, and its threads are gone.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    value: Option<T>,
    pid: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            pid: std::process::id(),
        }
    }

    pub(crate) fn get(&self) -> Result<&T, Failure> {
        match &self.value {
            Some(v) if std::process::id() == self.pid => Ok(v),
            Some(_) => Err(Error::Forked.into()),
            None => Err(Error::Closed.into()),
        }
    }

    /// The value, for good.
    pub(crate) fn take(mut self) -> Result<T, Failure> {
        self.get()?;
        self.value.take().ok_or_else(|| Error::Closed.into())
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            std::mem::forget(self.value.take());
        }
    }
}
