//! The file behind a region.

use crate::store::errseq::ErrSeq;
use crate::store::Storage;
use crate::sys::PAGE;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file behind a region.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) storage: Arc<dyn Storage>,
    /// Bytes of the file that the region covers; beyond it the last page reads as zeroes.
    pub(crate) len: u64,
    pub(crate) writable: bool,
    /// Errors of writes that nobody waited for.
    pub(crate) errors: ErrSeq,
    /// The file as the program has named it, if it has a name.
    path: Option<PathBuf>,
}

impl Backing {
    pub(crate) fn new(storage: Arc<dyn Storage>, len: u64, writable: bool) -> Self {
        Self {
            storage,
            len,
            writable,
            errors: ErrSeq::default(),
            path: None,
        }
    }

    /// With its name, for messages.
    pub(crate) fn named(mut self, path: &Path) -> Self {
        self.path = Some(path.into());
        self
    }

    /// What is done with it (`reading`, `writing`), for messages.
    pub(crate) fn doing(&self, what: &str) -> Cow<'static, str> {
        match &self.path {
            Some(path) => format!("{what} the file {}", path.display()).into(),
            None => format!("{what} a file").into(),
        }
    }

    /// Offset of a page, and how many bytes of `pages` pages from there the file has.
    pub(crate) fn part(&self, page: usize, pages: usize) -> (u64, usize) {
        let from = (page * PAGE) as u64;
        let have = self.len.saturating_sub(from).min((pages * PAGE) as u64);
        (from, have as usize)
    }
}
