//! Descriptors that this process was started with.

#![allow(unsafe_code)]

use rustix::fd::{BorrowedFd, FromRawFd, RawFd};
use std::fs::File;
use std::io;

/// The descriptor of that number, which becomes the caller's. To be asked for once.
///
/// # Errors
/// There is none.
pub(crate) fn inherited(number: RawFd) -> io::Result<File> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is only asked whether it is open.
    rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) })?;
    // SAFETY: it is open, and whoever started this process gave it the number for nothing else: nobody else
    // here owns it.
    Ok(unsafe { File::from_raw_fd(number) })
}
