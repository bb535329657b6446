//! Threads in which a policy outside of the engine thinks.

use crate::error::{Error, Result};
use std::cell::Cell;

thread_local! {
    /// A method of a policy runs in this thread.
    static DECIDING: Cell<bool> = const { Cell::new(false) };
}

/// Refuses calls that a method of a policy makes.
///
/// # Errors
/// This thread is in one.
pub(crate) fn refuse_inside() -> Result<()> {
    match DECIDING.get() {
        true => Err(Error::Mode(
            "the methods of a policy cannot use a pool: it waits for them",
        )),
        false => Ok(()),
    }
}

/// A method of a policy runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Deciding;

impl Deciding {
    pub(crate) fn begin() -> Self {
        DECIDING.set(true);
        Self
    }
}

impl Drop for Deciding {
    fn drop(&mut self) {
        DECIDING.set(false);
    }
}
