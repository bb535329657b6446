//! The end of a mapping: its entries are cleared, and memory that nobody can reach any longer is freed.

use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::mem::mapping::TABLE;
use crate::mem::{MappingId, Pte, Slot};
use crate::record::Deed;
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::ObjectId;
use std::ops::Range;

/// Entries whose pages are given back in one hold of the lock: a batch (`docs/rules/batches.md`).
const ZAP_BATCH: u32 = 31;
/// How many entries ahead the folio of an entry is prefetched.
const ZAP_AHEAD: u32 = 16;

impl Machine {
    /// Ends an address space: its anonymous memory is freed, its file entries are gone.
    pub fn exit_mm(&self, ctx: &Ctx, mm: coldset_engine::MmId) {
        let mut w = self.w.borrow_mut();
        w.record(ctx, Deed::Exit);
        w.engine.lru_add_drain(ctx.cpu());
        for id in w.mms[mm.idx()].mappings.clone() {
            w.unmap_all(ctx, id);
            w.free_tables(ctx, id);
        }
        w.mms[mm.idx()].mappings.clear();
        // Nothing will be mapped there again.
        w.mms[mm.idx()].gaps.clear();
        w.engine.mm_destroy(mm);
        w.proc_gone(mm);
        w.tlb.exit(mm);
        w.pay(ctx);
        if std::mem::replace(&mut w.mms[mm.idx()].alive, false) {
            let memcg = w.mms[mm.idx()].memcg;
            w.unhold_memcg(memcg);
        }
    }

    /// Removes a mapping as [`Self::munmap`] does, while other tasks run.
    pub async fn unmap(&self, ctx: &Ctx, mapping: MappingId) {
        let begun = {
            let mut w = self.w.borrow_mut();
            // What waits in this CPU's batches is put on the lists first (`docs/rules/batches.md`).
            w.engine.lru_add_drain(ctx.cpu());
            w.unmap_begin(ctx, mapping)
        };
        for from in (0..begun.unwrap_or(0)).step_by(ZAP_BATCH as usize) {
            self.w.borrow_mut().unmap_batch(ctx, mapping, from);
            ctx.maybe_settle().await;
        }
        self.munmap(ctx, mapping);
    }

    /// Removes a mapping, all at once.
    pub fn munmap(&self, ctx: &Ctx, mapping: MappingId) {
        // What waits in this CPU's batches is put on the lists first (`docs/rules/batches.md`).
        let cpu = ctx.cpu();
        self.w.borrow_mut().engine.lru_add_drain(cpu);
        self.release(ctx, mapping);
    }

    /// The last user of a mapping's memory lets it go, without settling the batches of its CPU: a
    /// reply that has been sent, a page that copy on write has replaced.
    pub fn release(&self, ctx: &Ctx, mapping: MappingId) {
        let mut w = self.w.borrow_mut();
        w.unmap_all(ctx, mapping);
        w.free_tables(ctx, mapping);
        let mm = w.mappings[mapping.0 as usize].mm;
        w.mms[mm.idx()].mappings.retain(|&m| m != mapping);
        w.pay(ctx);
        w.release_dead();
    }
}

impl World {
    /// Clears a mapping's entries. Accessed file entries count as an access; anonymous objects that
    /// nobody maps any longer lose their contents.
    fn unmap_all(&mut self, ctx: &Ctx, mapping: MappingId) {
        let Some(len) = self.unmap_begin(ctx, mapping) else {
            return;
        };
        for from in (0..len).step_by(ZAP_BATCH as usize) {
            self.unmap_batch(ctx, mapping, from);
        }
        self.unmap_end(mapping);
    }

