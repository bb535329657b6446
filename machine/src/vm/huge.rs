//! Huge pages of anonymous memory (`docs/rules/huge-pages.md`): the fault that gets one, huge entries of page
//! tables, and what a folio of which a part is no longer wanted becomes.

use crate::config::Thp;
use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::mem::folio::MAX_ORDER;
use crate::mem::mapping::{TABLE, TABLE_EXISTS};
use crate::mem::{MappingFlags, MappingId, Pte, Slot};
use crate::sim::TimeClass;
use crate::vm::alloc::Shortage;
use crate::vm::wanted::Wanted;
use crate::world::World;
use coldset_engine::{Counter, Flags, FolioId, ObjectId};
use std::ops::Range;

/// Pages of a huge folio.
pub(crate) const HUGE: u32 = 1 << MAX_ORDER;

impl World {
    /// The table that a fault at the entry would have to make, if a huge entry can be in its place: nothing is
    /// there but a huge entry of zeroes, and all of it lies in the region.
    pub(super) fn huge_place(&self, mapping: MappingId, entry: u32) -> Option<u32> {
        if self.thp == Thp::Never {
            return None;
        }
        let m = &self.mappings[mapping.0 as usize];
        let table = entry / TABLE;
        let range = m.table_range(table);
        let pages = m.start + range.start..m.start + range.end;
        let fits = range.len() as u32 == HUGE
            && pages.start.is_multiple_of(HUGE)
            && !m.flags.contains(MappingFlags::NO_HUGE)
            && (m.tables.get(table as usize) & TABLE_EXISTS == 0 || m.is_huge(entry));
        let o = &self.objects[m.object.idx()];
        let empty = |page| matches!(o.slot(page), Slot::Empty);
        (fits && pages.clone().all(empty)).then_some(table)
    }

    /// A huge folio of the object in the place of a table, with an entry that maps it. It has been charged.
    /// Returns leaf tables created.
    fn insert_huge(&mut self, ctx: &Ctx, mapping: MappingId, table: u32) -> u64 {
        let m = &self.mappings[mapping.0 as usize];
        let (object, page) = (m.object, m.start + table * TABLE);
        self.replace_huge_zeroes(ctx, mapping, table);
        let flags = Flags::ANON | Flags::SWAPBACKED | Flags::UPTODATE;
        let id = self.insert_large_anon(ctx, object, page, flags);
        self.engine.lru_add(ctx.cpu(), id, true);
        let tables = self.map_huge(mapping, table, id, Pte::WRITABLE);
        self.engine.folio_put(id, 1);
        self.engine.count(ctx.memcg, Counter::ThpFaultAlloc, 1);
        // The fault has cleared one page; another takes as long as copying one.
        let clear = u64::from(HUGE - 1) * self.params.buffered_io_page_ns;
        ctx.charge(TimeClass::Fault, clear);
        tables
    }

    /// Maps a huge folio with one entry. Returns leaf tables created.
    pub(super) fn map_huge(
        &mut self,
        mapping: MappingId,
        table: u32,
        folio: FolioId,
        bits: Pte,
    ) -> u64 {
        let m = &mut self.mappings[mapping.0 as usize];
        let new = u64::from(m.set_huge(table, bits));
        let mm = &mut self.mms[m.mm.idx()];
        mm.anon += u64::from(HUGE);
        mm.tables += new;
        for _ in 0..HUGE {
            self.engine.folio_map(folio);
        }
        new
    }

    /// The huge entry that the entry is part of becomes a table of single ones.
    pub(super) fn split_entry(&mut self, mapping: MappingId, entry: u32) {
        let m = &mut self.mappings[mapping.0 as usize];
        if m.split_huge(entry / TABLE) {
            let memcg = self.mms[m.mm.idx()].memcg;
            self.engine.count(memcg, Counter::ThpSplitPmd, 1);
        }
    }

