//! Swap: slots, what they hold, and moving pages in and out.

use crate::config::{MachineConfig, MachineError, OpError, SwapConfig};
use crate::ctx::Ctx;
use crate::device::{Device, DeviceError, FaultPlan, Request, ZramTiming};
use crate::machine::Machine;
use crate::mem::{Fill, Slot};
use crate::sim::TimeClass;
use crate::vm::alloc::Refused;
use crate::vm::held::{Charge, FolioRef};
use crate::world::{zram_timing, World};
use coldset_engine::reclaim::Written;
use coldset_engine::swap::frees_slot_at_swap_in;
use coldset_engine::swap::slots::{SwapSlot, SwapSlots};
use coldset_engine::swap::zram::{PageClass, Zram, ZramParams};
use coldset_engine::swap::SwapReadahead;
use coldset_engine::workingset::{refault::RefaultSite, Shadow};
use coldset_engine::{Counter, Flags, FolioId, MemcgId, NewFolio, NodeId, ObjectId};
use std::collections::VecDeque;
use std::ops::Range;

/// Where swapped pages go.
#[derive(Debug)]
enum Store {
    Zram { pool: Box<Zram>, timing: ZramTiming },
    Disk(Box<Device>),
}

/// What a used slot holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Encoded shadow: 0 none, else shadow << 1 | 1.
    shadow: u64,
    /// Version of the contents.
    version: u32,
    /// css id of the memcg charged.
    owner: u16,
    /// Whose contents, object and page.
    of: (ObjectId, u32),
}

impl Default for Held {
    fn default() -> Self {
        Self {
            shadow: 0,
            version: 0,
            owner: 0,
            of: (ObjectId::NONE, 0),
        }
    }
}

/// The swap area.
#[derive(Debug)]
pub struct Swap {
    slots: SwapSlots,
    held: Vec<Held>,
    store: Store,
    /// Pages of each node that compressed contents occupy.
    pool_from: Vec<u64>,
    /// When the writes end that are on their way, in order of submission.
    writes: VecDeque<u64>,
    /// What faults have found of what was read ahead.
    ahead: SwapReadahead,
}

impl Swap {
    pub(crate) fn new(
        cfg: &SwapConfig,
        machine: &MachineConfig,
    ) -> Result<Option<Self>, MachineError> {
        let (pages, store) = match cfg {
            SwapConfig::None => return Ok(None),
            SwapConfig::Zram { pages, algorithm } => {
                let params = ZramParams::new(algorithm)?;
                let timing =
                    zram_timing(algorithm, &machine.params).ok_or_else(|| MachineError::Range {
                        what: "zram algorithm",
                        value: algorithm.clone(),
                        range: "lz4, lzo, lzo-rle, zstd",
                    })?;
                let pool = Box::new(Zram::new(params, *pages)?);
                (*pages, Store::Zram { pool, timing })
            }
            SwapConfig::Disk { pages, device } => {
                let spec = device.spec(&machine.params);
                (
                    *pages,
                    Store::Disk(Box::new(Device::new(spec, machine.seed ^ 0x5_3A9))),
                )
            }
        };
        let range = |_| MachineError::Range {
            what: "swap size",
            value: format!("{pages} pages"),
            range: "at least one page",
        };
        let mut slots = SwapSlots::new(512, None).map_err(range)?;
        slots.add_area(pages, 0).map_err(range)?;
        Ok(Some(Self {
            slots,
            held: vec![Held::default(); pages as usize],
            store,
            pool_from: vec![0; machine.engine.nr_nodes as usize],
            writes: VecDeque::new(),
            ahead: SwapReadahead::default(),
        }))
    }

    /// Free slots.
    pub fn free(&self) -> u64 {
        self.slots.free()
    }

    /// All slots.
    pub fn total(&self) -> u64 {
        self.slots.total()
    }

    /// Pages of memory that compressed contents take.
    pub fn pool_pages(&self) -> u64 {
        match &self.store {
            Store::Zram { pool, .. } => pool.pool_pages(),
            Store::Disk(_) => 0,
        }
    }

    /// Forgets the compressed contents of a slot.
    fn drop_compressed(&mut self, slot: u32) {
        if let Store::Zram { pool, .. } = &mut self.store {
            pool.free(slot);
        }
    }

