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

/// The neighbours of a folio's pages, looked up once for all mappings that show them.
struct Neighbours {
    /// Page of bit 0.
    from: u32,
    folios: [FolioId; 64],
    /// Whose folio has been looked up.
    known: u64,
    /// Look-around does not want them. Nothing that it does makes it want one.
    unwanted: u64,
    /// Another accessed bit changes nothing, unless its entry is dirty.
    settled: u64,
}

impl Neighbours {
    /// Those from `page` on.
    fn at(page: u32) -> Self {
        Self {
            from: page,
            folios: [FolioId::NONE; 64],
            known: 0,
            unwanted: 0,
            settled: 0,
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
        let mut neighbours = None;
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
                let Some(used) = m.ptes.accessed(e).filter(|_| !others(m.start + e)) else {
                    continue;
                };
                present += 1;
                if m.flags.contains(MappingFlags::LOCKED) {
                    break;
                }
                accessed = accessed.or(used.then_some(e));
            }
            if present == 0 {
                continue;
            }
            left -= present as u32;
            // A huge entry shows all pages of its folio.
            let huge = present > 1 && m.is_huge(m.entries_of(&pages).start);
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
            let Some(e) = accessed else { continue };
            for e in m.entries_of(&pages) {
                if !others(m.start + e) {
                    m.ptes.take_young(e, 1);
                }
            }
            if m.flags.contains(MappingFlags::NO_RECENCY) {
                continue;
            }
            r.accessed += 1;
            // A huge entry has its table to itself.
            if let Some(la) = look_around.filter(|_| !huge) {
                ns += self.look_around(ctx, &la, (id, e), folio, &mut neighbours);
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
        neighbours: &mut Option<Neighbours>,
    ) -> u64 {
        let m = &self.mappings[id.0 as usize];
        let table = e / TABLE;
        let range = m.table_range(table);
        if range.len() == 1 {
            return 0;
        }
        let (from, to) = window(e.into(), range.start.into(), range.end.into());
        let page = m.start + from as u32;
        let neighbours = match neighbours {
            Some(n) if n.from == page => n,
            n => n.insert(Neighbours::at(page)),
        };
        let used = m.ptes.used(from as u32..to as u32) & !neighbours.unwanted;
        let mut young = 1;
        if used != 0 {
            let first = (id, from as u32);
            young += self.clear_neighbours(ctx, la, first, used, folio, neighbours);
            self.note_dirty(ctx);
        }
        let key = table_key(id, &self.mappings[id.0 as usize], table);
        self.engine.look_around_done(la, key, to - from, young);
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
        n: &mut Neighbours,
    ) -> u64 {
        let m = &self.mappings[id.0 as usize];
        let dirty = m.ptes.dirty(first..first + 64);
        let new = used & !n.known;
        if new != 0 {
            self.find_folios(m.object, n.from, new, &mut n.folios);
            n.known |= new;
        }
        let mut left = used & !(n.settled & !dirty);
        while left != 0 {
            let f = n.folios[left.trailing_zeros() as usize];
            let bit = left & left.wrapping_neg();
            left ^= bit;
            // The entry itself, and others of the folio, have been looked at.
            if f == FolioId::NONE || f == folio || !self.engine.look_around_wants(la, f) {
                n.unwanted |= bit;
                used ^= bit;
            } else if self
                .engine
                .look_around_young(la, ctx.cpu(), f, dirty & bit != 0)
            {
                n.settled |= bit;
            }
        }
        self.mappings[id.0 as usize].ptes.take_young(first, used);
        u64::from(used.count_ones())
    }

    /// Finds the folios of the pages from `first` on whose bits are set, by bit; of pages that are not in memory, none. Their
    /// records are fetched into the CPU's cache all at once, where one look after the other would wait for each.
    #[inline]
    pub(super) fn find_folios(
        &self,
        object: ObjectId,
        first: u32,
        mut bits: u64,
        folios: &mut [FolioId; 64],
    ) {
        let object = &self.objects[object.idx()];
        while bits != 0 {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            let f = object.word(first + bit).folio().unwrap_or(FolioId::NONE);
            folios[bit as usize] = f;
            if f != FolioId::NONE {
                self.engine.prefetch(f);
            }
        }
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
    ///
    /// True if one of them was dirty.
    pub(crate) fn clean_entries(
        &mut self,
        cpu: Option<u16>,
        now: u64,
        object: ObjectId,
        pages: Range<u32>,
    ) -> bool {
        let (mut ns, mut dirty) = (0, false);
        for i in 0..self.objects[object.idx()].mappings.len() {
            let id = self.objects[object.idx()].mappings[i];
            let m = &mut self.mappings[id.0 as usize];
            let mut flush = 0;
            for e in m.entries_of(&pages) {
                let written = Pte::DIRTY | Pte::WRITABLE;
                let pte = m.ptes.get(e);
                dirty |= pte.contains(Pte::PRESENT | Pte::DIRTY);
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
        dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;
    use crate::ctx::InlineClock;
    use crate::machine::{Machine, MachineRun};
    use coldset_engine::presets::preset;
    use proptest::prelude::*;

    const PAGES: u32 = 200;
    /// Mappings of the file: the first page that they show, and how many.
    const VIEWS: [(u32, u32); 4] = [(0, PAGES), (0, PAGES), (0, 150), (3, 180)];
    /// Entries that all of them have.
    const ENTRIES: u32 = 150;

    struct Shared {
        run: MachineRun,
        m: Machine,
        file: ObjectId,
        maps: Vec<(Ctx, MappingId)>,
    }

    impl Shared {
        /// A file that is in memory, shown by several address spaces. No time passes, so nothing is written back.
        fn new(variant: &str) -> Self {
            let mut cfg = MachineConfig::new(preset(variant).unwrap());
            cfg.ram = Some(8192);
            cfg.fault_around = 1;
            let run = MachineRun::new(&cfg).unwrap();
            let m = run.machine.clone();
            let file = m.create_file(0, PAGES);
            let map = |&(start, pages): &(u32, u32)| {
                let mm = m.create_mm(MemcgId::ROOT);
                let map = m.mmap(mm, file, start, pages, MappingFlags::empty());
                (Ctx::inline(mm, MemcgId::ROOT, InlineClock::External), map)
            };
            let maps = VIEWS.iter().map(map).collect();
            let mut this = Self { run, m, file, maps };
            for (i, (_, pages)) in VIEWS.iter().enumerate() {
                (0..*pages).for_each(|e| this.load(i, e));
            }
            this
        }

        fn load(&mut self, map: usize, entry: u32) {
            let (ctx, map) = &self.maps[map];
            let access = self.m.access(ctx, *map, entry, false);
            self.run.run_inline(ctx, access).unwrap();
        }

        /// An access without a fault: a store makes the entry dirty and not yet the folio.
        fn mark(&self, map: usize, entry: u32, write: bool) {
            let (_, map) = &self.maps[map];
            let bits = if write {
                Pte::YOUNG | Pte::DIRTY
            } else {
                Pte::YOUNG
            };
            self.m.w.borrow_mut().mappings[map.0 as usize]
                .ptes
                .add(entry, bits);
        }

        /// Looks at the folio of a page as reclaim does.
        fn look(
            &self,
            page: u32,
            walk_context: bool,
            look: fn(&mut World, &Ctx, FolioId, LookAround),
        ) {
            let w = &mut *self.m.w.borrow_mut();
            let folio = w.objects[self.file.idx()].word(page).folio().unwrap();
            let lruvec = w.engine.folio(folio).lruvec();
            let la = LookAround {
                lruvec,
                walk_context,
            };
            look(w, &self.maps[0].0, folio, la);
        }

        /// All that a look may change.
        fn state(&self) -> Vec<(String, Vec<Pte>)> {
            let w = self.m.world();
            let of = |page: u32| {
                let folio = w.objects[self.file.idx()].word(page).folio().unwrap();
                let pte = |(_, id): &(Ctx, MappingId)| {
                    let m = &w.mappings[id.0 as usize];
                    m.entry_of(page).map(|e| m.ptes.get(e))
                };
                let entries = self.maps.iter().filter_map(pte);
                (
                    format!("{:?}", w.engine.folio(folio).word()),
                    entries.collect(),
                )
            };
            (0..PAGES).map(of).collect()
        }
    }

    /// The same one entry after the other, with nothing remembered from one mapping to the next.
    fn plainly(w: &mut World, ctx: &Ctx, folio: FolioId, la: LookAround) {
        let (object, page) = w.engine.folio(folio).owner();
        for i in 0..w.objects[object.idx()].mappings.len() {
            let id = w.objects[object.idx()].mappings[i];
            let m = &mut w.mappings[id.0 as usize];
            let Some(e) = m.entry_of(page) else { continue };
            let accessed = m.ptes.get(e).contains(Pte::PRESENT | Pte::YOUNG);
            m.ptes.take(e, Pte::YOUNG);
            if !accessed {
                continue;
            }
            let (table, start) = (e / TABLE, m.start);
            let range = m.table_range(table);
            let (from, to) = window(e.into(), range.start.into(), range.end.into());
            let mut young = 1;
            for e in from as u32..to as u32 {
                let pte = w.mappings[id.0 as usize].ptes.get(e);
                let Some(f) = w.objects[object.idx()].word(start + e).folio() else {
                    continue;
                };
                let used = pte.contains(Pte::PRESENT | Pte::YOUNG);
                if !used || f == folio || !w.engine.look_around_wants(&la, f) {
                    continue;
                }
                w.mappings[id.0 as usize].ptes.take(e, Pte::YOUNG);
                young += 1;
                let dirty = pte.contains(Pte::DIRTY);
                w.engine.look_around_young(&la, ctx.cpu(), f, dirty);
            }
            let key = table_key(id, &w.mappings[id.0 as usize], table);
            w.engine.look_around_done(&la, key, to - from, young);
        }
        w.note_dirty(ctx);
    }

    fn at_once(w: &mut World, ctx: &Ctx, folio: FolioId, la: LookAround) {
        w.test_references(ctx, folio, None, Some(la));
    }

    type Step = (Vec<(usize, u32, bool)>, u32, bool);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let access = (0..VIEWS.len(), 0..ENTRIES, prop::bool::weighted(0.2));
        let accesses = prop::collection::vec(access, 0..150);
        prop::collection::vec((accesses, 0..PAGES, any::<bool>()), 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn mappings_are_looked_round_in_as_one_by_one(
            variant in prop::sample::select(vec!["v612", "v618", "v72"]),
            steps in steps(),
        ) {
            let (a, b) = (Shared::new(variant), Shared::new(variant));
            for (accesses, page, walk_context) in steps {
                for (map, entry, write) in accesses {
                    a.mark(map, entry, write);
                    b.mark(map, entry, write);
                }
                a.look(page, walk_context, at_once);
                b.look(page, walk_context, plainly);
                for (page, (a, b)) in a.state().into_iter().zip(b.state()).enumerate() {
                    prop_assert_eq!(a, b, "page {}", page);
                }
            }
        }
    }
}
