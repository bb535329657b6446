//! What is known of the pages of a region, and how pages come and go.

use crate::error::{Error, Result};
use crate::sys::memory::Table;
use coldset_engine::{FolioId, LruvecId, MemcgId, MmId, ObjectId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// What is known of the pages of a region. Changed under the lock; the owner of a page may read its
/// slot and shadow without.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) object: ObjectId,
    pub(crate) memcg: MemcgId,
    pub(crate) lruvec: LruvecId,
    pub(crate) mm: MmId,
    pub(crate) anon: bool,
    pub(super) pages: usize,
    /// Engine's folio + 1 of pages in memory.
    pub(super) folio: Table<AtomicU32>,
    /// Swap slot + 1 of evicted pages.
    pub(super) slot: Table<AtomicU32>,
    /// Shadow << 1 | 1 of evicted pages.
    pub(super) shadow: Table<AtomicU64>,
}

impl Book {
    /// Of a new region, called by these names. An error: address space for the tables.
    pub(super) fn new(
        (object, memcg, lruvec, mm): (ObjectId, MemcgId, LruvecId, MmId),
        pages: usize,
        anon: bool,
    ) -> Result<Self> {
        let sys = Error::sys("tables of a region");
        Ok(Self {
            object,
            memcg,
            lruvec,
            mm,
            anon,
            pages,
            folio: Table::new(pages).map_err(&sys)?,
            slot: Table::new(pages).map_err(&sys)?,
            shadow: Table::new(pages).map_err(&sys)?,
        })
    }

    /// The folio of a page.
    pub(crate) fn folio(&self, page: usize) -> Option<FolioId> {
        let f = self.folio[page].load(Relaxed);
        f.checked_sub(1).map(FolioId)
    }

    pub(super) fn set_folio(&self, page: usize, id: Option<FolioId>) {
        self.folio[page].store(id.map_or(0, |id| id.0 + 1), Relaxed);
    }

    /// The swap slot of an evicted page.
    pub(crate) fn slot(&self, page: usize) -> Option<u32> {
        self.slot[page].load(Relaxed).checked_sub(1)
    }

    pub(crate) fn set_slot(&self, page: usize, slot: Option<u32>) {
        self.slot[page].store(slot.map_or(0, |s| s + 1), Relaxed);
    }

    pub(super) fn take_shadow(&self, page: usize) -> Option<u64> {
        if self.shadow[page].load(Relaxed) == 0 {
            return None;
        }
        let s = self.shadow[page].swap(0, Relaxed);
        (s & 1 == 1).then_some(s >> 1)
    }

    pub(super) fn set_shadow(&self, page: usize, shadow: Option<u64>) {
        self.shadow[page].store(shadow.map_or(0, |s| s << 1 | 1), Relaxed);
    }

    /// Pages.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }
}

/// How a page comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The fault was for this very page.
    pub(crate) wanted: bool,
    /// It will be stored to at once.
    pub(crate) write: bool,
    /// It comes back because it could not be stored: no refault.
    pub(crate) returned: bool,
}

/// What became of a page that was taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Contents are in its slot or file.
    Stored,
    /// It was all zeroes: the slot is not needed.
    Zero,
    /// It could not be stored and stays.
    Back,
}
