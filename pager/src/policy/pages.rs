//! Regions, and their pages: in, out, dirty.

use super::{Arrival, Book, Left, Policy, CPU};
use crate::error::Result;
use crate::plant::{self, Plant};
use crate::record::ops::Op;
use crate::store::Swap;
use coldset_engine::memcg::CounterKind;
use coldset_engine::workingset::{refault::RefaultSite, Shadow};
use coldset_engine::{Flags, FolioId, MemcgId, MmId, NewFolio, NodeId, ObjectId};
use std::sync::Arc;

impl Policy {
    /// A new region, with its book.
    pub(crate) fn open(&mut self, memcg: MemcgId, pages: usize, anon: bool) -> Result<Arc<Book>> {
        let object = ObjectId(self.next_object);
        let lruvec = self.engine.lruvec_id(memcg, NodeId(0));
        let mut book = Book::new(
            (object, memcg, lruvec, MmId::NONE),
            pages,
            anon,
            self.records.clone(),
        )?;
        self.note(Op::Open(memcg, pages as u64, anon));
        self.next_object += 1;
        book.mm = self.engine.mm_create(memcg);
        let book = Arc::new(book);
        self.books.insert(object, book.clone());
        Ok(book)
    }

    /// The region is gone; all its pages have been forgotten.
    pub(crate) fn close(&mut self, book: &Book) {
        self.note(Op::Close(book.object));
        self.books.remove(&book.object);
        self.engine.mm_destroy(book.mm);
    }

    /// The book of a region.
    pub(crate) fn book(&self, object: ObjectId) -> Option<Arc<Book>> {
        self.books.get(&object).cloned()
    }

    /// A charged page of a region is in memory: the engine is told.
    pub(crate) fn insert(&mut self, book: &Book, swap: Option<&Swap>, page: usize, how: Arrival) {
        self.note(Op::Insert(book.object, page as u64, how));
        self.insert_noted(book, swap, page, how);
    }

    fn insert_noted(&mut self, book: &Book, swap: Option<&Swap>, page: usize, how: Arrival) {
        let flags = if book.anon {
            Flags::ANON | Flags::SWAPBACKED | Flags::UPTODATE
        } else {
            Flags::OWNED | Flags::UPTODATE
        };
        let eng = &mut self.engine;
        let id = eng.folio_alloc(NewFolio::page(book.lruvec, book.object, page as u32, flags));
        if !book.anon {
            eng.folio_get(id, 1);
        }
        eng.folio_map(id);
        book.set_folio(page, Some(id));
        let shadow = book.take_shadow(page);
        if let Some(s) = shadow.filter(|_| !how.returned) {
            eng.refault(id, Shadow(s), RefaultSite::Fault);
        }
        if let Some(slot) = book.slot(page) {
            book.set_slot(page, None);
            // A copy that is about to grow old is only in the way.
            if !how.write && !how.returned && how.keep {
                self.engine.enter_swap_cache(id, slot);
            } else {
                self.give_slot(swap, slot);
            }
        }
        if how.write && !book.anon {
            self.engine.set_dirty(id);
        }
        self.engine.lru_add(CPU, id, how.wanted);
        self.engine.folio_put(id, 1);
        self.forget_newly_dirty();
    }

    /// The page's owner (its region is going away, or the fill failed) takes it from the engine.
    pub(crate) fn forget(&mut self, book: &Book, swap: Option<&Swap>, page: usize) {
        self.note(Op::Forget(book.object, page as u64));
        if let Some(id) = book.folio(page) {
            book.set_folio(page, None);
            let eng = &mut self.engine;
            eng.folio_get(id, 1);
            while eng.folio(id).mapped() {
                eng.folio_unmap(id);
            }
            if let Some(slot) = eng.folio(id).swap_slot() {
                eng.leave_swap_cache(id);
                self.give_slot(swap, slot);
            }
            let eng = &mut self.engine;
            if eng.folio(id).has(Flags::OWNED) {
                eng.folio_clear(id, Flags::OWNED);
                eng.folio_put(id, 1);
            }
            eng.clear_dirty(id);
            eng.folio_put(id, 1);
        }
        if let Some(slot) = book.slot(page) {
            book.set_slot(page, None);
            if !plant::on(Plant::SlotLeaked) {
                self.give_slot(swap, slot);
            }
        }
        book.set_shadow(page, None);
    }

    /// A page that [`Self::collect`] has given away has left memory, or comes back. Its slot, shadow.
    pub(crate) fn left(
        &mut self,
        book: &Book,
        swap: Option<&Swap>,
        page: usize,
        what: Left,
        slot: Option<u32>,
        shadow: Option<u64>,
    ) {
        self.note(Op::Left(book.object, page as u64, what, slot, shadow));
        book.set_slot(page, None);
        match what {
            Left::Stored => {
                book.set_slot(page, slot);
                book.set_shadow(page, shadow);
            }
            Left::Zero => {
                if let Some(slot) = slot {
                    self.give_slot(swap, slot);
                }
                book.set_shadow(page, shadow);
            }
            Left::Back => {
                if let Some(slot) = slot {
                    self.give_slot(swap, slot);
                }
                let tree = &mut self.engine.memcgs;
                tree.charge_forced(book.memcg, CounterKind::Memory, 1);
                let how = Arrival {
                    wanted: false,
                    write: !book.anon,
                    returned: true,
                    keep: false,
                };
                self.insert_noted(book, swap, page, how);
            }
        }
    }
    pub(crate) fn set_dirty(&mut self, id: FolioId) {
        self.note(Op::Dirty(id));
        self.engine.set_dirty(id);
        self.forget_newly_dirty();
    }

    /// Stores that nobody has seen yet count as dirtied now, and the page is on its way.
    pub(crate) fn writeback_start(&mut self, id: FolioId) {
        self.note(Op::WritebackStart(id));
        self.engine.set_dirty(id);
        self.engine.clear_dirty(id);
        self.engine.writeback_start(id);
        self.forget_newly_dirty();
    }

    pub(crate) fn writeback_end(&mut self, id: FolioId, failed: bool) {
        self.note(Op::WritebackEnd(id, failed));
        if failed {
            self.engine.set_dirty(id);
        }
        self.engine.writeback_end(CPU, id);
        self.forget_newly_dirty();
    }

    /// The engine remembers newly dirty folios for a flusher that queues them; ours finds them by
    /// block.
    pub(super) fn forget_newly_dirty(&mut self) {
        if self.engine.has_newly_dirty() {
            self.engine.take_newly_dirty(&mut self.spare);
        }
    }
}