    /// I/O finishes inside the call.
    fn synchronous(&self) -> bool {
        matches!(self.store, Store::Zram { .. })
    }

    /// The version of the contents in a slot.
    pub(crate) fn version(&self, slot: u32) -> u32 {
        self.held[slot as usize].version
    }

    pub(crate) fn is_used(&self, slot: u32) -> bool {
        self.slots.is_used(SwapSlot {
            area: 0,
            offset: slot,
        })
    }

    pub(crate) fn set_faults(&mut self, plan: FaultPlan) {
        if let Store::Disk(device) = &mut self.store {
            device.set_faults(plan);
        }
    }

    /// The eviction record in a slot.
    pub(crate) fn shadow(&self, slot: u32) -> Option<Shadow> {
        let word = self.held[slot as usize].shadow;
        (word & 1 == 1).then_some(Shadow(word >> 1))
    }

    /// The memcg charged for a slot, by css id.
    pub(crate) fn owner(&self, slot: u32) -> u16 {
        self.held[slot as usize].owner
    }

    pub(crate) fn set_shadow(&mut self, slot: u32, shadow: u64) {
        self.held[slot as usize].shadow = shadow;
    }
}

impl World {
    /// A slot for an anonymous folio, charged to its memcg.
    pub(crate) fn alloc_swap(&mut self, ctx: &Ctx, folio: FolioId) -> Option<u32> {
        let lruvec = self.engine.folio(folio).lruvec();
        let memcg = self.engine.lruvec(lruvec).memcg;
        let order = self.engine.folio(folio).nr_pages();
        let swap = self.swap.as_mut()?;
        if order > 1 {
            // The machine's folios of anonymous memory are single pages.
            return None;
        }
        let Some(got) = swap.slots.allocate(ctx.cpu().into()) else {
            self.engine.memcgs.event(memcg, Counter::EventsSwapFail);
            return None;
        };
        ctx.charge(
            TimeClass::AllocStall,
            got.scanned * self.params.swap_slot_scan_ns,
        );
        let slot = got.slot.offset;
        match self.engine.memcgs.charge_swap(memcg, 1) {
            Ok(owner) => {
                swap.held[slot as usize] = Held {
                    owner: self.engine.memcgs[owner].css_id(),
                    of: self.engine.folio(folio).owner(),
                    ..Held::default()
                };
            }
            Err(_) => {
                swap.slots.release(ctx.cpu().into(), got.slot);
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

    /// Compressed contents live in the same RAM (`machine-model.md` 1): takes pages for what they
    /// need by now, reserves included, or gives back what they do not need any more. False if there
    /// is no page left.
    fn settle_pool(&mut self, node: NodeId) -> bool {
        let Some(swap) = self.swap.as_mut() else {
            return true;
        };
        if self.engine.zones.is_empty() {
            return true;
        }
        let needed = swap.pool_pages();
        let mut has: u64 = swap.pool_from.iter().sum();
        while has < needed {
            let zones = &mut self.engine.zones;
            let near = zones.iter_mut().filter(|z| z.node == node);
            let mut from = near.map(|z| (z.take(0), node)).find(|t| t.0);
            if from.is_none() {
                from = zones.iter_mut().map(|z| (z.take(0), z.node)).find(|t| t.0);
            }
            let Some((_, from)) = from else {
                return false;
            };
            swap.pool_from[from.idx()] += 1;
            has += 1;
        }
        while has > needed {
            let (n, pages) = swap
                .pool_from
                .iter_mut()
                .enumerate()
                .max_by_key(|(_, pages)| **pages)
                .expect("a node");
            *pages -= 1;
            has -= 1;
            let zones = self.engine.node_zones_mut(NodeId(n as u32));
            if let Some(z) = zones.first_mut() {
                z.give(1);
            }
        }
        true
    }

    /// A slot that no folio and no page refers to any more.
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
        self.settle_pool(ctx.node);
        if let Some(owner) = self.engine.memcgs.by_css_id(held.owner) {
            let uncharged = self.engine.memcgs.uncharge_swap(owner, 1);
            debug_assert!(uncharged.is_ok(), "swap charge of {owner:?}");
        }
        self.tell_swap();
    }

    /// The engine took the folio out of the swap cache; unmapped pages of it find the folio in
    /// their slot, so nothing else refers to the swap slot.
    pub(crate) fn free_swap_of(&mut self, ctx: &Ctx, _folio: FolioId, slot: u32) {
        self.release_swap(ctx, slot);
    }

    /// Writes a folio out for reclaim: anonymous memory and tmpfs to its slot.
    pub(crate) fn write_for_reclaim(&mut self, ctx: &Ctx, folio: FolioId) -> Written {
        let f = self.engine.folio(folio);
        let (object, page) = f.owner();
        let memcg = self.engine.lruvec(f.lruvec()).memcg;
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
        let version = self.objects[object.idx()]
            .contents
            .as_ref()
            .map_or(0, |c| c.memory[page as usize]);
        let swap = self.swap.as_mut().expect("folio with a swap slot");
        match &mut swap.store {
            Store::Zram { pool, timing } => {
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
                    return Written::Failed;
                };
                let ns = if class == PageClass::SameFilled {
                    timing.read_mean_ns / 4
                } else {
                    timing.compress_ns
                };
                ctx.charge(TimeClass::AllocStall, ns);
                if !self.settle_pool(ctx.node) {
                    let swap = self.swap.as_mut().expect("folio with a swap slot");
                    swap.drop_compressed(slot);
                    self.settle_pool(ctx.node);
                    return Written::Failed;
                }
            }
            Store::Disk(device) => {
                let done = device.submit(ctx.now(), Request::write(u64::from(slot) * 4096, 4096));
                if done.result.is_err() {
                    return Written::Failed;
                }
                swap.writes.push_back(done.end);
                self.engine.writeback_start(folio);
                self.complete_at(done.end, vec![folio], None);
                self.engine.count_host(memcg, Counter::Pgpgout, 4);
            }
        }
        let swap = self.swap.as_mut().expect("folio with a swap slot");
        swap.held[slot as usize].version = version;
        if let Some(c) = &mut self.objects[object.idx()].contents {
            c.disk[page as usize] = version;
        }
        self.engine.count_host(memcg, Counter::Pswpout, 1);
        Written::Submitted
    }
}

impl Machine {
    /// Brings a swapped page back inside a fault. `None`: it is not in that slot any more, look
    /// again.
    pub(crate) async fn swap_in(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        slot: u32,
    ) -> Result<Option<FolioRef<'_>>, OpError> {
        let owner = {
            let w = self.w.borrow();
            let css = w.swap.as_ref().expect("swapped page").held[slot as usize].owner;
            w.engine.memcgs.swapin_memcg(css, ctx.memcg)
        };
        let charge = self.get_pages(ctx, owner, 1).await?;
        let ahead = self.w.borrow_mut().read_ahead_of(object, page, slot);
        for s in ahead.start..slot.max(ahead.start) {
            self.read_ahead(ctx, s);
        }
        let (held, end) = {
            let mut w = self.w.borrow_mut();
            // While we waited for memory somebody else may have brought it in, or unmapped it, and
            // the slot may be another page's by now.
            if w.objects[object.idx()].slot(page) != Slot::Swap(slot) {
                return Ok(None);
            }
            let end = w.read_swap(ctx, owner, slot).map_err(OpError::Device)?;
            charge.keep();
            let id = w.begin_swap_in(ctx, object, page, slot, owner);
            w.unlock_at(ctx, end, id);
            (FolioRef::of(self, id), end)
        };
        for s in (slot + 1)..ahead.end {
            self.read_ahead(ctx, s);
        }
        ctx.io_until(end).await;
        if self.w.borrow().engine.folio(held.id).has(Flags::LOCKED) {
            self.wait_folio(ctx, held.id).await;
        }
        Ok(Some(held))
    }