    /// A large folio of anonymous memory has become single pages: no huge entry maps it any longer.
    pub(crate) fn split_entries(&mut self, folio: FolioId, pieces: &[FolioId]) {
        let f = self.engine.folio(folio);
        let (object, first) = f.owner();
        let memcg = self.engine.lruvec(f.lruvec()).memcg;
        for i in 0..self.objects[object.idx()].mappings.len() {
            let id = self.objects[object.idx()].mappings[i];
            // If the first page has gone from there, so has the huge entry.
            if let Some(e) = self.mappings[id.0 as usize].entry_of(first) {
                self.split_entry(id, e);
            }
        }
        let huge = pieces.len() as u32 + 1 == HUGE;
        self.engine
            .count(memcg, Counter::ThpSplitPage, i64::from(huge));
    }

    /// Clears the entries of part of an anonymous mapping. What lies in a huge entry all of which goes, goes at once;
    /// another becomes a table first.
    fn discard(&mut self, ctx: &Ctx, mapping: MappingId, entries: &Range<u32>) {
        let mut at = entries.start;
        while at < entries.end {
            let m = &self.mappings[mapping.0 as usize];
            let table = m.table_range(at / TABLE);
            let end = table.end.min(entries.end);
            let whole = m.is_huge(at) && table == (at..end);
            if m.is_huge(at) && !whole {
                self.split_entry(mapping, at);
            }
            self.count_swapped_discards(mapping, at..end);
            self.unmap_entries(ctx, mapping, at..end);
            if whole {
                self.drop_empty_table(ctx, mapping, at / TABLE);
            }
            at = end;
        }
    }

    /// Pages in swap that are about to be forgotten no longer count for the address space.
    fn count_swapped_discards(&mut self, mapping: MappingId, entries: Range<u32>) {
        let m = &self.mappings[mapping.0 as usize];
        let o = &self.objects[m.object.idx()];
        let swapped = entries
            .filter(|e| matches!(o.slot(m.start + e), Slot::Swap(_)))
            .count() as u64;
        let mm = &mut self.mms[m.mm.idx()];
        mm.swapped = mm.swapped.saturating_sub(swapped);
    }

    /// The table that was there for a huge entry goes with it.
    fn drop_empty_table(&mut self, ctx: &Ctx, mapping: MappingId, table: u32) {
        let m = &mut self.mappings[mapping.0 as usize];
        if m.drop_table(table) {
            let mm = &mut self.mms[m.mm.idx()];
            mm.tables -= 1;
            let memcg = mm.memcg;
            self.leaf_tables_released(memcg, ctx.node(), 1);
        }
    }

    /// A page of a large folio has lost an entry. If others are still mapped, the folio waits to be split.
    pub(super) fn note_partial(&mut self, id: FolioId) {
        let f = self.engine.folio(id);
        let queued = f.any(Flags::PARTIALLY_MAPPED | Flags::SWAPCACHE);
        if f.order() == 0 || !f.has(Flags::ANON) || !f.mapped() || queued {
            return;
        }
        let memcg = self.engine.lruvec(f.lruvec()).memcg;
        self.engine.folio_set(id, Flags::PARTIALLY_MAPPED);
        self.engine.count(memcg, Counter::ThpDeferredSplitPage, 1);
    }

    /// True if a mapping has the page of the object in an entry.
    pub(super) fn is_page_mapped(&self, object: ObjectId, page: u32) -> bool {
        let mut mappings = self.objects[object.idx()].mappings.iter();
        mappings.any(|id| {
            let m = &self.mappings[id.0 as usize];
            m.entry_of(page).is_some_and(|e| m.ptes.is_present(e))
        })
    }

    /// Pages of a large folio that are still the object's: others were dropped while it was in the swap cache.
    pub(super) fn pages_left(&self, id: FolioId) -> usize {
        let f = self.engine.folio(id);
        let (object, _) = f.owner();
        let o = &self.objects[object.idx()];
        crate::mem::folio::pages_of(f)
            .filter(|&page| o.word(page).folio() == Some(id))
            .count()
    }
}

