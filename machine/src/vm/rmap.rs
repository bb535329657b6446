//! The reverse map: who has used a folio, and taking it out of all page tables.

use crate::ctx::Ctx;
use crate::mem::folio::pages_of;
use crate::mem::mapping::{table_key, TABLE};
use crate::mem::{MappingFlags, MappingId, Pte};
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::mglru::look_around::{window, LookAround};
use coldset_engine::reclaim::References;
use coldset_engine::{Flags, Folio, FolioId, MemcgId, ObjectId};
use std::ops::Range;

/// Pages of a window that look-around does not want, whatever mapping shows them: found once for all
/// mappings of a folio. Nothing that it does makes it want one.
#[derive(Default)]
struct Unwanted {
    /// Page of bit 0.
    from: u32,
    pages: u64,
}

impl Unwanted {
    /// The window begins at `page`.
    fn at(&mut self, page: u32) {
        if self.from != page {
            *self = Self {
                from: page,
                pages: 0,
            };
        }
    }
}

/// Entries for the folio's pages may show other folios: in the place of a page of a large anonymous one that was given
/// back there may be a new one.
fn may_be_mixed(f: &Folio) -> bool {
    f.order() > 0 && f.has(Flags::ANON)
}

impl World {
    /// Tests and clears the accessed bits of a folio's entries (`docs/rules/shrink-list.md`).
    pub(crate) fn test_references(
        &mut self,
        ctx: &Ctx,
        folio: FolioId,
        target: Option<MemcgId>,
        look_around: Option<LookAround>,
    ) -> References {
        let f = self.engine.folio(folio);
        let (object, _) = f.owner();
        let (pages, mixed) = (pages_of(f), may_be_mixed(f));
        let mut r = References::default();
        let p = &self.params;
        let mut ns = p.rmap_lock_ns + p.rmap_first_ns;
        let rmap_next = p.rmap_next_ns;
        let mut unwanted = Unwanted::default();
        // Entries that show it and have not been met yet: behind the last one there is nothing to find.
        let mut left = self.engine.folio(folio).mapcount();
        for i in 0..self.objects[object.idx()].mappings.len() {
            if left == 0 {
                break;
            }
            let id = self.objects[object.idx()].mappings[i];
            let m = &mut self.mappings[id.0 as usize];
            let o = &self.objects[object.idx()];
            let others = |page| mixed && o.word(page).folio() != Some(folio);
            // Entries that show pages of the folio, and the first of them that has been used.
            let (mut present, mut accessed) = (0, None);
            for e in m.entries_of(&pages) {
                let pte = m.ptes.get(e);
                if !pte.contains(Pte::PRESENT) || others(m.start + e) {
                    continue;
                }
                present += 1;
                if m.flags.contains(MappingFlags::LOCKED) {
                    break;
                }
                if pte.contains(Pte::YOUNG) {
                    accessed = accessed.or(Some(e));
                }
            }
            if present == 0 {
                continue;
            }
            left -= present as u32;
            let huge = m.is_huge(m.entries_of(&pages).start);
            ns += if huge { 1 } else { present } * rmap_next;
            if m.flags.contains(MappingFlags::LOCKED) {
                r.locked = true;
                break;
            }
            let mm_memcg = self.mms[m.mm.idx()].memcg;
            if target.is_some_and(|t| !self.engine.memcgs.is_within(mm_memcg, t)) {
                continue;
            }
            r.exec |= m.flags.contains(MappingFlags::EXEC);
            for e in m.entries_of(&pages) {
                if !others(m.start + e) {
                    m.ptes.take(e, Pte::YOUNG);
                }
            }
            let Some(e) = accessed else { continue };
            if m.flags.contains(MappingFlags::NO_RECENCY) {
                continue;
            }
            r.accessed += 1;
            // A huge entry has its table to itself.
            if let Some(la) = look_around.filter(|_| !huge) {
                ns += self.look_around(ctx, &la, (id, e), folio, &mut unwanted);
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
        (id, e): (MappingId, u32),
        folio: FolioId,
        unwanted: &mut Unwanted,
    ) -> u64 {
        let m = &self.mappings[id.0 as usize];
        let table = e / TABLE;
        let range = m.table_range(table);
        if range.len() == 1 {
            return 0;
        }
        let (from, to) = window(e.into(), range.start.into(), range.end.into());
        unwanted.at(m.start + from as u32);
        let used = m.ptes.used(from as u32..to as u32) & !unwanted.pages;
        let mut young = 1;
        if used != 0 {
            let first = (id, from as u32);
            young += self.clear_neighbours(ctx, la, first, used, folio, unwanted);
            self.note_dirty(ctx);
        }
        self.engine
            .look_around_done(la, table_key(id, table), to - from, young);
        (to - from) * self.params.walk_pte_ns + young * self.params.walk_clear_young_ns
    }

    /// Clears the accessed bits of the folio's neighbours that look-around wants, of those whose bits are in `used`, counted
    /// from an entry. How many there were.
    fn clear_neighbours(
        &mut self,
        ctx: &Ctx,
        la: &LookAround,
        (id, first): (MappingId, u32),
        mut used: u64,
        folio: FolioId,
        unwanted: &mut Unwanted,
    ) -> u64 {
        let m = &self.mappings[id.0 as usize];
        let neighbours = self.folios_of(m.object, m.start + first, used);
        let mut young = 0;
        while used != 0 {
            let bit = used.trailing_zeros();
            used &= used - 1;
            // The entry itself, and others of the folio, have been looked at.
            let f = neighbours[bit as usize];
            if f == FolioId::NONE || f == folio || !self.engine.look_around_wants(la, f) {
                unwanted.pages |= 1 << bit;
                continue;
            }
            let ptes = &mut self.mappings[id.0 as usize].ptes;
            let dirty = ptes.get(first + bit).contains(Pte::DIRTY);
            ptes.take(first + bit, Pte::YOUNG);
            young += 1;
            self.engine.look_around_young(la, ctx.cpu(), f, dirty);
        }
        young
    }

    /// The folios of the pages from `first` on whose bits are set, by bit; of pages that are not in memory, none. Their
    /// records are fetched into the CPU's cache all at once, where one look after the other would wait for each.
    #[inline]
    pub(super) fn folios_of(&self, object: ObjectId, first: u32, mut bits: u64) -> [FolioId; 64] {
        let mut folios = [FolioId::NONE; 64];
        let object = &self.objects[object.idx()];
        let mut seen = 0;
        while bits != 0 {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            if let Some(f) = object.word(first + bit).folio() {
                folios[bit as usize] = f;
                seen ^= self.engine.peek(f);
            }
        }
        std::hint::black_box(seen);
        folios
    }

    /// Removes all entries of a folio. (a flush was deferred, a stale entry may write).
    pub(crate) fn unmap_folio(&mut self, ctx: &Ctx, folio: FolioId) -> (bool, bool) {
        let f = self.engine.folio(folio);
        let (object, _) = f.owner();
        let (pages, mixed) = (pages_of(f), may_be_mixed(f));
        let lazyfree = f.has(Flags::ANON) && !f.has(Flags::SWAPBACKED);
        let anon = f.has(Flags::ANON);
        let (mut deferred, mut writable) = (false, false);
        let p = &self.params;
        let mut ns = p.rmap_lock_ns + p.rmap_first_ns;
        let rmap_next = p.rmap_next_ns;
        'mappings: for i in 0..self.objects[object.idx()].mappings.len() {
            if !self.engine.folio(folio).mapped() {
                break;
            }
            let id = self.objects[object.idx()].mappings[i];
            for e in self.mappings[id.0 as usize].entries_of(&pages) {
                let m = &self.mappings[id.0 as usize];
                let others = || {
                    let shown = self.objects[object.idx()].word(m.start + e).folio();
                    mixed && shown != Some(folio)
                };
                if !m.ptes.is_present(e) || others() {
                    continue;
                }
                self.split_entry(id, e);
                let m = &mut self.mappings[id.0 as usize];
                ns += rmap_next;
                let pte = m.clear(e);
                let mm = m.mm;
                let dirty = pte.contains(Pte::DIRTY);
                if lazyfree && (dirty || self.engine.folio(folio).has(Flags::DIRTY)) {
                    // Written since the advice: it is ordinary anonymous memory again.
                    self.mappings[id.0 as usize].set(e, pte);
                    self.engine.folio_set(folio, Flags::SWAPBACKED);
                    break 'mappings;
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
        }
        self.note_dirty(ctx);
        ctx.charge(TimeClass::AllocStall, ns);
        (deferred, writable)
    }

    /// Write-protects and cleans the entries of a folio's pages before their contents are written: no CPU
    /// may go on storing unseen. The time of the flushes is owed to [`Self::take_flush_debt`].
    pub(crate) fn clean_entries(
        &mut self,
        cpu: Option<u16>,
        now: u64,
        object: ObjectId,
        pages: Range<u32>,
    ) {
        let mut ns = 0;
        for i in 0..self.objects[object.idx()].mappings.len() {
            let id = self.objects[object.idx()].mappings[i];
            let m = &mut self.mappings[id.0 as usize];
            let mut flush = 0;
            for e in m.entries_of(&pages) {
                let written = Pte::DIRTY | Pte::WRITABLE;
                let pte = m.ptes.get(e);
                flush += u64::from(pte.contains(Pte::PRESENT) && pte.intersects(written));
                m.ptes.take(e, written);
            }
            let mm = m.mm;
            if flush > 0 {
                ns += self.flush_mm(cpu, now + ns, mm, flush);
            }
        }
        // An entry that reclaim has removed and not flushed is one, too.
        while let Some(mm) = self.objects[object.idx()]
            .word(pages.start)
            .folio()
            .and_then(|f| self.tlb.written_through(f))
        {
            ns += self.flush_pending_or_own(cpu, now + ns, mm);
        }
        self.tlb.owed_ns += ns;
    }
}