    /// Brings in the page of a slot next to one that is being read, if there is one and memory for
    /// it: nobody reclaims, let alone dies, for a page that may never be used.
    fn read_ahead(&self, ctx: &Ctx, slot: u32) {
        let Some((object, page, owner)) = self.w.borrow().readable_ahead(ctx, slot) else {
            return;
        };
        let refused = self.w.borrow_mut().get_pages_now(ctx, owner, 1);
        let charge = match refused {
            None | Some(Refused::High) => Charge::complete(self, owner, ctx.node, 1),
            Some(Refused::Limit(_)) => return,
            // Dropped, it gives back what was charged.
            Some(Refused::Pages) => return drop(Charge::new(self, owner, ctx.node, 1)),
        };
        let mut w = self.w.borrow_mut();
        let Ok(end) = w.read_swap(ctx, owner, slot) else {
            return;
        };
        charge.keep();
        let id = w.begin_swap_in(ctx, object, page, slot, owner);
        w.engine.folio_set(id, Flags::READAHEAD);
        w.engine.count_host(owner, Counter::SwapRa, 1);
        w.unlock_at(ctx, end, id);
    }
}

impl World {
    /// The slots to read for a fault on one (`machine-model.md` 7): on a synchronous device that one
    /// only.
    fn read_ahead_of(&mut self, object: ObjectId, page: u32, slot: u32) -> Range<u32> {
        let cluster = self.params.swap_readahead_max_pages.max(1).ilog2();
        let swap = self.swap.as_mut().expect("swapped page");
        if swap.synchronous() || self.objects[object.idx()].slot(page) != Slot::Swap(slot) {
            return slot..slot + 1;
        }
        let slots = swap.total();
        let window = swap.ahead.window(slot.into(), cluster, slots);
        window.start as u32..window.end as u32
    }

