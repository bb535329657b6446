//! The page of zeroes (`docs/rules/zero-page.md`): what a load of anonymous memory sees that nothing was stored to.
//!
//! Its entries are present, and the object has no folio in the page's slot. An object that several mappings show has
//! none of them: a store through one mapping would have to change the entries of the others.

use crate::ctx::Ctx;
use crate::mem::mapping::TABLE;
use crate::mem::{MappingFlags, MappingId, Pte};
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::ObjectId;

impl World {
    /// A load from an anonymous page that is nowhere shows the page of zeroes, a huge one where an entry of 2 MiB could be.
    /// Returns leaf tables created; `None`: the load gets memory.
    pub(super) fn map_zeroes(&mut self, mapping: MappingId, entry: u32) -> Option<u64> {
        let m = &self.mappings[mapping.0 as usize];
        let shared = self.objects[m.object.idx()].mappings.len() > 1;
        if shared || !m.alive || m.flags.contains(MappingFlags::LOCKED) {
            return None;
        }
        if m.ptes.is_present(entry) {
            return Some(0);
        }
        let huge = self.huge_place(mapping, entry);
        let m = &mut self.mappings[mapping.0 as usize];
        let mm = m.mm;
        let first = match huge {
            Some(table) => m.set_huge(table, Pte::YOUNG),
            None => m.set(entry, Pte::YOUNG),
        };
        let new = first && self.enters_table(mapping);
        self.mms[mm.idx()].tables += u64::from(new);
        Some(new.into())
    }

    /// The entry shows the page of zeroes.
    fn shows_zeroes(&self, mapping: MappingId, entry: u32) -> bool {
        let m = &self.mappings[mapping.0 as usize];
        let object = &self.objects[m.object.idx()];
        m.ptes.is_present(entry) && object.word(m.start + entry).folio().is_none()
    }

    /// A page takes the place of the page of zeroes, if that is there.
    pub(super) fn replace_zeroes(&mut self, ctx: &Ctx, mapping: MappingId, entry: u32) {
        if self.shows_zeroes(mapping, entry) {
            self.mappings[mapping.0 as usize].clear(entry);
            self.flush_zeroes(ctx, mapping, 1);
        }
    }

    /// A huge page takes the place of a huge entry that shows zeroes.
    pub(super) fn replace_huge_zeroes(&mut self, ctx: &Ctx, mapping: MappingId, table: u32) {
        let m = &mut self.mappings[mapping.0 as usize];
        if m.is_huge(table * TABLE) {
            m.leave_huge(table * TABLE);
            for e in m.table_range(table) {
                m.clear(e);
            }
            self.flush_zeroes(ctx, mapping, TABLE.into());
        }
    }

    /// CPUs that have translations of cleared entries lose them.
    fn flush_zeroes(&mut self, ctx: &Ctx, mapping: MappingId, entries: u64) {
        let mm = self.mappings[mapping.0 as usize].mm;
        let ns = self.flush_mm(Some(ctx.cpu()), ctx.now(), mm, entries);
        ctx.charge(TimeClass::Fault, ns);
    }

