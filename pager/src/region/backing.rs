//! The file behind a region.

use crate::store::errseq::ErrSeq;
use crate::store::room::Room;
use crate::store::Storage;
use crate::sys::PAGE;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A file behind a region.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) storage: Arc<dyn Storage>,
    /// Bytes of the file that the region covers; beyond it the last page reads as zeroes.
    pub(crate) len: u64,
    pub(crate) writable: bool,
    /// Errors of writes that nobody waited for.
    pub(crate) errors: ErrSeq,
    /// What evictions wait for when its disk is full; knows its name.
    pub(crate) room: Room,
}

impl Backing {
    /// `path`: the file as the program has named it, if it has a name. `full_wait`: how long evictions wait for room.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        len: u64,
        writable: bool,
        path: Option<&Path>,
        full_wait: Duration,
    ) -> Self {
        let name = path.map_or("a file".into(), |p| format!("the file {}", p.display()));
        Self {
            storage,
            len,
            writable,
            errors: ErrSeq::default(),
            room: Room::new(name, full_wait),
        }
    }

    /// What is done with it (`reading`, `writing`), for messages.
    pub(crate) fn doing(&self, what: &str) -> Cow<'static, str> {
        format!("{what} {}", self.room.what()).into()
    }

    /// Offset of a page, and how many bytes of `pages` pages from there the file has.
    pub(crate) fn part(&self, page: usize, pages: usize) -> (u64, usize) {
        let from = (page * PAGE) as u64;
        let have = self.len.saturating_sub(from).min((pages * PAGE) as u64);
        (from, have as usize)
    }
}
