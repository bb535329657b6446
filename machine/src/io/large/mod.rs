//! Large folios of files (`docs/rules/large-folios.md`): which order a write makes, the new folio, and a
//! folio that becomes single pages.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::io::page_in::Purpose;
use crate::machine::Machine;
use crate::mem::folio::{pages_of, MAX_ORDER};
use crate::mem::{Backing, Slot};
use crate::sim::TimeClass;
use crate::vm::wanted::Wanted;
use crate::world::World;
use coldset_engine::{Flags, FolioId, MemcgId, NewFolio, ObjectId};
use std::ops::Range;

/// The largest order up to `largest` of an aligned folio at the beginning of `pages` that lies within them.
pub(crate) fn aligned_order(pages: &Range<u32>, largest: u8) -> u8 {
    let aligned = pages.start.trailing_zeros() as u8;
    let fits = (pages.len() as u32).checked_ilog2().unwrap_or(0) as u8;
    aligned.min(fits).min(largest)
}

impl World {
    /// Greatest order of a folio of this object; 0: single pages.
    #[inline]
    pub(crate) fn largest_order(&self, object: ObjectId) -> u8 {
        match self.objects[object.idx()].backing {
            Backing::File { device, .. } => self.large_folios[device],
            _ => 0,
        }
    }

    /// Order of the folio that a write of whole `pages` begins with: the largest that is aligned, that the
    /// write fills, and in whose place nothing is cached. 0: a single page, or one that is there already.
    #[inline]
    pub(crate) fn order_of_write(&self, object: ObjectId, pages: Range<u32>) -> u8 {
        match self.largest_order(object) {
            0 => 0,
            largest => self.order_within(object, pages, largest),
        }
    }

    /// The largest order up to `largest` of an aligned folio at the beginning of `pages` that lies within
    /// them and finds its place empty.
    pub(crate) fn order_within(&self, object: ObjectId, pages: Range<u32>, largest: u8) -> u8 {
        let order = aligned_order(&pages, largest);
        let empty = self.empty_from(object, pages.start, 1 << order);
        empty.checked_ilog2().unwrap_or(0) as u8
    }

    /// Pages from `page` on without a folio, up to `most`.
    pub(crate) fn empty_from(&self, object: ObjectId, page: u32, most: u32) -> u32 {
        let o = &self.objects[object.idx()];
        let empty = |p: &u32| *p >= o.pages() || o.word(*p).folio().is_none();
        (page..page + most).take_while(empty).count() as u32
    }

    /// A new large folio, in all of its slots, which hold a reference each. It has been charged.
    pub(crate) fn insert_large_folio(
        &mut self,
        ctx: &Ctx,
        memcg: MemcgId,
        object: ObjectId,
        page: u32,
        order: u8,
        flags: Flags,
    ) -> FolioId {
        let (node, zone) = self.place_of_new(ctx.reach(), 1 << order);
        let lruvec = self.engine.lruvec_id(memcg, node);
        let new = NewFolio {
            order,
            zone,
            ..NewFolio::page(lruvec, object, page, flags)
        };
        let id = self.engine.folio_alloc(new);
        self.engine.folio_get(id, (1 << order) - 1);
        self.fill_slots(id);
        id
    }

    /// A new huge folio of anonymous memory, in all of its slots. They hold none of its references: the one
    /// there is is the caller's. It has been charged.
    pub(crate) fn insert_large_anon(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        flags: Flags,
    ) -> FolioId {
        let (node, zone) = self.place_of_new(ctx.reach(), 1 << MAX_ORDER);
        let lruvec = self.engine.lruvec_id(ctx.memcg, node);
        let new = NewFolio {
            order: MAX_ORDER,
            zone,
            ..NewFolio::page(lruvec, object, page, flags)
        };
        let id = self.engine.folio_alloc(new);
        self.fill_slots(id);
        id
    }

    fn fill_slots(&mut self, id: FolioId) {
        let f = self.engine.folio(id);
        let (object, _) = f.owner();
        for page in pages_of(f) {
            self.objects[object.idx()].set_slot(page, Slot::Folio(id));
            self.node_used(object, page);
        }
    }

    /// As [`Self::insert_large_folio`], locked, for a read.
    pub(super) fn insert_large(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        order: u8,
        purpose: Purpose,
    ) -> FolioId {
        // One of the pages stands for all of them.
        let o = &self.objects[object.idx()];
        let mut slots = (page..page + (1 << order)).map(|p| o.slot(p));
        let slot = slots.find(|slot| matches!(slot, Slot::Shadow(_)));
        let flags = Flags::LOCKED | Flags::OWNED;
        let id = self.insert_large_folio(ctx, ctx.memcg, object, page, order, flags);
        self.enter(ctx, id, slot.unwrap_or(Slot::Empty), purpose);
        id
    }