    /// Another mapping is about to show the object: loads through those that do now fault again.
    pub(crate) fn drop_zeroes(&mut self, object: ObjectId) {
        let object = &self.objects[object.idx()];
        // Where several do already there are none, and a file has none.
        let (true, &[only]) = (object.is_anon(), object.mappings.as_slice()) else {
            return;
        };
        let mut from = 0;
        while let Some(table) = self.mappings[only.0 as usize].next_table(from) {
            for e in self.mappings[only.0 as usize].table_range(table) {
                if self.shows_zeroes(only, e) {
                    let m = &mut self.mappings[only.0 as usize];
                    m.leave_huge(e);
                    m.clear(e);
                }
            }
            from = table + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{MachineConfig, Thp};
    use crate::ctx::{Ctx, InlineClock};
    use crate::mem::{MappingFlags, Slot};
    use crate::vm::huge::tests::{region, zram, Lab};
    use coldset_engine::presets::preset;
    use coldset_engine::Counter;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn lab(thp: Thp, flags: MappingFlags, limit: u64, pages: u32) -> Lab {
        let mut cfg = MachineConfig::new(preset("v72").unwrap());
        (cfg.swap, cfg.thp) = (zram(), thp);
        region(cfg, flags, limit, pages)
    }

    fn plain(limit: u64, pages: u32) -> Lab {
        lab(Thp::Never, MappingFlags::empty(), limit, pages)
    }

    impl Lab {
        fn accesses(&mut self, pages: std::ops::Range<u32>, write: bool) {
            match write {
                true => self.store(pages),
                false => self.load(pages),
            }
            self.m.world().check();
        }

        /// Pages of the region that are in memory or in swap.
        fn held_pages(&self) -> usize {
            let w = self.m.world();
            let o = w.object(w.mappings[self.map.0 as usize].object);
            let held = |&p: &u32| matches!(o.slot(p), Slot::Folio(_) | Slot::Swap(_));
            (0..o.pages()).filter(held).count()
        }
    }

    #[test]
    fn loads_of_what_was_never_stored_to_take_no_memory() {
        let mut l = plain(100, 1000);
        l.accesses(0..1000, false);
        l.accesses(0..1000, false);
        assert_eq!(l.count(Counter::Pgfault), 1000, "once each");
        assert_eq!(l.m.world().engine.memcgs[l.memcg].memory().usage(), 0);
        assert_eq!(l.m.world().mm(l.ctx.mm).tables, 2);
        l.accesses(3..5, true);
        assert_eq!(l.count(Counter::Pgfault), 1002);
        assert_eq!(l.m.world().mm(l.ctx.mm).anon, 2);
        l.discard(0..1000);
        l.accesses(4..5, false);
        assert_eq!(l.m.world().mm(l.ctx.mm).anon, 0, "zeroes again");
    }

    #[test]
    fn locked_memory_is_there() {
        let mut l = lab(Thp::Never, MappingFlags::LOCKED, 100, 50);
        l.accesses(0..50, false);
        assert_eq!(l.m.world().mm(l.ctx.mm).anon, 50);
    }

    #[test]
    fn a_huge_entry_of_zeroes_becomes_a_huge_page_or_is_split() {
        let mut l = lab(Thp::Always, MappingFlags::empty(), 700, 1024);
        l.accesses(0..1024, false);
        assert_eq!(l.count(Counter::Pgfault), 2);
        assert_eq!(l.m.world().mm(l.ctx.mm).anon, 0);
        l.accesses(5..6, true);
        assert_eq!(l.count(Counter::ThpFaultAlloc), 1);
        assert_eq!(l.m.world().mm(l.ctx.mm).anon, 512);
        l.accesses(600..610, true);
        assert_eq!(l.count(Counter::ThpFaultFallback), 1);
        assert_eq!(l.count(Counter::ThpSplitPmd), 1);
        assert_eq!(l.m.world().mm(l.ctx.mm).anon, 522);
        l.accesses(600..1024, false);
        assert_eq!(l.count(Counter::Pgfault), 2 + 1 + 10);
    }

    #[test]
    fn a_fork_leaves_none_behind() {
        let mut l = lab(Thp::Always, MappingFlags::empty(), 4000, 1024);
        l.accesses(0..512, false);
        l.accesses(512..1024, true);
        let child = l.m.create_mm(l.memcg);
        let region = l.m.inherit(&l.ctx, l.map, child);
        l.m.world().check();
        let ctx = Ctx::inline(child, l.memcg, InlineClock::Running);
        for write in [false, true] {
            let access = l.m.access_inherited(&ctx, region, 7, write);
            l.run.run_inline(&ctx, access).unwrap();
        }
        l.accesses(8..9, true);
        assert_eq!(l.m.world().mm(child).anon, 512 + 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Memory and swap together hold what was stored to, and nothing else.
        #[test]
        fn memory_is_of_what_was_stored(
            deeds in prop::collection::vec((0..4u8, 0..300u32, 1..120u32), 1..60),
            limit in 60u64..400,
        ) {
            let mut l = plain(limit, 300);
            let mut stored = BTreeSet::new();
            for (deed, from, count) in deeds {
                let pages = from..(from + count).min(300);
                match deed {
                    0 | 1 => l.accesses(pages, false),
                    2 => {
                        stored.extend(pages.clone());
                        l.accesses(pages, true);
                    }
                    _ => {
                        stored.retain(|p| !pages.contains(p));
                        l.discard(pages);
                    }
                }
                prop_assert_eq!(l.held_pages(), stored.len());
            }
        }
    }
}
