//! Swap: slots, what they hold, and moving pages in and out.

use crate::config::{MachineConfig, MachineError, OpError, SwapConfig};
use crate::ctx::Ctx;
use crate::device::{Device, DeviceError, FaultPlan, Request, ZramTiming};
use crate::machine::Machine;
use crate::mem::Slot;
use crate::sim::TimeClass;
use crate::vm::held::FolioRef;
use crate::world::{zram_timing, World};
use coldset_engine::reclaim::Written;
use coldset_engine::swap::slots::{SwapSlot, SwapSlots};
use coldset_engine::swap::zram::{PageClass, Zram, ZramParams};
use coldset_engine::workingset::{refault::RefaultSite, Shadow};
use coldset_engine::{Counter, Flags, FolioId, MemcgId, NewFolio, ObjectId};

/// Where swapped pages go.
#[derive(Debug)]
enum Store {
    Zram { pool: Box<Zram>, timing: ZramTiming },
    Disk(Box<Device>),
}

/// What a used slot holds.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Encoded shadow: 0 none, else shadow << 1 | 1.
    shadow: u64,
    /// Version of the contents.
    version: u32,
    /// css id of the memcg charged.
    owner: u16,
}

/// The swap area.
#[derive(Debug)]
pub struct Swap {
    slots: SwapSlots,
    held: Vec<Held>,
    store: Store,
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

    /// A slot that no folio and no page refers to any more.
    pub(crate) fn release_swap(&mut self, ctx: &Ctx, slot: u32) {
        let swap = self.swap.as_mut().expect("slot of a swap area");
        let held = std::mem::take(&mut swap.held[slot as usize]);
        if let Store::Zram { pool, .. } = &mut swap.store {
            pool.free(slot);
        }
        swap.slots.release(
            ctx.cpu().into(),
            SwapSlot {
                area: 0,
                offset: slot,
            },
        );
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

    /// Writes a folio out for reclaim: anonymous memory to its slot.
    pub(crate) fn write_for_reclaim(&mut self, ctx: &Ctx, folio: FolioId) -> Written {
        let f = self.engine.folio(folio);
        let (object, page) = f.owner();
        let memcg = self.engine.lruvec(f.lruvec()).memcg;
        let Some(slot) = f.swap_slot() else {
            return self.write_file_folio(ctx, folio);
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
                let Ok(class) = pool.store(slot, key) else {
                    return Written::Failed;
                };
                let ns = if class == PageClass::SameFilled {
                    timing.read_mean_ns / 4
                } else {
                    timing.compress_ns
                };
                ctx.charge(TimeClass::AllocStall, ns);
            }
            Store::Disk(device) => {
                let done = device.submit(ctx.now(), Request::write(u64::from(slot) * 4096, 4096));
                if done.result.is_err() {
                    return Written::Failed;
                }
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
        write: bool,
    ) -> Result<Option<FolioRef<'_>>, OpError> {
        let owner = {
            let w = self.w.borrow();
            let css = w.swap.as_ref().expect("swapped page").held[slot as usize].owner;
            w.engine.memcgs.swapin_memcg(css, ctx.memcg)
        };
        let charge = self.get_pages(ctx, owner, 1).await?;
        let (held, end) = {
            let mut w = self.w.borrow_mut();
            // While we waited for memory somebody else may have brought it in, or unmapped it, and
            // the slot may be another page's by now.
            if w.objects[object.idx()].slot(page) != Slot::Swap(slot) {
                return Ok(None);
            }
            let end = w.read_swap(ctx, owner, slot).map_err(OpError::Device)?;
            charge.keep();
            let id = w.begin_swap_in(ctx, object, page, slot, owner, write);
            w.unlock_at(ctx, end, id);
            (FolioRef::of(self, id), end)
        };
        ctx.io_until(end).await;
        if self.w.borrow().engine.folio(held.id).has(Flags::LOCKED) {
            self.wait_folio(ctx, held.id).await;
        }
        Ok(Some(held))
    }
}

impl World {
    /// Reads a slot. Returns when its contents are there.
    fn read_swap(&mut self, ctx: &Ctx, owner: MemcgId, slot: u32) -> Result<u64, DeviceError> {
        let draw = {
            // Deterministic without a generator of its own: the slot and the time decide.
            (u64::from(slot) << 32 ^ ctx.now()).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let swap = self.swap.as_mut().expect("swapped page");
        match &mut swap.store {
            Store::Zram { timing, .. } => {
                let now = ctx.now();
                ctx.charge(TimeClass::Fault, timing.read_ns(draw));
                Ok(now)
            }
            Store::Disk(device) => {
                let done = device.submit(ctx.now(), Request::read(u64::from(slot) * 4096, 4096));
                self.engine.count_host(owner, Counter::Pgpgin, 4);
                done.result.map(|()| done.end)
            }
        }
    }

    /// Unlocks a folio when its contents have arrived, whatever becomes of the task that asked.
    fn unlock_at(&mut self, ctx: &Ctx, end: u64, id: FolioId) {
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
        write: bool,
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
        let synchronous = swap.synchronous();
        self.engine.count_host(owner, Counter::Pswpin, 1);
        if held.shadow & 1 == 1 {
            let shadow = Shadow(held.shadow >> 1);
            self.engine.refault(id, shadow, RefaultSite::Fault);
        }
        self.objects[object.idx()].set_slot(page, Slot::Folio(id));
        if let Some(c) = &mut self.objects[object.idx()].contents {
            c.memory[page as usize] = held.version;
        }
        if synchronous {
            // One user and no read-ahead: the slot is given back at once (`workingset.md` 3.4).
            self.release_swap(ctx, slot);
        } else {
            self.engine.enter_swap_cache(id, slot);
            let (free, total) = {
                let s = self.swap.as_ref().expect("swapped page");
                (s.free(), s.total())
            };
            if write || self.engine.memcgs.swap_full(owner, free, total) {
                self.engine.leave_swap_cache(id);
                self.release_swap(ctx, slot);
            }
        }
        self.engine.lru_add(ctx.cpu(), id, true);
        id
    }
}