    /// Nothing is mapped there any longer. Returns how many entries are to be cleared; none if they
    /// have been.
    fn unmap_begin(&mut self, ctx: &Ctx, mapping: MappingId) -> Option<u32> {
        let m = &mut self.mappings[mapping.0 as usize];
        if std::mem::replace(&mut m.alive, false) {
            let (object, place) = (m.object, m.place.unwrap_or(mapping));
            let gaps = &mut self.mms[m.mm.idx()].gaps;
            gaps.entry(m.len()).or_default().push(place);
            self.record(ctx, Deed::Unmap(object));
        }
        let m = &mut self.mappings[mapping.0 as usize];
        if m.is_empty() {
            return None;
        }
        let len = m.len();
        let (mm, present) = (m.mm, u64::from(m.present));
        let ns = self.flush_mm(Some(ctx.cpu()), ctx.now(), mm, present);
        ctx.charge(TimeClass::Fault, ns);
        Some(len)
    }

    /// Clears a batch of entries. Pages are given back a batch at a time, so that nobody waits for
    /// the lock until all are. A huge entry goes at once.
    fn unmap_batch(&mut self, ctx: &Ctx, mapping: MappingId, from: u32) {
        let m = &self.mappings[mapping.0 as usize];
        let mut to = (from + ZAP_BATCH).min(m.len());
        if to > from && m.is_huge(to - 1) {
            to = m.table_range((to - 1) / TABLE).end;
        }
        self.unmap_entries(ctx, mapping, from..to);
    }

    /// Clears entries. A huge one is to be cleared to its end.
    pub(super) fn unmap_entries(&mut self, ctx: &Ctx, mapping: MappingId, entries: Range<u32>) {
        let m = &self.mappings[mapping.0 as usize];
        let (object, start, mm) = (m.object, m.start, m.mm);
        let recency = !m.flags.contains(crate::mem::MappingFlags::NO_RECENCY);
        let anon = self.objects[object.idx()].is_anon();
        let shared = self.objects[object.idx()].mappings.len() > 1;
        // However many pages of a folio are mapped, they count as one access.
        let mut accessed = None;
        // A large folio that has lost entries.
        let mut partial = None;
        for e in entries.clone() {
            self.prefetch_folio_of(mapping, e + ZAP_AHEAD);
            self.mappings[mapping.0 as usize].leave_huge(e);
            let pte = self.mappings[mapping.0 as usize].clear(e);
            let page = start + e;
            // One that is present and has no folio shows zeroes.
            let folio = match pte.contains(Pte::PRESENT) {
                true => self.objects[object.idx()].word(page).folio(),
                false => None,
            };
            if let Some(id) = folio {
                if anon {
                    self.mms[mm.idx()].anon -= 1;
                } else {
                    self.mms[mm.idx()].file -= 1;
                    if pte.contains(Pte::DIRTY) {
                        self.engine.set_dirty(id);
                    }
                    if pte.contains(Pte::YOUNG) && recency && accessed.replace(id) != Some(id) {
                        self.engine.mark_accessed(ctx.cpu(), id);
                    }
                }
                // Another mapping of the region may not have the page in its entries.
                if anon && shared && self.hand_over(object, page, id, Some(mapping)) {
                    // What was stored through this one is still wanted, and no other entry may say so.
                    if pte.contains(Pte::DIRTY) {
                        self.engine.set_dirty(id);
                    }
                } else if anon {
                    self.forget_anon(ctx, object, page);
                    let large = self.engine.folio(id).order() > 0;
                    partial = large.then_some(id).or(partial);
                }
                if self.engine.folio_unmap(id) && partial == Some(id) {
                    partial = None;
                }
            } else if anon && !shared {
                self.forget_anon(ctx, object, page);
            }
            // It lies in one table.
            if partial.is_some() && (e + 1) % TABLE == 0 {
                partial
                    .take()
                    .into_iter()
                    .for_each(|id| self.note_partial(id));
            }
        }
        partial.into_iter().for_each(|id| self.note_partial(id));
        self.note_dirty(ctx);
        let entries = u64::from(entries.end.saturating_sub(entries.start));
        ctx.charge(TimeClass::Fault, entries * self.params.walk_pte_ns);
        self.pay(ctx);
    }

