//! Moving pages out to swap and back in.

use super::huge::HUGE;
use super::swap_area::{Held, Store, Swap};
use crate::ctx::Ctx;
use crate::device::{DeviceError, Request};
use crate::mem::folio::pages_of;
use crate::mem::Fill;
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::reclaim::Written;
use coldset_engine::swap::slots::{Allocation, SwapSlot};
use coldset_engine::swap::zram::PageClass;
use coldset_engine::swap::{bypasses_cache, frees_slot_at_swap_in};
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::{Counter, Flags, FolioId, MemcgId, NodeId, ObjectId};

impl World {
    /// A slot for an anonymous folio, of a large one the first of a run, charged to its memcg.
    pub(crate) fn alloc_swap(&mut self, ctx: &Ctx, folio: FolioId) -> Option<u32> {
        let lruvec = self.engine.folio(folio).lruvec();
        let memcg = self.engine.lruvec(lruvec).memcg;
        let pages = self.engine.folio(folio).nr_pages();
        let swap = self.swap.as_mut()?;
        let found = match pages {
            1 => swap.slots.allocate(ctx.cpu().into()),
            _ => swap
                .slots
                .allocate_huge(pages as u32)
                .map(|slot| Allocation { slot, scanned: 0 }),
        };
        let Some(got) = found else {
            self.engine.memcgs.event(memcg, Counter::EventsSwapFail);
            return None;
        };
        ctx.charge(
            TimeClass::AllocStall,
            got.scanned * self.params.swap_slot_scan_ns,
        );
        let slot = got.slot.offset;
        let slots = slot..slot + pages as u32;
        match self.engine.memcgs.charge_swap(memcg, pages as u32) {
            Ok(owner) => {
                let owner = self.engine.memcgs[owner].css_id();
                for slot in slots {
                    swap.held[slot as usize] = Held {
                        owner,
                        ..Held::default()
                    };
                }
            }
            Err(_) => {
                for offset in slots {
                    let slot = SwapSlot { offset, ..got.slot };
                    swap.slots.release(ctx.cpu().into(), slot);
                }
                return None;
            }
        }
        self.tell_swap();
        Some(slot)
    }

    fn tell_swap(&mut self) {
        if let Some(s) = &self.swap {
            let (free, total) = (s.free(), s.total());
            self.engine.set_swap(free, total);
        }
    }

    /// Compressed contents live in the same RAM (`docs/rules/swap.md`): takes pages for what they
    /// need now, reserves included, or gives back what they no longer need. False if there
    /// is no page left.
    fn resize_pool(&mut self, node: NodeId) -> bool {
        let Some(swap) = self.swap.as_ref() else {
            return true;
        };
        if self.engine.zones.is_empty() {
            return true;
        }
        let needed = swap.pool_pages();
        let mut has: u64 = swap.pool_from.iter().sum();
        while has < needed {
            let Some(from) = self.take_reserved(node) else {
                return false;
            };
            self.swap.as_mut().expect("looked at").pool_from[from] += 1;
            has += 1;
        }
        while has > needed {
            let from = &mut self.swap.as_mut().expect("looked at").pool_from;
            let (zone, pages) = from
                .iter_mut()
                .enumerate()
                .max_by_key(|(_, pages)| **pages)
                .expect("a zone");
            *pages -= 1;
            has -= 1;
            self.engine.zones.give_at(zone, 1);
        }
        true
    }

    /// Frees a slot that no folio and no page refers to any longer.
    pub(crate) fn release_swap(&mut self, ctx: &Ctx, slot: u32) {
        let swap = self.swap.as_mut().expect("slot of a swap area");
        let held = std::mem::take(&mut swap.held[slot as usize]);
        swap.drop_compressed(slot);
        swap.slots.release(
            ctx.cpu().into(),
            SwapSlot {
                area: 0,
                offset: slot,
            },
        );
        self.resize_pool(ctx.node_of_cpu());
        if let Some(owner) = self.engine.memcgs.by_css_id(held.owner) {
            let uncharged = self.engine.memcgs.uncharge_swap(owner, 1);
            debug_assert!(uncharged.is_ok(), "swap charge of {owner:?}");
        }
        self.tell_swap();
    }

    /// The engine took the folio out of the swap cache; unmapped pages of it find the folio in
    /// their slot, so nothing else refers to the swap slot.
    pub(crate) fn free_swap_of(&mut self, ctx: &Ctx, slot: u32) {
        self.release_swap(ctx, slot);
    }