    /// Index nodes that a new large folio needs first, if kernel memory is accounted.
    pub(crate) fn new_index_nodes_of(&mut self, object: ObjectId, page: u32, order: u8) -> u64 {
        match self.kernel {
            Some(_) => self.objects[object.idx()].touch_nodes_of(page, order),
            None => 0,
        }
    }

    /// A large folio has become single pages: its slots and its mappings go to the `pieces`, the folios of
    /// the pages after the first.
    pub(crate) fn move_to_pieces(&mut self, folio: FolioId, pieces: &[FolioId]) {
        let f = self.engine.folio(folio);
        let (object, first) = f.owner();
        if f.has(Flags::ANON) {
            self.split_entries(folio, pieces);
        }
        for (piece, page) in pieces.iter().zip(first + 1..) {
            // A page that was dropped is nobody's; another folio may be in its place.
            if self.objects[object.idx()].word(page).folio() != Some(folio) {
                continue;
            }
            self.objects[object.idx()].set_slot(page, Slot::Folio(*piece));
            for i in 0..self.objects[object.idx()].mappings.len() {
                let id = self.objects[object.idx()].mappings[i];
                let m = &self.mappings[id.0 as usize];
                let mapped = |e| m.ptes.is_present(e);
                if m.entry_of(page).is_some_and(mapped) {
                    self.engine.folio_map(*piece);
                    self.engine.folio_unmap(folio);
                }
            }
        }
    }
}

impl Machine {
    /// Writes the first of `pages` with one new folio as large as [`World::order_of_write`] says, or a
    /// smaller one if there is no memory for that. Returns pages written; 0: a single page is wanted.
    pub(super) async fn write_large(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        pages: Range<u32>,
    ) -> Result<u32, OpError> {
        let page = pages.start;
        let mut largest = {
            let mut w = self.w.borrow_mut();
            w.engine.set_now(ctx.now());
            w.objects[object.idx()].grow(pages.end);
            w.largest_order(object)
        };
        loop {
            // Another task may have brought a page in, at any wait.
            let order = {
                let w = self.w.borrow();
                w.order_within(object, pages.clone(), largest)
            };
            if order == 0 {
                return Ok(0);
            }
            match self.new_large_folio(ctx, object, page, order).await {
                Ok(Some(id)) => {
                    let fresh = self.w.borrow_mut().fill_large(ctx, object, id);
                    self.charge_kernel(ctx, ctx.memcg, 0, 0, fresh).await?;
                    return Ok(1 << order);
                }
                Ok(None) => {}
                Err(OpError::NoMemory) if !ctx.killed() => largest = order - 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Charges and inserts a large folio, which nobody has used yet. `None` if its place is no longer
    /// empty.
    async fn new_large_folio(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        order: u8,
    ) -> Result<Option<FolioId>, OpError> {
        let nodes = self.w.borrow_mut().new_index_nodes_of(object, page, order);
        let wanted = Wanted {
            to_write: true,
            ..Wanted::new(ctx.memcg, 1 << order)
        };
        let charge = self.get_wanted(ctx, wanted).await?;
        self.charge_kernel(ctx, ctx.memcg, nodes, 0, 0).await?;
        let mut w = self.w.borrow_mut();
        if w.empty_from(object, page, 1 << order) < 1 << order {
            return Ok(None);
        }
        let flags = Flags::OWNED | Flags::UPTODATE;
        let id = w.insert_large_folio(ctx, ctx.memcg, object, page, order, flags);
        w.engine.lru_add(ctx.cpu(), id, false);
        drop(w);
        charge.keep();
        Ok(Some(id))
    }
}

impl World {
    /// A write fills a new folio. Returns pages for which the file system needs memory.
    fn fill_large(&mut self, ctx: &Ctx, object: ObjectId, id: FolioId) -> u64 {
        let pages = pages_of(self.engine.folio(id));
        for page in pages.clone() {
            self.objects[object.idx()].store(page);
        }
        self.engine.set_dirty(id);
        self.note_dirty(ctx);
        let ns = self.params.buffered_io_page_ns * pages.len() as u64;
        ctx.charge(TimeClass::Fault, ns);
        let fresh = pages
            .filter(|&page| self.attach_buffer(object, page))
            .count() as u64;
        self.pay(ctx);
        fresh
    }
}

#[cfg(test)]
mod tests;
