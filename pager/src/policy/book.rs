//! What is known of the pages of a region, and how pages come and go.

use crate::error::{Error, Result};
use crate::sys::records::{Record, Records};
use coldset_engine::{FolioId, LruvecId, MemcgId, MmId, ObjectId};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// What is known of the pages of a region. Changed under the lock; the owner of a page may read its
/// slot and shadow without.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) object: ObjectId,
    pub(crate) memcg: MemcgId,
    pub(crate) lruvec: LruvecId,
    pub(crate) mm: MmId,
    pub(crate) anon: bool,
    pub(crate) records: Arc<Records>,
}

impl Book {
    /// Of a new region, called by these names; `meter` counts the memory it takes. An error:
    /// address space for the records.
    pub(super) fn new(
        (object, memcg, lruvec, mm): (ObjectId, MemcgId, LruvecId, MmId),
        pages: usize,
        anon: bool,
        meter: Arc<AtomicU64>,
    ) -> Result<Self> {
        let records = Records::new(pages, meter).map_err(Error::sys("records of a region"))?;
        Ok(Self {
            object,
            memcg,
            lruvec,
            mm,
            anon,
            records: Arc::new(records),
        })
    }

    /// The folio of a page.
    pub(crate) fn folio(&self, page: usize) -> Option<FolioId> {
        let r = self.records.find(page)?;
        r.folio().load(Relaxed).checked_sub(1).map(FolioId)
    }

    pub(super) fn set_folio(&self, page: usize, id: Option<FolioId>) {
        if let Some(r) = self.to_set(page, id.is_some()) {
            r.folio().store(id.map_or(0, |id| id.0 + 1), Relaxed);
        }
    }

    /// The swap slot of an evicted page.
    pub(crate) fn slot(&self, page: usize) -> Option<u32> {
        self.records.find(page)?.slot().load(Relaxed).checked_sub(1)
    }

    pub(crate) fn set_slot(&self, page: usize, slot: Option<u32>) {
        if let Some(r) = self.to_set(page, slot.is_some()) {
            r.slot().store(slot.map_or(0, |s| s + 1), Relaxed);
        }
    }

    pub(super) fn take_shadow(&self, page: usize) -> Option<u64> {
        let r = self.records.find(page)?;
        if r.shadow().load(Relaxed) == 0 {
            return None;
        }
        let s = r.shadow().swap(0, Relaxed);
        (s & 1 == 1).then_some(s >> 1)
    }

    pub(super) fn set_shadow(&self, page: usize, shadow: Option<u64>) {
        if let Some(r) = self.to_set(page, shadow.is_some()) {
            r.shadow().store(shadow.map_or(0, |s| s << 1 | 1), Relaxed);
        }
    }

    /// The record to set a value in: nothing is made for what reads as nothing anyway.
    fn to_set(&self, page: usize, some: bool) -> Option<Record<'_>> {
        if some {
            Some(self.records.make(page))
        } else {
            self.records.find(page)
        }
    }

    /// Pages of the region, known or not.
    pub(crate) fn pages(&self) -> usize {
        self.records.pages()
    }
}
