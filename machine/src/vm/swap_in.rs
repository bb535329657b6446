//! A fault on a page in swap: the page and its neighbours come back (`docs/rules/swap.md`).
//!
//! Drives without moving parts read ahead what is next to the page in its mapping, not on the device.
//! What a mapping's faults find already read widens its window.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::mem::{MappingFlags, MappingId, Slot};
use crate::vm::held::{Charge, FolioRef};
use crate::vm::swap_area::Swap;
use crate::world::World;
use coldset_engine::{Counter, Flags, FolioId, MemcgId, ObjectId};
use std::ops::Range;

/// A page to be read ahead, and the memory it goes to.
struct Neighbour<'a> {
    page: u32,
    slot: u32,
    owner: MemcgId,
    charge: Charge<'a>,
}

impl Machine {
    /// Brings a swapped page back inside a fault. `None`: it is no longer in that slot, look
    /// again.
    pub(crate) async fn swap_in(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        object: ObjectId,
        page: u32,
        slot: u32,
    ) -> Result<Option<FolioRef<'_>>, OpError> {
        let owner = self.w.borrow().swap_owner(ctx, slot);
        let charge = self.get_pages(ctx, owner, 1).await?;
        let window = self.w.borrow_mut().swap_window(mapping, page);
        // Memory for all first: then they are read at once, neighbours on the device in one request.
        let mut ahead: Vec<Neighbour<'_>> = Vec::new();
        for near in window.clone().filter(|&p| p != page) {
            let found = self.w.borrow().objects[object.idx()].slot(near);
            let Slot::Swap(slot) = found else { continue };
            let owner = self.w.borrow().swap_owner(ctx, slot);
            let Ok(charge) = self.get_pages(ctx, owner, 1).await else {
                break;
            };
            ahead.push(Neighbour {
                page: near,
                slot,
                owner,
                charge,
            });
        }
        let after = ahead.split_off(ahead.partition_point(|n| n.page < page));
        self.read_ahead_swap(ctx, object, ahead);
        let (held, end) = {
            let mut w = self.w.borrow_mut();
            // While we waited for memory another task may have brought it in, or unmapped it, and
            // the slot may be another page's by now.
            if w.objects[object.idx()].slot(page) != Slot::Swap(slot) {
                drop(w);
                return Ok(None);
            }
            let end = w.read_swap(ctx, owner, slot).map_err(OpError::Device)?;
            charge.keep();
            let id = w.begin_swap_in(ctx, object, page, slot, owner);
            w.unlock_at(ctx, end, id);
            (FolioRef::of(self, id), end)
        };
        self.read_ahead_swap(ctx, object, after);
        if window.len() > 1 {
            self.w.borrow_mut().engine.lru_add_drain(ctx.cpu());
        }
        ctx.io_until(end).await;
        self.wait_unlocked(ctx, held.id).await;
        Ok(Some(held))
    }

    /// Starts reading the neighbours; nobody waits for them. An error is left to the task that needs the page.
    fn read_ahead_swap(&self, ctx: &Ctx, object: ObjectId, pages: Vec<Neighbour<'_>>) {
        for near in pages {
            let Neighbour {
                page,
                slot,
                owner,
                charge,
            } = near;
            let mut w = self.w.borrow_mut();
            if w.objects[object.idx()].slot(page) != Slot::Swap(slot) {
                drop(w);
                continue;
            }
            let Ok(end) = w.read_swap(ctx, owner, slot) else {
                drop(w);
                continue;
            };
            charge.keep();
            let id = w.begin_swap_in(ctx, object, page, slot, owner);
            w.engine.folio_set(id, Flags::READAHEAD);
            w.engine.count(owner, Counter::SwapRa, 1);
            w.unlock_at(ctx, end, id);
            // The cache holds it.
            w.engine.folio_put(id, 1);
        }
    }
}

impl World {
    /// Who pays for the page in a slot.
    fn swap_owner(&self, ctx: &Ctx, slot: u32) -> MemcgId {
        let css = self.swap.as_ref().expect("swapped page").owner(slot);
        self.engine.memcgs.swapin_memcg(css, ctx.memcg)
    }

    /// Pages of the object that a fault on one of them is to read.
    fn swap_window(&mut self, mapping: MappingId, page: u32) -> Range<u32> {
        let cluster = self.page_cluster;
        let synchronous = self.swap.as_ref().is_none_or(Swap::synchronous);
        let m = &mut self.mappings[mapping.0 as usize];
        if cluster == 0 || synchronous || m.flags.contains(MappingFlags::NO_RECENCY) {
            return page..page + 1;
        }
        let (first, end) = (m.start, m.start + m.len());
        let window = m.ahead.window(page.into(), cluster, end.into());
        (window.start as u32).max(first)..window.end as u32
    }

