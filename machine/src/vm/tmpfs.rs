//! tmpfs: files that live in memory only. Their pages are page cache by owner and swap-backed by
//! list: on the anonymous lists, dirty from birth, written to swap by reclaim
//! (`docs/rules/swap.md`).
//!
//! Reclaim moves a page from the file's index to the swap cache when it writes it; the file's slot
//! keeps naming the folio until it is freed, as it does for anonymous memory.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::mem::{Backing, Slot};
use crate::vm::held::FolioRef;
use crate::world::World;
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::{Counter, Flags, FolioId, MemcgId, ObjectId};

/// What a page of a tmpfs file is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// A read through a descriptor: a hole stays one.
    Read,
    /// A write through a descriptor.
    Write,
    /// A page fault.
    Fault,
}

impl Use {
    fn site(self) -> RefaultSite {
        match self {
            Self::Read | Self::Write => RefaultSite::Read,
            Self::Fault => RefaultSite::Fault,
        }
    }
}

impl Machine {
    /// A new file of `pages` pages in memory, all holes. Memory for a page is charged to the memcg
    /// of the task that writes it first.
    pub fn create_tmpfs(&self, pages: u32) -> ObjectId {
        let mut w = self.w.borrow_mut();
        let object = w.new_object(Backing::Tmpfs, pages);
        w.add_object(object)
    }

    /// The folio of a page that is not in memory: back from swap, or new. `None`: a hole that is
    /// only read, or another task was faster: look again.
    pub(crate) async fn tmpfs_page(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        purpose: Use,
    ) -> Result<Option<FolioRef<'_>>, OpError> {
        let slot = self.w.borrow().objects[object.idx()].slot(page);
        let owner = match slot {
            Slot::Folio(id) => return Ok(Some(self.get_unlocked(ctx, id).await)),
            Slot::Swap(s) => {
                let w = self.w.borrow();
                let css = w.swap.as_ref().expect("swapped page").owner(s);
                w.engine.memcgs.swapin_memcg(css, ctx.memcg)
            }
            Slot::Empty | Slot::Shadow(_) if purpose == Use::Read => return Ok(None),
            Slot::Empty | Slot::Shadow(_) => ctx.memcg,
        };
        let nodes = self.w.borrow_mut().new_index_nodes(object, page);
        let charge = self.get_pages(ctx, owner, 1).await?;
        self.charge_kernel(ctx, owner, nodes, 0, 0).await?;
        let (held, end) = {
            let mut w = self.w.borrow_mut();
            w.engine.set_now(ctx.now());
            if w.objects[object.idx()].slot(page) != slot {
                return Ok(None);
            }
            let end = match slot {
                Slot::Swap(s) => w.read_swap(ctx, owner, s).map_err(OpError::Device)?,
                _ => ctx.now(),
            };
            charge.keep();
            let id = w.insert_tmpfs(ctx, owner, object, page, purpose);
            w.unlock_at(ctx, end, id);
            w.pay(ctx);
            (FolioRef::of(self, id), end)
        };
        ctx.io_until(end).await;
        self.wait_unlocked(ctx, held.id).await;
        Ok(Some(held))
    }
}

impl World {
    /// True if nothing was ever written there.
    pub(crate) fn is_hole(&self, object: ObjectId, page: u32) -> bool {
        matches!(
            self.objects[object.idx()].slot(page),
            Slot::Empty | Slot::Shadow(_)
        )
    }

    /// Puts a charged page, locked, into its slot; its swap slot, if it has one, is given back.
    fn insert_tmpfs(
        &mut self,
        ctx: &Ctx,
        owner: MemcgId,
        object: ObjectId,
        page: u32,
        purpose: Use,
    ) -> FolioId {
        let from = self.objects[object.idx()].slot(page);
        let flags =
            Flags::SWAPBACKED | Flags::OWNED | Flags::LOCKED | Flags::UPTODATE | Flags::DIRTY;
        let id = self.insert_folio(owner, ctx.reach(), object, page, flags);
        // One reference for the index, one for the caller.
        self.engine.folio_get(id, 1);
        if let Slot::Swap(slot) = from {
            let swap = self.swap.as_ref().expect("swapped page");
            let (shadow, version) = (swap.shadow(slot), swap.version(slot));
            self.engine.count(owner, Counter::Pswpin, 1);
            if purpose == Use::Fault {
                self.engine.count(owner, Counter::Pgmajfault, 1);
            }
            if let Some(shadow) = shadow {
                self.engine.refault(id, shadow, purpose.site());
            }
            if let Some(c) = &mut self.objects[object.idx()].contents {
                c.memory[page as usize] = version;
            }
            self.release_swap(ctx, slot);
        }
        self.engine.lru_add(ctx.cpu(), id, purpose == Use::Fault);
        id
    }

    /// The folio of a tmpfs file is being written to swap, or has been and is still in memory.
    pub(crate) fn tmpfs_in_swap_cache(&self, object: ObjectId, id: FolioId) -> bool {
        self.objects[object.idx()].is_tmpfs() && self.engine.folio(id).has(Flags::SWAPCACHE)
    }