    /// The anonymous page that a slot holds and that is nowhere else, and the memcg to be charged.
    fn readable_ahead(&self, ctx: &Ctx, slot: u32) -> Option<(ObjectId, u32, MemcgId)> {
        let held = self.swap.as_ref()?.held[slot as usize];
        let (object, page) = held.of;
        let o = self.objects.get(object.idx())?;
        if !o.is_anon() || o.slot(page) != Slot::Swap(slot) {
            return None;
        }
        Some((
            object,
            page,
            self.engine.memcgs.swapin_memcg(held.owner, ctx.memcg),
        ))
    }

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
                // Nothing to decompress in a page of one word: a fill, as it is to find out.
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
                self.engine.count_host(owner, Counter::Pgpgin, 4);
                done.result.map(|()| done.end)
            }
        }
    }

    /// When a reclaimer may go on that has filled the queue of the swap device: the requests it can
    /// have are used up, and who wants to write waits for one.
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
    /// slot back, if nobody else uses the folio and it is not being written (`machine-model.md` 7).
    pub(crate) fn swap_cache_hit(&mut self, ctx: &Ctx, id: FolioId, write: bool) {
        if self.engine.folio(id).has(Flags::READAHEAD) {
            self.engine.folio_clear(id, Flags::READAHEAD);
            self.engine.count_host(ctx.memcg, Counter::SwapRaHit, 1);
            self.swap.as_mut().expect("swap cache").ahead.hit();
        }
        let f = self.engine.folio(id);
        let Some(slot) = f.swap_slot() else { return };
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

    fn begin_swap_in(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        slot: u32,
        owner: MemcgId,
    ) -> FolioId {
        let lruvec = self.engine.lruvec_id(owner, ctx.node);
        let id = self.engine.folio_alloc(NewFolio {
            lruvec,
            object,
            index: page,
            order: 0,
            zone: 0,
            flags: Flags::ANON | Flags::SWAPBACKED | Flags::LOCKED | Flags::UPTODATE,
        });
        let swap = self.swap.as_mut().expect("swapped page");
        let held = swap.held[slot as usize];
        self.engine.count_host(owner, Counter::Pswpin, 1);
        if held.shadow & 1 == 1 {
            let shadow = Shadow(held.shadow >> 1);
            self.engine.refault(id, shadow, RefaultSite::Fault);
        }
        self.objects[object.idx()].set_slot(page, Slot::Folio(id));
        if let Some(c) = &mut self.objects[object.idx()].contents {
            c.memory[page as usize] = held.version;
        }
        // Until it is mapped the cache is what holds it: whoever asked may be killed meanwhile.
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
        let lruvec = self.engine.folio(id).lruvec();
        let owner = self.engine.lruvec(lruvec).memcg;
        let swap = self.swap.as_ref().expect("swapped page");
        // On a synchronous device there is one user and no read-ahead: the slot is given back at once
        // (`workingset.md` 3.4).
        let (free, total) = (swap.free(), swap.total());
        if swap.synchronous() || write || self.engine.memcgs.swap_full(owner, free, total) {
            self.engine.leave_swap_cache(id);
            self.release_swap(ctx, slot);
        }
    }
}

#[cfg(test)]
#[path = "swap_tests.rs"]
mod tests;
