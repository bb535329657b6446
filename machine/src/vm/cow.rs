//! Memory inherited by fork: shared until written.
//!
//! Such a region is two mappings over the same addresses: one of the parent's object, and one of an
//! object of the child's own. A page is seen through the first until the child writes it, and
//! through the second from then on. The parent is taken not to write after the fork (as a zygote
//! does not), so that what the child sees of its object stays what it was.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::mem::mapping::TABLE;
use crate::mem::{MappingFlags, MappingId, Pte, Slot};
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::{Counter, FolioId, MmId, ObjectId};

/// A region inherited by fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inherited {
    /// View of the parent's memory.
    pub shared: MappingId,
    /// What the child has written.
    pub own: MappingId,
}

impl Machine {
    /// Gives `child` the region that `parent` maps. Entries are copied as fork does: what is present
    /// in the parent is present in the child, neither accessed nor writable.
    ///
    /// # Panics
    /// If the mapping is not one of anonymous memory: files are mapped, not inherited.
    pub fn inherit(&self, ctx: &Ctx, parent: MappingId, child: MmId) -> Inherited {
        let (object, start, pages) = {
            let w = self.world();
            let m = &w.mappings[parent.0 as usize];
            assert!(
                w.objects[m.object.idx()].is_anon(),
                "fork of a file mapping"
            );
            (m.object, m.start, m.len())
        };
        let flags = MappingFlags::empty();
        let shared = self.mmap(child, object, start, pages, flags);
        // What the child writes is copied page by page.
        let single = MappingFlags::NO_HUGE;
        let own = self.mmap(child, self.create_anon(pages), 0, pages, single);
        self.world_mut().copy_entries(ctx, parent, shared);
        Inherited { shared, own }
    }

    /// A load or store of one page of an inherited region.
    ///
    /// # Errors
    /// As [`Machine::access`].
    pub async fn access_inherited(
        &self,
        ctx: &Ctx,
        region: Inherited,
        entry: u32,
        write: bool,
    ) -> Result<(), OpError> {
        if self.world_mut().touch(region.own, entry, write) {
            return Ok(());
        }
        let (owned, theirs) = {
            let w = self.world();
            let filled = |id: MappingId| {
                let m = &w.mappings[id.0 as usize];
                let slot = w.objects[m.object.idx()].slot(m.start + entry);
                !matches!(slot, Slot::Empty | Slot::Shadow(_))
            };
            (filled(region.own), filled(region.shared))
        };
        if owned || !theirs {
            // Written before, or nothing to share: memory of its own.
            return self.access(ctx, region.own, entry, write).await;
        }
        self.access(ctx, region.shared, entry, false).await?;
        if !write {
            return Ok(());
        }
        self.access(ctx, region.own, entry, true).await?;
        let mut w = self.world_mut();
        ctx.charge(TimeClass::Fault, w.params.buffered_io_page_ns);
        w.leave_shared(ctx, region.shared, entry);
        Ok(())
    }
}

impl World {
    /// Copies the present entries of one mapping of an object to another.
    fn copy_entries(&mut self, ctx: &Ctx, from: MappingId, to: MappingId) {
        let mut copied = 0;
        let mut next = 0;
        while next < self.mappings[to.0 as usize].len() {
            let (e, m) = (next, &self.mappings[from.0 as usize]);
            next += 1;
            if m.is_huge(e) {
                let folio = self.objects[m.object.idx()].word(m.start + e).folio();
                self.map_huge(to, e / TABLE, folio.expect("mapped"), Pte::empty());
                next = e + TABLE;
                copied += 1;
                continue;
            }
            if !m.ptes.is_present(e) {
                continue;
            }
            let folio = self.objects[m.object.idx()].word(m.start + e).folio();
            self.map_folio(to, e, folio.expect("mapped"), Pte::empty());
            // Nothing has used it through this mapping yet.
            self.mappings[to.0 as usize].ptes.take(e, Pte::YOUNG);
            copied += 1;
        }
        ctx.charge(TimeClass::Fault, copied * self.params.fault_around_pte_ns);
    }