    /// Writes a folio out for reclaim: anonymous memory and tmpfs to its slot, a file's to its file.
    pub(crate) fn write_for_reclaim(&mut self, ctx: &Ctx, folio: FolioId) -> Written {
        let f = self.engine.folio(folio);
        let (object, _) = f.owner();
        let lruvec = self.engine.lruvec(f.lruvec());
        let (memcg, node) = (lruvec.memcg, lruvec.node);
        let slot = match f.swap_slot() {
            Some(slot) => slot,
            None if self.objects[object.idx()].is_tmpfs() => {
                let Some(slot) = self.tmpfs_to_swap_cache(ctx, folio) else {
                    return Written::Activate;
                };
                slot
            }
            None => return self.write_file_folio(ctx, folio),
        };
        self.assert_not_written_through(folio);
        let pages = pages_of(self.engine.folio(folio));
        let sent = match self.swap.as_ref().is_some_and(Swap::synchronous) {
            true => {
                let mut each = pages.clone().zip(slot..);
                each.all(|(page, slot)| self.compress(ctx, object, page, slot, node))
            }
            false => self.send_to_swap(ctx, folio, slot),
        };
        if !sent {
            return Written::Failed;
        }
        for (page, slot) in pages.clone().zip(slot..) {
            let swap = self.swap.as_mut().expect("folio with a swap slot");
            if let Some(c) = &mut self.objects[object.idx()].contents {
                let version = c.memory[page as usize];
                swap.held[slot as usize].version = version;
                c.disk[page as usize] = version;
            } else {
                swap.held[slot as usize].version = 0;
            }
        }
        let n = pages.len() as i64;
        self.engine.count(memcg, Counter::Pswpout, n);
        if n == i64::from(HUGE) {
            self.engine.count(memcg, Counter::ThpSwpout, 1);
        }
        Written::Submitted
    }

    /// Compresses a page of this node into a slot of zram. False if it cannot be stored.
    fn compress(&mut self, ctx: &Ctx, object: ObjectId, page: u32, slot: u32, of: NodeId) -> bool {
        let swap = self.swap.as_mut().expect("folio with a swap slot");
        let Store::Zram { pool, timing } = &mut swap.store else {
            unreachable!("compressed memory on a disk")
        };
        let key = u64::from(object.0) << 32 | u64::from(page);
        let known = match self.objects[object.idx()].fill {
            Fill::Ordinary => None,
            Fill::Same => Some(PageClass::SameFilled),
            Fill::Random => Some(PageClass::Incompressible),
        };
        let stored = match known {
            Some(class) => pool.store_as(slot, class).map(|()| class),
            None => pool.store(slot, key),
        };
        let Ok(class) = stored else {
            return false;
        };
        let ns = if class == PageClass::SameFilled {
            timing.read_mean_ns / 4
        } else {
            timing.compress_ns
        };
        ctx.charge(TimeClass::AllocStall, ns);
        let node = match self.compressed_near_page {
            true => of,
            false => ctx.node_of_cpu(),
        };
        let fits = self.resize_pool(node);
        if !fits {
            let swap = self.swap.as_mut().expect("folio with a swap slot");
            swap.drop_compressed(slot);
            self.resize_pool(node);
        }
        fits
    }

    /// Writes a folio to a swap device, from this slot on. False if the device refuses.
    fn send_to_swap(&mut self, ctx: &Ctx, folio: FolioId, slot: u32) -> bool {
        let f = self.engine.folio(folio);
        let bytes = f.nr_pages() * 4096;
        let memcg = self.engine.lruvec(f.lruvec()).memcg;
        let swap = self.swap.as_mut().expect("folio with a swap slot");
        let Store::Disk(device) = &mut swap.store else {
            unreachable!("a request to compressed memory")
        };
        let done = device.submit(ctx.now(), Request::write(u64::from(slot) * 4096, bytes));
        if done.result.is_err() {
            return false;
        }
        swap.writes.push_back(done.end);
        self.engine.writeback_start(folio);
        self.complete_at(done.end, vec![folio], None);
        let kib = (bytes / 1024) as i64;
        self.engine.count(memcg, Counter::Pgpgout, kib);
        true
    }
}