    /// The entries are clear.
    fn unmap_end(&mut self, mapping: MappingId) {
        let m = &mut self.mappings[mapping.0 as usize];
        m.drop_entries();
        let object = m.object;
        self.objects[object.idx()]
            .mappings
            .retain(|&x| x != mapping);
    }

    /// Drops the contents of an anonymous page that nobody can reach any longer.
    pub(super) fn forget_anon(&mut self, ctx: &Ctx, object: ObjectId, page: u32) {
        match self.objects[object.idx()].slot(page) {
            Slot::Swap(slot) => self.release_swap(ctx, slot),
            Slot::Folio(id) => {
                let f = self.engine.folio(id);
                let pages = f.nr_pages() as u32;
                // A large folio keeps its slots until its last page is forgotten.
                let last = pages == 1 || f.swap_slot().is_some() && self.pages_left(id) == 1;
                if let Some(slot) = self.engine.folio(id).swap_slot().filter(|_| last) {
                    self.engine.folio_get(id, 1);
                    self.engine.leave_swap_cache(id);
                    (slot..slot + pages).for_each(|slot| self.release_swap(ctx, slot));
                    self.objects[object.idx()].set_slot(page, Slot::Empty);
                    self.engine.folio_put(id, 1);
                }
            }
            Slot::Empty | Slot::Shadow(_) => {}
        }
        let o = &mut self.objects[object.idx()];
        o.set_slot(page, Slot::Empty);
        if let Some(c) = &mut o.contents {
            let i = page as usize;
            (c.stored[i], c.memory[i], c.disk[i]) = (0, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{MachineConfig, SwapConfig};
    use crate::ctx::{Ctx, InlineClock};
    use crate::machine::MachineRun;
    use crate::mem::MappingFlags;
    use coldset_engine::presets::preset;
    use coldset_engine::reclaim::DebugCommand;
    use coldset_engine::{Counter, NodeId};

    /// A program of two groups on 7.2.12 unmaps memory and stores to it again: the next walk finds 1,647 of its 1,950 pages
    /// (`docs/rules/aging.md#filters`).
    #[test]
    fn a_filter_knows_tables_by_their_addresses() {
        const PAGES: u32 = 1024;
        for (again, found) in [(PAGES, i64::from(PAGES)), (PAGES + 512, 0)] {
            let mut cfg = MachineConfig::new(preset("v72").unwrap());
            cfg.swap = SwapConfig::Zram {
                pages: 10_000,
                algorithm: "lzo-rle".into(),
            };
            let mut run = MachineRun::new(&cfg).unwrap();
            let m = run.machine.clone();
            let memcg = m.limited_memcg(10_000);
            let ctx = Ctx::inline(m.create_mm(memcg), memcg, InlineClock::Running);
            let object = m.create_anon(PAGES + 512);
            let map = |pages| m.mmap(ctx.mm, object, 0, pages, MappingFlags::empty());
            let store_and_age = |run: &mut MachineRun, mapping| {
                for page in 0..PAGES {
                    let store = m.access(&ctx, mapping, page, true);
                    run.run_inline(&ctx, store).unwrap();
                }
                m.world_mut().engine.lru_add_drain(ctx.cpu());
                m.world_mut().engine.mm_ran(ctx.mm);
                let seq = m.world().engine.generations(memcg).last().unwrap()[0];
                let before = m.world().engine.memcgs.live(memcg, Counter::WalkPromoted);
                let age = DebugCommand::Age { seq, force: false };
                run.run_inline(&ctx, m.lru_gen(&ctx, memcg, NodeId(0), age))
                    .unwrap();
                m.world().engine.memcgs.live(memcg, Counter::WalkPromoted) - before
            };
            let first = map(PAGES);
            for _ in 0..2 {
                store_and_age(&mut run, first);
            }
            run.run_inline(&ctx, m.unmap(&ctx, first));
            assert_eq!(store_and_age(&mut run, map(again)), found);
        }
    }
}
