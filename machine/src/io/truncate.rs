//! Truncation: pages of a file that nobody wants any longer (`docs/rules/large-folios.md#truncation`).

use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::mem::folio::pages_of;
use crate::mem::{Pte, Slot};
use crate::record::Deed;
use crate::sim::TimeClass;
use crate::vm::held::FolioRef;
use crate::world::World;
use coldset_engine::{Flags, FolioId, ObjectId};
use std::ops::Range;

impl Machine {
    /// Drops the pages of a file of a device from `page` on: they read as zeros, without the device until they are
    /// written, and what was dirty is not written. The object keeps its length. Waits for I/O that is under way there.
    pub async fn truncate(&self, ctx: &Ctx, object: ObjectId, page: u32) {
        {
            let mut w = self.w.borrow_mut();
            w.record(ctx, Deed::Truncate(object, page));
            w.objects[object.idx()].cut(page);
        }
        let mut at = page;
        loop {
            let busy = {
                let mut w = self.w.borrow_mut();
                w.engine.set_now(ctx.now());
                w.truncate_idle(ctx, object, page, &mut at)
            };
            let Some(id) = busy else { break };
            let held = FolioRef::get(self, id);
            self.wait_folio(ctx, held.id).await;
        }
        self.w.borrow_mut().pay(ctx);
        ctx.maybe_settle().await;
    }
}

impl World {
    /// Drops pages of a file that ends before page `end` from now on, from `at` on, up to the first folio
    /// that is busy, which it returns.
    fn truncate_idle(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        end: u32,
        at: &mut u32,
    ) -> Option<FolioId> {
        while let Some(page) = self.objects[object.idx()].next_used(*at) {
            *at = page + 1;
            let Slot::Folio(id) = self.objects[object.idx()].slot(page) else {
                self.objects[object.idx()].set_slot(page, Slot::Empty);
                self.objects[object.idx()].zero(page..page + 1);
                self.node_used_up(object, page);
                continue;
            };
            let f = self.engine.folio(id);
            if f.any(Flags::LOCKED | Flags::WRITEBACK) {
                *at = page;
                return Some(id);
            }
            let pages = pages_of(f);
            if pages.start >= end {
                *at = pages.end;
                self.drop_folio(ctx, object, id, pages);
            } else if let Some(pieces) = self.engine.folio_split(ctx.cpu(), id) {
                self.move_to_pieces(id, &pieces);
                self.engine.folio_split_done(ctx.cpu(), id, &pieces);
                *at = page;
            } else {
                // Somebody is at work on it: it stays as it is, and its end is zeros.
                self.objects[object.idx()].zero(page..pages.end);
                *at = pages.end;
            }
        }
        None
    }

    /// A folio leaves the page cache unwritten.
    fn drop_folio(&mut self, ctx: &Ctx, object: ObjectId, id: FolioId, pages: Range<u32>) {
        for i in 0..self.objects[object.idx()].mappings.len() {
            let mapping = self.objects[object.idx()].mappings[i];
            let m = &mut self.mappings[mapping.0 as usize];
            let mut present = 0;
            for e in m.entries_of(&pages) {
                present += u32::from(m.clear(e).contains(Pte::PRESENT));
            }
            let mm = m.mm;
            for _ in 0..present {
                self.mms[mm.idx()].file -= 1;
                self.engine.folio_unmap(id);
            }
            if present > 0 {
                let ns = self.flush_mm(Some(ctx.cpu()), ctx.now(), mm, present.into());
                ctx.charge(TimeClass::Fault, ns);
            }
        }
        let n = pages.len() as u64;
        let lruvec = self.engine.lruvec(self.engine.folio(id).lruvec());
        let (memcg, node) = (lruvec.memcg, lruvec.node);
        if self.engine.clear_dirty(id) {
            let wb = self.wb_of(object, memcg);
            self.objects[object.idx()].untag_dirty(pages.clone());
            self.wb.dirty_dropped(wb, object, n);
        }
        let o = &mut self.objects[object.idx()];
        let mut written = 0;
        for page in pages.clone() {
            o.set_slot(page, Slot::Empty);
            written += u64::from(o.detach_buffer(page));
        }
        o.zero(pages);
        if written > 0 {
            self.kernel_pages_released(memcg, node, written);
        }
        self.engine.folio_clear(id, Flags::OWNED);
        self.engine.folio_put(id, n as u32);
    }
}