impl World {
    /// Reads a slot. Returns when its contents are there.
    pub(crate) fn read_swap(
        &mut self,
        ctx: &Ctx,
        owner: MemcgId,
        slot: u32,
    ) -> Result<u64, DeviceError> {
        let draw = {
            // Deterministic without a generator of its own: the slot and the time decide.
            (u64::from(slot) << 32 ^ ctx.now()).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let swap = self.swap.as_mut().expect("swapped page");
        match &mut swap.store {
            Store::Zram { pool, timing } => {
                let now = ctx.now();
                // A page of one word is not decompressed but filled.
                let ns = if pool.class(slot) == Some(PageClass::SameFilled) {
                    timing.read_mean_ns / 4
                } else {
                    timing.read_ns(draw)
                };
                ctx.charge(TimeClass::Fault, ns);
                Ok(now)
            }
            Store::Disk(device) => {
                let done = device.submit(ctx.now(), Request::read(u64::from(slot) * 4096, 4096));
                self.engine.count(owner, Counter::Pgpgin, 4);
                done.result.map(|()| done.end)
            }
        }
    }

    /// When a reclaimer that has filled the queue of the swap device may continue: all of the queue's
    /// requests are in use, and a writer waits for one to end.
    pub(crate) fn swap_queue_full(&mut self, now: u64) -> Option<u64> {
        let most = self.params.dev_queue_requests as usize;
        let writes = &mut self.swap.as_mut()?.writes;
        while writes.front().is_some_and(|&end| end <= now) {
            writes.pop_front();
        }
        let over = writes.len().checked_sub(most.max(1))?;
        (over > 0).then(|| writes[over - 1])
    }

    /// A fault finds a folio in the swap cache: a store to it, or swap being half full, gives its
    /// slot back, if nobody else uses the folio and it is not being written (`docs/rules/swap.md`).
    pub(crate) fn swap_cache_hit(&mut self, ctx: &Ctx, id: FolioId, write: bool) {
        if write {
            self.drain_for_store(ctx, id);
        }
        let f = self.engine.folio(id);
        let Some(slot) = f.swap_slot() else { return };
        if f.order() > 0 {
            // Entries of other pages may refer to theirs.
            return;
        }
        // References: this fault's and the swap cache's.
        let exclusive = f.refcount() == 2;
        let memcg = self.engine.lruvec(f.lruvec()).memcg;
        if !exclusive || f.any(Flags::WRITEBACK | Flags::LOCKED) {
            return;
        }
        let s = self.swap.as_ref().expect("slot of a swap area");
        let full = self.engine.memcgs.swap_full(memcg, s.free(), s.total());
        if frees_slot_at_swap_in(full, exclusive, write) {
            self.engine.leave_swap_cache(id);
            self.release_swap(ctx, slot);
        }
    }

    /// Unlocks a folio when its contents have arrived, whatever becomes of the task that asked.
    pub(crate) fn unlock_at(&mut self, ctx: &Ctx, end: u64, id: FolioId) {
        if ctx.task().is_none() || end <= self.sim.now() {
            self.unlock_folio(id);
            return;
        }
        self.engine.folio_get(id, 1);
        let me = self.me.clone();
        self.sim.call_at(end, move || {
            if let Some(w) = me.upgrade() {
                let mut w = w.borrow_mut();
                w.unlock_folio(id);
                w.engine.folio_put(id, 1);
            }
        });
    }

    pub(super) fn begin_swap_in(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        slot: u32,
        owner: MemcgId,
    ) -> FolioId {
        let flags = Flags::ANON | Flags::SWAPBACKED | Flags::LOCKED | Flags::UPTODATE;
        let id = self.insert_folio(owner, ctx.reach(), object, page, flags);
        let swap = self.swap.as_mut().expect("swapped page");
        let (shadow, version) = (swap.shadow(slot), swap.version(slot));
        self.engine.count(owner, Counter::Pswpin, 1);
        if let Some(shadow) = shadow {
            self.engine.refault(id, shadow, RefaultSite::Fault);
        }
        if let Some(c) = &mut self.objects[object.idx()].contents {
            c.memory[page as usize] = version;
        }
        // Until it is mapped only the cache holds it: the task that asked may be killed meanwhile.
        self.engine.enter_swap_cache(id, slot);
        self.engine.lru_add(ctx.cpu(), id, true);
        id
    }

    /// A page that a fault has swapped in is mapped: is its slot still worth keeping?
    pub(crate) fn swapped_in(&mut self, ctx: &Ctx, id: FolioId, write: bool) {
        let Some(slot) = self.engine.folio(id).swap_slot() else {
            return;
        };
        if self.engine.folio(id).has(Flags::WRITEBACK) {
            return;
        }
        let synchronous = self.swap.as_ref().is_some_and(Swap::synchronous);
        if write && !bypasses_cache(synchronous, self.swap_cache_always) {
            self.drain_for_store(ctx, id);
        }
        let lruvec = self.engine.folio(id).lruvec();
        let owner = self.engine.lruvec(lruvec).memcg;
        let swap = self.swap.as_ref().expect("swapped page");
        // On a synchronous device there is one user and no read-ahead: the slot is given back at once
        // (`docs/rules/workingset.md`).
        let (free, total) = (swap.free(), swap.total());
        if swap.synchronous() || write || self.engine.memcgs.swap_full(owner, free, total) {
            self.engine.leave_swap_cache(id);
            self.release_swap(ctx, slot);
        }
    }
}
