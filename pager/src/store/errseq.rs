//! Errors of writes that nobody waited for, told once to every handle that syncs afterwards, as a kernel's
//! errseq does it for the file descriptors of a file.
//!
//! Who syncs a range learns of its own pages from its own writes. What is kept here comes from elsewhere:
//! the flusher, eviction, writers at the dirty limit, a failed sync of somebody else, a region that was
//! dropped.

use crate::error::{copy_of, Error};
use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard};

/// Every error of the process has a number of its own.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The last error of a file, or of a pool.
#[derive(Debug, Default)]
pub(crate) struct ErrSeq(Mutex<Option<Noted>>);

#[derive(Debug)]
struct Noted {
    number: u64,
    /// What was tried, with the name of the file if it is known.
    what: Cow<'static, str>,
    error: io::Error,
}

/// How far a handle has been told.
#[derive(Debug)]
pub(crate) struct Cursor(AtomicU64);

impl Cursor {
    /// Of a new handle: what has happened before it is told to others.
    pub(crate) fn now() -> Self {
        Self(AtomicU64::new(NEXT.load(Acquire) - 1))
    }
}

impl Clone for Cursor {
    /// Another handle, told as much.
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Acquire)))
    }
}

impl ErrSeq {
    fn last(&self) -> MutexGuard<'_, Option<Noted>> {
        // Nothing but an assignment happens under the lock.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// An error that nobody waited for.
    pub(crate) fn note(&self, what: impl Into<Cow<'static, str>>, e: &io::Error) {
        let mut last = self.last();
        // Numbered under the lock, so that numbers of one sequence only grow.
        *last = Some(Noted {
            number: NEXT.fetch_add(1, AcqRel),
            what: what.into(),
            error: copy_of(e),
        });
    }

    /// The last error, as a sentence behind another one; nothing if there has been none.
    pub(crate) fn latest(&self) -> String {
        let last = self.last();
        last.as_ref().map_or_else(String::new, |n| {
            format!("; the last error of a store was: {}: {}", n.what, n.error)
        })
    }

    /// # Errors
    /// The last error, if the handle has not been told of it. Then it has.
    pub(crate) fn check(&self, cursor: &Cursor) -> Result<(), Error> {
        let last = self.last();
        let Some(n) = last.as_ref() else {
            return Ok(());
        };
        if cursor.0.fetch_max(n.number, AcqRel) >= n.number {
            return Ok(());
        }
        Err(Error::io(n.what.clone())(copy_of(&n.error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(told: Result<(), Error>) -> Option<i32> {
        match told {
            Ok(()) => None,
            Err(Error::Io { source, .. }) => source.raw_os_error(),
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn every_handle_is_told_once() {
        let seq = ErrSeq::default();
        let (a, b) = (Cursor::now(), Cursor::now());
        assert!(seq.check(&a).is_ok());
        seq.note("writing", &io::Error::from_raw_os_error(5));
        let late = Cursor::now();
        assert_eq!(code(seq.check(&a)), Some(5));
        assert!(seq.check(&a).is_ok());
        let copy = b.clone();
        assert_eq!(code(seq.check(&b)), Some(5));
        assert_eq!(code(seq.check(&copy)), Some(5));
        assert!(seq.check(&late).is_ok());
        seq.note("writing", &io::Error::from_raw_os_error(28));
        for c in [&a, &b, &late] {
            assert_eq!(code(seq.check(c)), Some(28));
            assert!(seq.check(c).is_ok());
        }
    }
}