    /// A folio that is in the swap cache, neither locked nor being written, belongs to its file
    /// again: page tables may map it, and its slot is given back.
    pub(crate) fn tmpfs_take_back(&mut self, ctx: &Ctx, id: FolioId) {
        let f = self.engine.folio(id);
        let Some(slot) = f.swap_slot() else { return };
        if f.any(Flags::LOCKED | Flags::WRITEBACK) {
            return;
        }
        self.engine.folio_get(id, 1);
        self.engine.folio_set(id, Flags::OWNED | Flags::DIRTY);
        self.engine.leave_swap_cache(id);
        self.release_swap(ctx, slot);
    }

    /// Moves a page that reclaim writes from the file's index to the swap cache. `None`: there is
    /// no swap slot for it.
    pub(crate) fn tmpfs_to_swap_cache(&mut self, ctx: &Ctx, id: FolioId) -> Option<u32> {
        let slot = self.alloc_swap(ctx, id)?;
        self.engine.enter_swap_cache(id, slot);
        self.engine.folio_clear(id, Flags::OWNED);
        self.engine.folio_put(id, 1);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MachineConfig, SwapConfig};
    use crate::ctx::InlineClock;
    use crate::device::DeviceKind;
    use crate::io::read::OpenFile;
    use crate::machine::MachineRun;
    use crate::mem::MappingFlags;
    use coldset_engine::switches::presets::preset;

    const LIMIT: u64 = 300;

    fn zram(pages: u32) -> SwapConfig {
        SwapConfig::Zram {
            pages,
            algorithm: "lz4".into(),
        }
    }

    fn disk(pages: u32) -> SwapConfig {
        SwapConfig::Disk {
            pages,
            device: DeviceKind::Nvme,
        }
    }

    /// A machine with a memcg of [`LIMIT`] pages, that checks itself after every reclaim.
    fn machine(variant: &str, swap: SwapConfig) -> (MachineRun, Ctx) {
        let mut cfg = MachineConfig::new(preset(variant).unwrap());
        cfg.swap = swap;
        cfg.check = true;
        let run = MachineRun::new(&cfg).unwrap();
        let memcg = run.machine.limited_memcg(LIMIT);
        let mm = run.machine.create_mm(memcg);
        let ctx = Ctx::inline(mm, memcg, InlineClock::Running);
        (run, ctx)
    }

    fn live(run: &MachineRun, ctx: &Ctx, c: Counter) -> i64 {
        run.machine.world().engine.memcgs.live(ctx.memcg, c)
    }

    /// Writes all of a file, a page at a time, as a program would.
    fn fill(run: &mut MachineRun, ctx: &Ctx, file: ObjectId, pages: u32) {
        let m = run.machine.clone();
        run.run_inline(ctx, async {
            for page in 0..pages {
                m.write(ctx, file, page, 1, true).await.unwrap();
            }
        });
    }

    fn read(run: &mut MachineRun, ctx: &Ctx, file: &OpenFile, page: u32, pages: u32) {
        let m = run.machine.clone();
        run.run_inline(ctx, m.read(ctx, file, page, pages)).unwrap();
    }

    /// More than fits goes to swap and comes back with what was stored (every load compares).
    #[test]
    fn pages_go_to_swap_and_come_back() {
        for variant in ["classic", "base", "v5", "v612", "merged"] {
            for swap in [zram(4000), disk(4000)] {
                let (mut run, ctx) = machine(variant, swap.clone());
                let file = run.machine.create_tmpfs(1000);
                fill(&mut run, &ctx, file, 1000);
                let out = live(&run, &ctx, Counter::Pswpout);
                assert!(out >= 1000 - LIMIT as i64, "{variant} {swap:?}: {out}");
                assert_eq!(live(&run, &ctx, Counter::Pgpgout) == 0, swap == zram(4000));
                let open = OpenFile::new(file);
                read(&mut run, &ctx, &open, 0, 1000);
                fill(&mut run, &ctx, file, 500);
                read(&mut run, &ctx, &open, 0, 1000);
                assert!(live(&run, &ctx, Counter::Pswpin) >= 700);
                assert!(live(&run, &ctx, Counter::RefaultAnon) >= 700);
                assert_eq!(live(&run, &ctx, Counter::RefaultFile), 0);
                assert_eq!(live(&run, &ctx, Counter::FileDirty), 0);
                run.catch_up(&ctx);
                run.machine.world().check();
            }
        }
    }

    /// A page that is charged once stays charged to who wrote it first; another reader pays nothing.
    #[test]
    fn memory_is_charged_to_the_first_writer() {
        let (mut run, ctx) = machine("v5", zram(1000));
        let file = run.machine.create_tmpfs(100);
        let outside = Ctx::inline(
            run.machine.create_mm(MemcgId::ROOT),
            MemcgId::ROOT,
            InlineClock::Running,
        );
        fill(&mut run, &outside, file, 100);
        let open = OpenFile::new(file);
        read(&mut run, &ctx, &open, 0, 100);
        let usage = |run: &MachineRun| {
            run.machine.world().engine.memcgs[ctx.memcg]
                .memory()
                .usage()
        };
        assert_eq!(usage(&run), 0);
        let own = run.machine.create_tmpfs(100);
        fill(&mut run, &ctx, own, 100);
        // Charges are taken in batches.
        assert!((100..=100 + 64).contains(&usage(&run)));
        assert_eq!(live(&run, &ctx, Counter::FilePages), 100);
    }

