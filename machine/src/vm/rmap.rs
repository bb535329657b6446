//! The reverse map: who has used a folio, and taking it out of all page tables.

use crate::ctx::Ctx;
use crate::mem::mapping::{table_key, TABLE};
use crate::mem::{MappingFlags, Pte};
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::mglru::look_around::{window, LookAround};
use coldset_engine::reclaim::References;
use coldset_engine::{Flags, FolioId, MemcgId};

impl World {
    /// Tests and clears the accessed bits of a folio's entries (`docs/rules/shrink-list.md`).
    pub(crate) fn test_references(
        &mut self,
        ctx: &Ctx,
        folio: FolioId,
        target: Option<MemcgId>,
        look_around: Option<LookAround>,
    ) -> References {
        let (object, page) = self.engine.folio(folio).owner();
        let mut r = References::default();
        let p = &self.params;
        let mut ns = p.rmap_lock_ns + p.rmap_first_ns;
        let rmap_next = p.rmap_next_ns;
        for i in 0..self.objects[object.idx()].mappings.len() {
            let id = self.objects[object.idx()].mappings[i];
            let m = &mut self.mappings[id.0 as usize];
            let Some(e) = m.entry_of(page) else { continue };
            if !m.ptes[e as usize].contains(Pte::PRESENT) {
                continue;
            }
            ns += rmap_next;
            if m.flags.contains(MappingFlags::LOCKED) {
                r.locked = true;
                break;
            }
            let mm_memcg = self.mms[m.mm.idx()].memcg;
            if target.is_some_and(|t| !self.engine.memcgs.is_within(mm_memcg, t)) {
                continue;
            }
            r.exec |= m.flags.contains(MappingFlags::EXEC);
            let young = m.ptes[e as usize].contains(Pte::YOUNG);
            m.ptes[e as usize] -= Pte::YOUNG;
            if !young || m.flags.contains(MappingFlags::NO_RECENCY) {
                continue;
            }
            r.accessed += 1;
            if let Some(la) = look_around {
                ns += self.look_around(ctx, &la, id, e);
            }
        }
        ctx.charge(TimeClass::AllocStall, ns);
        r
    }

    /// Looks at the neighbours of an accessed entry. Returns the time it took.
    fn look_around(
        &mut self,
        ctx: &Ctx,
        la: &LookAround,
        id: crate::mem::MappingId,
        e: u32,
    ) -> u64 {
        let m = &self.mappings[id.0 as usize];
        let table = e / TABLE;
        let range = m.table_range(table);
        if range.len() == 1 {
            return 0;
        }
        let (from, to) = window(e.into(), range.start.into(), range.end.into());
        let (object, start) = (m.object, m.start);
        let mut young = 1;
        for n in from as u32..to as u32 {
            let pte = self.mappings[id.0 as usize].ptes[n as usize];
            if n == e || !pte.contains(Pte::PRESENT | Pte::YOUNG) {
                continue;
            }
            let Some(f) = self.objects[object.idx()].word(start + n).folio() else {
                continue;
            };
            if !self.engine.look_around_wants(la, f) {
                continue;
            }
            self.mappings[id.0 as usize].ptes[n as usize] -= Pte::YOUNG;
            young += 1;
            self.engine
                .look_around_young(la, ctx.cpu(), f, pte.contains(Pte::DIRTY));
        }
        self.note_dirty(ctx);
        self.engine
            .look_around_done(la, table_key(id, table), to - from, young);
        (to - from) * self.params.walk_pte_ns + young * self.params.walk_clear_young_ns
    }

    /// Removes all entries of a folio. (a flush was deferred, a stale entry may write).
    pub(crate) fn unmap_folio(&mut self, ctx: &Ctx, folio: FolioId) -> (bool, bool) {
        let f = self.engine.folio(folio);
        let (object, page) = f.owner();
        let lazyfree = f.has(Flags::ANON) && !f.has(Flags::SWAPBACKED);
        let anon = f.has(Flags::ANON);
        let (mut deferred, mut writable) = (false, false);
        let p = &self.params;
        let mut ns = p.rmap_lock_ns + p.rmap_first_ns;
        let rmap_next = p.rmap_next_ns;
        for i in 0..self.objects[object.idx()].mappings.len() {
            let id = self.objects[object.idx()].mappings[i];
            let m = &mut self.mappings[id.0 as usize];
            let Some(e) = m.entry_of(page) else { continue };
            if !m.ptes[e as usize].contains(Pte::PRESENT) {
                continue;
            }
            ns += rmap_next;
            let pte = m.clear(e);
            let mm = m.mm;
            let dirty = pte.contains(Pte::DIRTY);
            if lazyfree && (dirty || self.engine.folio(folio).has(Flags::DIRTY)) {
                // Written since the advice: it is ordinary anonymous memory again.
                self.mappings[id.0 as usize].set(e, pte);
                self.engine.folio_set(folio, Flags::SWAPBACKED);
                break;
            }
            let mm_state = &mut self.mms[mm.idx()];
            if anon {
                mm_state.anon -= 1;
                mm_state.swapped += 1;
            } else {
                mm_state.file -= 1;
            }
            if self.defer_flush(ctx, id, e, folio, dirty) {
                deferred = true;
                writable |= dirty;
            }
            if dirty {
                self.engine.set_dirty(folio);
            }
            self.engine.folio_unmap(folio);
        }
        self.note_dirty(ctx);
        ctx.charge(TimeClass::AllocStall, ns);
        (deferred, writable)
    }

    /// Write-protects and cleans a page's entries before its contents are written: no CPU may go on
    /// storing unseen. The time of the flushes is owed to [`Self::take_flush_debt`].
    pub(crate) fn clean_entries(
        &mut self,
        cpu: Option<u16>,
        now: u64,
        object: coldset_engine::ObjectId,
        page: u32,
    ) {
        let mut ns = 0;
        for i in 0..self.objects[object.idx()].mappings.len() {
            let id = self.objects[object.idx()].mappings[i];
            let m = &mut self.mappings[id.0 as usize];
            if let Some(e) = m.entry_of(page) {
                let written = Pte::DIRTY | Pte::WRITABLE;
                let flush = m.ptes[e as usize].contains(Pte::PRESENT)
                    && m.ptes[e as usize].intersects(written);
                m.clear_bits(e, written);
                let mm = m.mm;
                if flush {
                    ns += self.flush_mm(cpu, now + ns, mm, 1);
                }
            }
        }
        // An entry that reclaim has removed and not flushed is one, too.
        while let Some(mm) = self.objects[object.idx()]
            .word(page)
            .folio()
            .and_then(|f| self.tlb.written_through(f))
        {
            ns += self.flush_pending_or_own(cpu, now + ns, mm);
        }
        self.tlb.owed_ns += ns;
    }
}