impl Machine {
    /// A fault in anonymous memory that finds nothing: a huge folio, if there is room for one and memory at hand.
    /// Nobody reclaims for it. `None`: a single page is wanted. Returns leaf tables created.
    pub(super) async fn huge_fault(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
    ) -> Option<u64> {
        let tables = {
            let mut w = self.w.borrow_mut();
            let table = w.huge_place(mapping, entry)?;
            match w.try_get_pages(ctx, Wanted::new(ctx.memcg, HUGE.into())) {
                Ok(()) | Err(Shortage::High) => w.insert_huge(ctx, mapping, table),
                Err(shortage) => {
                    w.engine.count(ctx.memcg, Counter::ThpFaultFallback, 1);
                    w.split_entry(mapping, entry);
                    match shortage {
                        Shortage::Limit(_) => {
                            let c = Counter::ThpFaultFallbackCharge;
                            w.engine.count(ctx.memcg, c, 1);
                        }
                        _ => w.give_pages(ctx.memcg, ctx.reach(), HUGE.into(), 0),
                    }
                    return None;
                }
            }
        };
        if ctx.over_high.borrow().far_above() {
            Box::pin(self.handle_high(ctx)).await;
        }
        Some(tables)
    }

    /// The contents of part of an anonymous mapping are no longer wanted (`MADV_DONTNEED`, or the range is
    /// unmapped): the next access finds zeros. Recordings do not tell of it.
    ///
    /// # Panics
    /// If the mapping is one of a file, or the range is beyond its end.
    pub fn discard(&self, ctx: &Ctx, mapping: MappingId, entries: Range<u32>) {
        let mut w = self.w.borrow_mut();
        let m = &w.mappings[mapping.0 as usize];
        assert!(entries.end <= m.len(), "{entries:?} of {} pages", m.len());
        assert!(
            w.objects[m.object.idx()].is_anon(),
            "discard of a file mapping"
        );
        let mm = m.mm;
        w.engine.lru_add_drain(ctx.cpu());
        let ns = w.flush_mm(Some(ctx.cpu()), ctx.now(), mm, entries.len() as u64);
        ctx.charge(TimeClass::Fault, ns);
        w.discard(ctx, mapping, &entries);
        w.release_dead();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::{MachineConfig, OpError, SwapConfig};
    use crate::ctx::InlineClock;
    use crate::device::DeviceKind;
    use crate::machine::MachineRun;
    use coldset_engine::presets::preset;
    use coldset_engine::{MemcgId, MmId};
    use proptest::prelude::*;

    pub(in crate::vm) struct Lab {
        pub run: MachineRun,
        pub m: Machine,
        pub memcg: MemcgId,
        pub ctx: Ctx,
        pub map: MappingId,
    }

    pub(in crate::vm) fn zram() -> SwapConfig {
        SwapConfig::Zram {
            pages: 16_384,
            algorithm: "lz4".into(),
        }
    }

    /// A region of `pages` under a limit, with huge pages.
    fn lab(variant: &str, swap: SwapConfig, limit: u64, pages: u32) -> Lab {
        let mut cfg = MachineConfig::new(preset(variant).unwrap());
        (cfg.swap, cfg.thp) = (swap, Thp::Always);
        region(cfg, MappingFlags::empty(), limit, pages)
    }

    /// A region of `pages` under a limit, on a checked machine.
    pub(in crate::vm) fn region(
        mut cfg: MachineConfig,
        flags: MappingFlags,
        limit: u64,
        pages: u32,
    ) -> Lab {
        cfg.check = true;
        let run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(limit);
        let mm = m.create_mm(memcg);
        let ctx = Ctx::inline(mm, memcg, InlineClock::Running);
        let map = m.mmap(mm, m.create_anon(pages), 0, pages, flags);
        Lab {
            run,
            m,
            memcg,
            ctx,
            map,
        }
    }

    impl Lab {
        fn try_access(&mut self, page: u32, write: bool) -> Result<(), OpError> {
            let access = self.m.access(&self.ctx, self.map, page, write);
            self.run.run_inline(&self.ctx, access)
        }

        fn access(&mut self, page: u32, write: bool) {
            self.try_access(page, write).unwrap();
        }

        pub fn store(&mut self, pages: Range<u32>) {
            pages.for_each(|page| self.access(page, true));
        }

        pub fn load(&mut self, pages: Range<u32>) {
            pages.for_each(|page| self.access(page, false));
        }

        pub fn discard(&mut self, pages: Range<u32>) {
            self.run.catch_up(&self.ctx);
            self.m.discard(&self.ctx, self.map, pages);
            self.m.world().check();
        }

        pub fn count(&self, c: Counter) -> i64 {
            self.m.world().engine.memcgs.live(self.memcg, c)
        }

        pub fn mm(&self, mm: MmId) -> (u64, u64) {
            let w = self.m.world();
            (w.mm(mm).anon, w.mm(mm).tables)
        }

        fn end(mut self) {
            self.run.catch_up(&self.ctx);
            self.m.world().check();
            self.m.exit_mm(&self.ctx, self.ctx.mm);
            // What is on its way to a disk arrives, what a batch holds goes.
            self.run.run_until(self.ctx.now() + 1_000_000_000);
            let mut w = self.m.world_mut();
            w.engine.lru_add_drain(self.ctx.cpu());
            w.engine.memcgs.drain_stocks(self.memcg);
            drop(w);
            let w = self.m.world();
            w.check();
            assert_eq!(w.engine.memcgs.live(self.memcg, Counter::AnonPages), 0);
            assert_eq!(w.engine.memcgs[self.memcg].memory().usage(), 0);
            let s = w.swap().unwrap();
            assert_eq!((s.free(), s.pool_pages()), (s.total(), 0));
        }
    }

    #[test]
    fn a_fault_gets_what_fits_and_finds_memory() {
        // Room for three huge pages; the region ends within a fourth.
        let mut l = lab("v618", zram(), 4 * 512 - 1, 3 * 512 + 100);
        l.store(1000..1001);
        assert_eq!(l.mm(l.ctx.mm), (512, 1));
        assert_eq!(l.count(Counter::Pgfault), 1);
        l.store(512..1024);
        assert_eq!(l.count(Counter::Pgfault), 1, "all of it is there");
        l.store(1600..1603);
        assert_eq!(l.mm(l.ctx.mm), (515, 2), "the end of the region");
        assert_eq!(l.count(Counter::ThpFaultFallback), 0);
        l.store(0..1);
        l.store(1024..1025);
        assert_eq!(l.count(Counter::ThpFaultAlloc), 3);
        l.discard(0..512);
        assert_eq!(
            l.mm(l.ctx.mm),
            (2 * 512 + 3, 3),
            "its table has gone with it"
        );
        l.store(1603..1636);
        l.store(5..6);
        assert_eq!(l.count(Counter::ThpFaultAlloc), 4, "empty again");
        assert_eq!(l.count(Counter::ThpSplitPmd), 0);
        l.end();
    }

    #[test]
    fn without_room_faults_get_pages_and_nobody_reclaims() {
        let mut l = lab("v618", zram(), 800, 1024);
        l.store(0..1);
        l.store(600..800);
        assert_eq!(l.count(Counter::ThpFaultAlloc), 1);
        assert_eq!(l.count(Counter::ThpFaultFallback), 1, "then it has a table");
        assert_eq!(l.count(Counter::ThpFaultFallbackCharge), 1);
        assert_eq!(l.count(Counter::LimitReclaim), 0);
        assert_eq!(l.mm(l.ctx.mm), (712, 2));
        l.end();
    }

    #[test]
    fn huge_pages_leave_whole_and_come_back_singly() {
        for swap in [zram(), disk()] {
            for variant in ["v618", "v72", "classic"] {
                // Enough that something is left when two of them are on their way to a disk.
                let mut l = lab(variant, swap.clone(), 8 * 512, 16 * 512);
                l.store(0..16 * 512);
                assert_eq!(l.count(Counter::ThpFaultAlloc), 8);
                let whole = l.count(Counter::ThpSwpout);
                assert!(whole > 0, "{variant}");
                assert_eq!(l.count(Counter::ThpSplitPage), 0);
                let pages = l.count(Counter::Pswpout);
                assert!(pages >= 512 * whole, "{pages}");
                l.load(0..16 * 512);
                assert!(l.count(Counter::Pswpin) >= 8 * 512);
                assert!(l.count(Counter::RefaultAnon) >= 8 * 512);
                assert_eq!(l.count(Counter::ThpFaultAlloc), 8);
                l.end();
            }
        }
    }

    fn disk() -> SwapConfig {
        SwapConfig::Disk {
            pages: 16_384,
            device: DeviceKind::Nvme,
        }
    }

    #[test]
    fn what_swap_cannot_take_whole_is_split() {
        // An area without a whole cluster.
        let swap = SwapConfig::Zram {
            pages: 500,
            algorithm: "lz4".into(),
        };
        let mut l = lab("v618", swap, 2 * 512, 2 * 512 + 300);
        l.store(0..2 * 512 + 300);
        assert_eq!(l.count(Counter::ThpSwpout), 0);
        assert!(l.count(Counter::ThpSwpoutFallback) > 0);
        let split = l.count(Counter::ThpSwpoutFallback);
        assert_eq!(l.count(Counter::ThpSplitPage), split);
        assert_eq!(l.count(Counter::ThpSplitPmd), split);
        assert!(l.count(Counter::Pswpout) >= 300);
        l.load(0..2 * 512 + 300);
        l.end();
    }

    #[test]
    fn parts_that_are_gone_wait_for_a_split() {
        let mut l = lab("v618", zram(), 4 * 512, 6 * 512);
        l.store(0..1024);
        l.discard(100..200);
        assert_eq!(l.mm(l.ctx.mm).0, 924);
        assert_eq!(l.count(Counter::ThpSplitPmd), 1);
        assert_eq!(l.count(Counter::ThpDeferredSplitPage), 1);
        l.discard(300..301);
        assert_eq!(l.count(Counter::ThpDeferredSplitPage), 1, "once");
        assert_eq!(l.count(Counter::AnonPages), 1024, "nothing is free yet");
        l.load(100..200);
        assert_eq!(l.count(Counter::AnonPages), 1024, "zeroes");
        l.store(100..200);
        assert_eq!(l.count(Counter::AnonPages), 1124, "new pages");
        l.store(1024..6 * 512);
        l.store(1024..6 * 512);
        assert_eq!(l.count(Counter::ThpSplitPage), 1);
        assert_eq!(l.count(Counter::ThpSwpoutFallback), 0);
        l.load(0..1024);
        // The rest of it may go in any order.
        l.discard(500..1024);
        l.discard(0..500);
        l.end();
    }

    #[test]
    fn a_child_shares_a_huge_page_until_it_writes() {
        let mut l = lab("v618", zram(), 8 * 512, 1024);
        l.store(0..1024);
        let child = l.m.create_mm(l.memcg);
        let region = l.m.inherit(&l.ctx, l.map, child);
        l.m.world().check();
        assert_eq!(l.mm(child).0, 1024);
        assert_eq!(l.count(Counter::AnonPages), 1024);
        let ctx = Ctx::inline(child, l.memcg, InlineClock::Running);
        let write = l.m.access_inherited(&ctx, region, 5, true);
        l.run.run_inline(&ctx, write).unwrap();
        l.m.world().check();
        assert_eq!(l.count(Counter::AnonPages), 1025, "a copy of one page");
        assert_eq!(l.count(Counter::ThpSplitPmd), 1, "the child's entry");
        assert_eq!(l.count(Counter::ThpFaultAlloc), 2);
        l.m.exit_mm(&l.ctx, l.ctx.mm);
        l.m.world().check();
        assert_eq!(l.count(Counter::AnonPages), 1025, "the child sees them");
        l.m.exit_mm(&ctx, child);
        l.m.world().check();
        assert_eq!(l.count(Counter::AnonPages), 0);
    }

    #[test]
    fn an_accessed_huge_page_is_one_reference() {
        let mut l = lab("v618", zram(), 8 * 512, 512);
        l.store(0..512);
        let m = l.m.clone();
        let mut w = m.world_mut();
        let folio = w.mappings[l.map.0 as usize].object;
        let folio = w.object(folio).word(0).folio().unwrap();
        let r = w.test_references(&l.ctx, folio, None, None);
        assert_eq!(r.accessed, 1);
        let r = w.test_references(&l.ctx, folio, None, None);
        assert_eq!(r.accessed, 0, "cleared all at once");
        assert!(w.touch(l.map, 300, false));
        // When the entry is split, every page has been used.
        w.split_entry(l.map, 300);
        let m = &w.mappings[l.map.0 as usize];
        assert!((0..512).all(|e| m.ptes.get(e).contains(Pte::YOUNG | Pte::DIRTY)));
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Access(u32, bool),
        Run(u32, u32, bool),
        Discard(u32, u32),
        Fork,
        Child(u32, bool),
        Leave,
    }

    const PAGES: u32 = 4 * 512 + 300;

    fn deeds() -> impl Strategy<Value = Vec<Deed>> {
        let run = || (0..PAGES, 1..700u32);
        let deed = prop_oneof![
            10 => (0..PAGES, any::<bool>()).prop_map(|(p, w)| Deed::Access(p, w)),
            6 => (run(), any::<bool>()).prop_map(|((p, n), w)| Deed::Run(p, n, w)),
            4 => run().prop_map(|(p, n)| Deed::Discard(p, n)),
            1 => Just(Deed::Fork),
            8 => (0..PAGES, any::<bool>()).prop_map(|(p, w)| Deed::Child(p, w)),
            1 => Just(Deed::Leave),
        ];
        prop::collection::vec(deed, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Nothing that a program and its children do loses a store or a page.
        #[test]
        fn random_programs_lose_nothing(
            deeds in deeds(),
            variant in prop::sample::select(vec!["v618", "v72", "v5", "classic"]),
            on_disk in any::<bool>(),
            scarce in any::<bool>(),
            limit in 700u64..2300,
        ) {
            let swap = match (on_disk, scarce) {
                (true, _) => disk(),
                (false, true) => SwapConfig::Zram { pages: 5_000, algorithm: "lz4".into() },
                (false, false) => zram(),
            };
            let mut l = lab(variant, swap, limit, PAGES);
            let mut child = None;
            for deed in deeds {
                let mut done = Ok(());
                match deed {
                    Deed::Access(page, write) => done = l.try_access(page, write),
                    Deed::Run(page, n, write) => {
                        let mut pages = page..PAGES.min(page + n);
                        done = pages.try_for_each(|page| l.try_access(page, write));
                    }
                    Deed::Discard(page, n) => l.discard(page..PAGES.min(page + n)),
                    Deed::Fork if child.is_none() => {
                        l.run.catch_up(&l.ctx);
                        let mm = l.m.create_mm(l.memcg);
                        let region = l.m.inherit(&l.ctx, l.map, mm);
                        let ctx = Ctx::inline(mm, l.memcg, InlineClock::Running);
                        child = Some((ctx, region));
                    }
                    Deed::Child(page, write) => {
                        if let Some((ctx, region)) = &child {
                            let access = l.m.access_inherited(ctx, *region, page, write);
                            done = l.run.run_inline(ctx, access);
                        }
                    }
                    Deed::Leave => {
                        if let Some((ctx, _)) = child.take() {
                            l.run.catch_up(&ctx);
                            l.m.exit_mm(&ctx, ctx.mm);
                        }
                    }
                    Deed::Fork => {}
                }
                l.m.world().check();
                if done.is_err() {
                    // All that could go is on its way to the disk.
                    prop_assert!(on_disk, "{done:?}");
                    return Ok(());
                }
            }
            if let Some((ctx, _)) = child {
                l.run.catch_up(&ctx);
                l.m.exit_mm(&ctx, ctx.mm);
            }
            l.end();
        }
    }
}