    /// A fault finds a page that was read ahead.
    pub(super) fn swap_ahead_hit(&mut self, ctx: &Ctx, mapping: MappingId, id: FolioId) {
        let f = self.engine.folio(id);
        if !f.has(Flags::SWAPCACHE) || !f.has(Flags::READAHEAD) {
            return;
        }
        self.engine.folio_clear(id, Flags::READAHEAD);
        self.mappings[mapping.0 as usize].ahead.hit();
        self.engine.count(ctx.memcg, Counter::SwapRaHit, 1);
    }

    /// A store wants the folio of the swap cache for itself. A batch that holds it is one more user, so
    /// the batches of this CPU are drained first (`docs/rules/batches.md`).
    pub(super) fn drain_for_store(&mut self, ctx: &Ctx, id: FolioId) {
        if !self.engine.folio(id).has(Flags::LRU) {
            self.engine.lru_add_drain(ctx.cpu());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MachineConfig, SwapConfig};
    use crate::ctx::InlineClock;
    use crate::device::DeviceKind;
    use crate::machine::MachineRun;
    use coldset_engine::switches::presets::preset;

    const LIMIT: u64 = 300;
    const PAGES: u32 = 1200;

    /// Sweeps over four times the limit, every load compared; major faults, pages read ahead, hits.
    fn sweeps(page_cluster: u32, swap: SwapConfig, up: bool) -> [i64; 3] {
        let mut cfg = MachineConfig::new(preset("base").unwrap());
        cfg.swap = swap;
        cfg.page_cluster = page_cluster;
        cfg.check = true;
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(LIMIT);
        let mm = m.create_mm(memcg);
        let ctx = Ctx::inline(mm, memcg, InlineClock::Running);
        let region = m.create_anon(PAGES);
        let map = m.mmap(mm, region, 0, PAGES, MappingFlags::empty());
        run.run_inline(&ctx, async {
            for sweep in 0..4 {
                for i in 0..PAGES {
                    let page = if up { i } else { PAGES - 1 - i };
                    m.access(&ctx, map, page, sweep % 2 == 0).await.unwrap();
                }
            }
        });
        run.catch_up(&ctx);
        let w = run.machine.world();
        w.check();
        let live = |c| w.engine.memcgs.live(memcg, c);
        [Counter::Pgmajfault, Counter::SwapRa, Counter::SwapRaHit].map(live)
    }

    fn disk() -> SwapConfig {
        SwapConfig::Disk {
            pages: 4000,
            device: DeviceKind::Nvme,
        }
    }

    #[test]
    fn a_sweep_reads_ahead_in_either_direction() {
        let [alone, ahead, hits] = sweeps(0, disk(), true);
        assert!(alone > 3000, "{alone}");
        assert_eq!((ahead, hits), (0, 0));
        for up in [true, false] {
            let [faults, ahead, hits] = sweeps(3, disk(), up);
            assert!(faults * 6 < alone, "windows of eight pages: {faults}");
            assert!(hits * 20 > ahead * 19, "{hits} of {ahead}");
            assert!(faults + ahead > 3000, "{faults} and {ahead}");
        }
    }

    /// Two tasks share a region; one stores to pages whose copies in the swap are good, and goes.
    #[test]
    fn what_a_task_stored_stays_with_those_who_share_it() {
        let mut cfg = MachineConfig::new(preset("base").unwrap());
        cfg.swap = disk();
        cfg.page_cluster = 0;
        cfg.check = true;
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(LIMIT);
        let mms = [m.create_mm(memcg), m.create_mm(memcg)];
        let [one, other] = mms.map(|mm| Ctx::inline(mm, memcg, InlineClock::Running));
        let region = m.create_anon(PAGES);
        let [ones, others] = mms.map(|mm| m.mmap(mm, region, 0, PAGES, MappingFlags::empty()));
        run.run_inline(&one, async {
            for page in 0..PAGES {
                m.access(&one, ones, page, true).await.unwrap();
            }
            // Those that were stored first have been written to the swap.
            for page in 0..LIMIT as u32 / 4 {
                m.access(&one, ones, page, false).await.unwrap();
            }
        });
        run.catch_up(&one);
        run.run_inline(&other, async {
            for page in 0..LIMIT as u32 / 4 {
                m.access(&other, others, page, false).await.unwrap();
            }
        });
        run.catch_up(&other);
        run.run_inline(&one, async {
            for page in 0..LIMIT as u32 / 4 {
                m.access(&one, ones, page, true).await.unwrap();
            }
        });
        m.munmap(&one, ones);
        run.catch_up(&one);
        run.run_inline(&other, async {
            for page in (0..PAGES).rev() {
                m.access(&other, others, page, false).await.unwrap();
            }
        });
        run.catch_up(&other);
        run.machine.world().check();
    }

    #[test]
    fn a_synchronous_device_reads_nothing_ahead() {
        let zram = SwapConfig::Zram {
            pages: 4000,
            algorithm: "lz4".into(),
        };
        assert_eq!(sweeps(3, zram, true)[1..], [0, 0]);
    }
}