    /// An entry of a shared anonymous page has been cleared and its mapping is about to be taken off
    /// the folio. If it was the last one, another mapping that may still want the contents gets the
    /// page instead, not accessed: a page that nobody maps would be gone. False if nobody is left
    /// who could want it; `left` no longer does.
    pub(super) fn hand_over(
        &mut self,
        object: ObjectId,
        page: u32,
        folio: FolioId,
        left: Option<MappingId>,
    ) -> bool {
        let f = self.engine.folio(folio);
        // The page itself, of a large folio: the others say nothing about it.
        let elsewhere = match f.order() {
            0 => f.mapcount() > 1,
            _ => self.is_page_mapped(object, page),
        };
        if elsewhere {
            return true;
        }
        let heir = self.objects[object.idx()].mappings.iter().find_map(|&id| {
            let m = &self.mappings[id.0 as usize];
            let e = m.entry_of(page)?;
            (Some(id) != left && m.alive && !m.ptes.is_present(e)).then_some((id, e))
        });
        let Some((id, e)) = heir else {
            return false;
        };
        self.map_folio(id, e, folio, Pte::empty());
        self.mappings[id.0 as usize].ptes.take(e, Pte::YOUNG);
        true
    }

    /// The child has a copy of its own: its entry of the parent's page goes.
    fn leave_shared(&mut self, ctx: &Ctx, shared: MappingId, entry: u32) {
        let m = &mut self.mappings[shared.0 as usize];
        // Reclaim may have been faster, or the region is gone.
        if !m.alive || !m.ptes.is_present(entry) {
            return;
        }
        self.split_entry(shared, entry);
        let m = &mut self.mappings[shared.0 as usize];
        m.clear(entry);
        let (object, page, mm) = (m.object, m.start + entry, m.mm);
        let folio = self.objects[object.idx()].word(page).folio();
        let folio = folio.expect("mapped");
        let mm = &mut self.mms[mm.idx()];
        mm.anon -= 1;
        let memcg = mm.memcg;
        if !self.hand_over(object, page, folio, Some(shared)) {
            self.forget_anon(ctx, object, page);
            self.note_partial(folio);
        }
        self.engine.folio_unmap(folio);
        self.engine.count(memcg, Counter::TlbLocalFlushOne, 1);
        ctx.charge(TimeClass::Fault, self.params.tlb_local_flush_ns);
        self.pay(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;
    use crate::ctx::InlineClock;
    use crate::machine::MachineRun;
    use crate::SwapConfig;
    use coldset_engine::presets::preset;
    use coldset_engine::MemcgId;

    struct Forked {
        run: MachineRun,
        m: Machine,
        parent: (MmId, MappingId),
        child: (MmId, Inherited),
    }

    /// A parent of 16 pages, the first 8 written, and its child.
    fn forked() -> Forked {
        let mut cfg = MachineConfig::new(preset("v5").unwrap());
        cfg.ram = Some(8192);
        cfg.swap = SwapConfig::Zram {
            pages: 4096,
            algorithm: "lz4".into(),
        };
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let zygote = m.create_mm(MemcgId::ROOT);
        let region = m.mmap(zygote, m.create_anon(16), 0, 16, MappingFlags::empty());
        let ctx = ctx(zygote);
        for e in 0..8 {
            run.run_inline(&ctx, m.access(&ctx, region, e, true))
                .unwrap();
        }
        let app = m.create_mm(MemcgId::ROOT);
        let inherited = m.inherit(&ctx, region, app);
        Forked {
            run,
            m,
            parent: (zygote, region),
            child: (app, inherited),
        }
    }

    fn ctx(mm: MmId) -> Ctx {
        Ctx::inline(mm, MemcgId::ROOT, InlineClock::Running)
    }

    impl Forked {
        fn touch(&mut self, entry: u32, write: bool) {
            let (mm, region) = self.child;
            let ctx = ctx(mm);
            self.run
                .run_inline(&ctx, self.m.access_inherited(&ctx, region, entry, write))
                .unwrap();
            self.m.world().check();
        }

        fn anon(&self) -> i64 {
            let w = self.m.world();
            w.engine.memcgs.live(MemcgId::ROOT, Counter::AnonPages)
        }

        fn entry(&self, id: MappingId, e: u32) -> Pte {
            self.m.world().mappings[id.0 as usize].ptes.get(e)
        }
    }

    #[test]
    fn reads_share_and_writes_copy() {
        let mut f = forked();
        let (_, region) = f.child;
        assert_eq!(f.anon(), 8);
        assert_eq!(f.entry(region.shared, 3), Pte::PRESENT, "not accessed yet");
        f.touch(3, false);
        assert_eq!(f.anon(), 8);
        assert!(f.entry(region.shared, 3).contains(Pte::YOUNG));
        f.touch(3, true);
        assert_eq!(f.anon(), 9, "a copy");
        assert_eq!(f.entry(region.shared, 3), Pte::empty());
        assert!(f.entry(region.own, 3).contains(Pte::DIRTY));
        assert!(
            f.entry(f.parent.1, 3).contains(Pte::PRESENT),
            "the parent keeps its page"
        );
        f.touch(3, false);
        f.touch(12, true);
        assert_eq!(f.anon(), 10, "never written by the parent: nothing to copy");
        assert_eq!(f.m.world().mm(f.child.0).anon, 7 + 2);
    }

    #[test]
    fn the_end_of_a_child_frees_what_it_wrote_and_nothing_else() {
        let mut f = forked();
        for e in 0..6 {
            f.touch(e, true);
        }
        assert_eq!(f.anon(), 14);
        let (mm, _) = f.child;
        f.m.exit_mm(&ctx(mm), mm);
        f.m.world().check();
        assert_eq!(f.anon(), 8);
        // The parent may go first: its pages live as long as a child sees them.
        let app = f.m.create_mm(MemcgId::ROOT);
        let (zygote, region) = f.parent;
        let inherited = f.m.inherit(&ctx(zygote), region, app);
        f.m.exit_mm(&ctx(zygote), zygote);
        f.child = (app, inherited);
        assert_eq!(f.anon(), 8);
        f.touch(0, true);
        f.m.exit_mm(&ctx(app), app);
        f.m.world().check();
        assert_eq!(f.anon(), 0);
    }

    #[test]
    fn shared_pages_come_back_from_swap_for_all() {
        let mut f = forked();
        let (mm, _) = f.child;
        // Push everything out by filling memory.
        let filler = f.m.create_mm(MemcgId::ROOT);
        let big = f.m.mmap(
            filler,
            f.m.create_anon(9000),
            0,
            9000,
            MappingFlags::empty(),
        );
        let c = ctx(filler);
        for round in 0..2 {
            for e in 0..9000 {
                f.run
                    .run_inline(&c, f.m.access(&c, big, e, true))
                    .unwrap_or_else(|e| panic!("round {round}: {e}"));
            }
        }
        let (object, pool) = {
            let w = f.m.world();
            let pool = w.swap().unwrap().pool_pages();
            (w.mappings[f.parent.1 .0 as usize].object, pool)
        };
        assert!(pool > 0);
        assert!(matches!(f.m.world().object(object).slot(2), Slot::Swap(_)));
        f.touch(2, true);
        assert!(matches!(f.m.world().object(object).slot(2), Slot::Folio(_)));
        assert_eq!(f.m.world().mm(mm).anon, 1, "its copy only");
        // What the pool held is free again in the end.
        for mm in [filler, mm, f.parent.0] {
            f.m.exit_mm(&ctx(mm), mm);
        }
        let w = f.m.world();
        assert_eq!(w.swap().unwrap().pool_pages(), 0);
        assert_eq!(
            w.engine.zones.all()[0].free + w.engine.zones.all()[0].pcp,
            8192
        );
    }
}