    #[test]
    fn holes_are_read_without_memory() {
        let (mut run, ctx) = machine("v5", zram(1000));
        let file = run.machine.create_tmpfs(5000);
        let before = ctx.now();
        read(&mut run, &ctx, &OpenFile::new(file), 0, 5000);
        assert_eq!(live(&run, &ctx, Counter::FilePages), 0);
        let each = run.machine.world().params.buffered_io_page_ns;
        assert!(ctx.now() - before >= 5000 * each);
    }

    /// Without a slot left nothing can be written: pages stay, and the memcg runs into its limit.
    #[test]
    fn a_full_swap_keeps_pages_in_memory() {
        let (mut run, ctx) = machine("v5", zram(64));
        let file = run.machine.create_tmpfs(1000);
        let m = run.machine.clone();
        let done = run.run_inline(&ctx, async {
            for page in 0..1000 {
                m.write(&ctx, file, page, 1, true).await?;
            }
            Ok(())
        });
        assert_eq!(done, Err(OpError::NoMemory));
        // Reclaim leaves anonymous lists alone already when few slots are left.
        assert!((1..=64).contains(&live(&run, &ctx, Counter::Pswpout)));
        run.machine.world().check();
    }

    /// Mapped tmpfs: faults, stores and loads through page tables, together with descriptors.
    #[test]
    fn mapped_pages_survive_swap() {
        for swap in [zram(4000), disk(1200)] {
            let (mut run, ctx) = machine("v5", swap);
            let file = run.machine.create_tmpfs(900);
            let m = run.machine.clone();
            let map = m.mmap(ctx.mm, file, 0, 900, MappingFlags::empty());
            run.run_inline(&ctx, async {
                for round in 0..4u32 {
                    for page in 0..900 {
                        let write = (page + round) % 3 == 0;
                        m.access(&ctx, map, page, write).await.unwrap();
                        if page % 7 == 0 {
                            m.write(&ctx, file, page, 1, true).await.unwrap();
                        }
                    }
                }
            });
            assert!(live(&run, &ctx, Counter::Pgmajfault) > 1000);
            run.catch_up(&ctx);
            run.machine.world().check();
            run.machine.exit_mm(&ctx, ctx.mm);
            // The file outlives the process.
            read(&mut run, &ctx, &OpenFile::new(file), 0, 900);
            run.machine.world().check();
        }
    }

    /// Page tables are charged and given back with their mapping.
    #[test]
    fn exit_returns_page_tables() {
        let mut cfg = MachineConfig::new(preset("v5").unwrap());
        cfg.kernel_memory = true;
        let mut run = MachineRun::new(&cfg).unwrap();
        let memcg = run.machine.world_mut().engine.memcg_create(MemcgId::ROOT);
        let memcg = memcg.unwrap();
        let m = run.machine.clone();
        let mut kernel = Vec::new();
        for _ in 0..3 {
            let mm = m.create_mm(memcg);
            let ctx = Ctx::inline(mm, memcg, InlineClock::Running);
            let heap = m.create_anon(10 * 512);
            let map = m.mmap(mm, heap, 0, 10 * 512, MappingFlags::empty());
            run.run_inline(&ctx, async {
                for table in 0..10 {
                    m.access(&ctx, map, table * 512, true).await.unwrap();
                }
            });
            let kernel_pages = || {
                let all = live(&run, &ctx, Counter::KernelPages);
                // There are no index nodes, so no slab.
                assert_eq!(live(&run, &ctx, Counter::KernelOther), all);
                all
            };
            let before = kernel_pages();
            m.exit_mm(&ctx, mm);
            kernel.push((before, kernel_pages()));
        }
        assert_eq!(kernel, [(15, 5); 3]);
    }

    /// What an exited process had in swap is given back; what is in a file stays.
    #[test]
    fn exit_returns_swap_slots() {
        let (mut run, ctx) = machine("v5", zram(4000));
        let m = run.machine.clone();
        let file = m.create_tmpfs(200);
        fill(&mut run, &ctx, file, 200);
        let heap = m.create_anon(1000);
        let map = m.mmap(ctx.mm, heap, 0, 1000, MappingFlags::empty());
        run.run_inline(&ctx, async {
            for page in 0..1000 {
                m.access(&ctx, map, page, true).await.unwrap();
            }
        });
        let used = |run: &MachineRun| {
            let w = run.machine.world();
            w.swap().map_or(0, |s| s.total() - s.free())
        };
        assert!(used(&run) >= 800);
        run.machine.exit_mm(&ctx, ctx.mm);
        assert!(used(&run) <= 200, "{}", used(&run));
        let usage = run.machine.world().engine.memcgs[ctx.memcg]
            .memory()
            .usage();
        assert!(usage <= 200, "{usage}");
        run.machine.world().check();
    }
}
