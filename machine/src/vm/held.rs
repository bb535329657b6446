//! What a task holds over a wait: memory not yet in use, references to folios, folios whose contents
//! have not been asked for yet. A task can be killed in any wait, so each gives itself back when
//! dropped.

use crate::ctx::Reach;
use crate::machine::Machine;
use coldset_engine::{FolioId, MemcgId, ObjectId};
use std::ops::Range;

/// Charged and allocated pages that nothing uses yet.
#[must_use = "memory that is not kept is given back"]
pub(crate) struct Charge<'a> {
    machine: &'a Machine,
    memcg: MemcgId,
    reach: Reach,
    /// Pages charged to the memcg.
    charged: u64,
    /// Pages taken from zones.
    pub(super) taken: u64,
}

impl<'a> Charge<'a> {
    pub(super) fn new(machine: &'a Machine, memcg: MemcgId, reach: Reach, n: u64) -> Self {
        Self {
            machine,
            memcg,
            reach,
            charged: n,
            taken: 0,
        }
    }

    /// Charged and allocated in full.
    #[inline]
    pub(super) fn complete(machine: &'a Machine, memcg: MemcgId, reach: Reach, n: u64) -> Self {
        let mut charge = Self::new(machine, memcg, reach, n);
        charge.taken = n;
        charge
    }

    /// The pages are in use from now on: a folio or the kernel has them.
    #[inline]
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut w = self.machine.w.borrow_mut();
        w.give_pages(self.memcg, self.reach, self.charged, self.taken);
    }
}

/// A reference to a folio.
pub(crate) struct FolioRef<'a> {
    machine: &'a Machine,
    pub(crate) id: FolioId,
}

impl<'a> FolioRef<'a> {
    /// Takes over a reference that the caller has.
    pub(crate) fn of(machine: &'a Machine, id: FolioId) -> Self {
        Self { machine, id }
    }

    /// Takes a reference.
    pub(crate) fn get(machine: &'a Machine, id: FolioId) -> Self {
        machine.w.borrow_mut().engine.folio_get(id, 1);
        Self { machine, id }
    }
}

impl Drop for FolioRef<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.machine.w.borrow_mut().engine.folio_put(self.id, 1);
        }
    }
}

/// A run of new pages of a file, locked: their read has not been submitted yet.
pub(crate) struct NewPages<'a> {
    machine: &'a Machine,
    pub(crate) object: ObjectId,
    pages: Range<u32>,
    /// The folio of the first page, once there is one.
    first: FolioId,
}

impl<'a> NewPages<'a> {
    /// None yet; the first will be `page`.
    pub(crate) fn new(machine: &'a Machine, object: ObjectId, page: u32) -> Self {
        Self {
            machine,
            object,
            pages: page..page,
            first: FolioId(0),
        }
    }

    /// A folio of the next `pages` pages has been inserted.
    #[inline]
    pub(crate) fn push(&mut self, folio: FolioId, pages: u32) {
        if self.is_empty() {
            self.first = folio;
        }
        self.pages.end += pages;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The pages.
    pub(crate) fn pages(&self) -> &Range<u32> {
        &self.pages
    }

    /// The page after the last one.
    pub(crate) fn next(&self) -> u32 {
        self.pages.end
    }

    /// The pages, whose read is submitted at once, and the folio of the first.
    #[inline]
    pub(crate) fn submitted(&mut self) -> (FolioId, Range<u32>) {
        let none = self.pages.end..self.pages.end;
        (self.first, std::mem::replace(&mut self.pages, none))
    }
}

impl Drop for NewPages<'_> {
    fn drop(&mut self) {
        if !self.is_empty() && !std::thread::panicking() {
            let mut w = self.machine.w.borrow_mut();
            w.fail_read(self.object, &self.pages);
        }
    }
}
