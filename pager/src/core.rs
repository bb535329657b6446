//! What is behind the pool's one lock: the engine and who owns which swap slot.
//!
//! The lock is held for bookkeeping only, never over I/O, a copy or a system call.

use crate::region::RegionInner;
use crate::store::Swap;
use coldset_engine::swap::slots::{SwapSlot, SwapSlots};
use coldset_engine::workingset::{refault::RefaultSite, Shadow};
use coldset_engine::{Counter, Engine, Flags, FolioId, MemcgId, NewFolio, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The engine has one set of folio batches: everything happens under one lock.
pub(crate) const CPU: u16 = 0;

/// The locked part of a pool.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Engine,
    /// The memcg whose limit is the budget; parent of all groups.
    pub(crate) top: MemcgId,
    pub(crate) regions: BTreeMap<ObjectId, Arc<RegionInner>>,
    pub(crate) next_object: u32,
    /// Anonymous bytes promised to regions.
    pub(crate) promised: u64,
    slots: Option<SwapSlots>,
    /// Memcg that each used slot is charged to.
    owner: Vec<MemcgId>,
    spare: Vec<FolioId>,
}

/// How a page comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The fault was for this very page.
    pub(crate) wanted: bool,
    /// It will be stored to at once.
    pub(crate) write: bool,
    /// It comes back because it could not be stored: no refault.
    pub(crate) returned: bool,
}

impl Core {
    pub(crate) fn new(engine: Engine, top: MemcgId, slots: u32) -> Self {
        let mut core = Self {
            engine,
            top,
            regions: BTreeMap::new(),
            next_object: 1,
            promised: 0,
            slots: None,
            owner: Vec::new(),
            spare: Vec::new(),
        };
        if slots > 0 {
            let mut s = SwapSlots::new(512, None).expect("a power of two");
            s.add_area(slots, 0).expect("not empty");
            core.slots = Some(s);
        }
        core.tell_swap();
        core
    }

    fn tell_swap(&mut self) {
        if let Some(s) = &self.slots {
            let (free, total) = (s.free(), s.total());
            self.engine.set_swap(free, total);
        }
    }

    /// Slots: used and all.
    pub(crate) fn slots(&self) -> (u64, u64) {
        let s = self.slots.as_ref();
        s.map_or((0, 0), |s| (s.total() - s.free(), s.total()))
    }

    /// A slot for a folio, charged to its memcg.
    pub(crate) fn alloc_slot(&mut self, folio: FolioId) -> Option<u32> {
        let memcg = self.engine.lruvec(self.engine.folio(folio).lruvec()).memcg;
        let slots = self.slots.as_mut()?;
        let Some(got) = slots.allocate(CPU.into()) else {
            self.engine.memcgs.event(memcg, Counter::EventsSwapFail);
            return None;
        };
        let slot = got.slot.offset;
        match self.engine.memcgs.charge_swap(memcg, 1) {
            Ok(owner) => {
                if self.owner.len() <= slot as usize {
                    self.owner.resize(slot as usize + 1, MemcgId::ROOT);
                }
                self.owner[slot as usize] = owner;
            }
            Err(_) => {
                slots.release(CPU.into(), got.slot);
                return None;
            }
        }
        self.tell_swap();
        Some(slot)
    }

    /// Gives a slot back. Its contents go too.
    pub(crate) fn free_slot(&mut self, swap: &Swap, slot: u32) {
        swap.remove(slot);
        let slots = self.slots.as_mut().expect("slot of a swap");
        slots.release(
            CPU.into(),
            SwapSlot {
                area: 0,
                offset: slot,
            },
        );
        let owner = self.owner[slot as usize];
        let uncharged = self.engine.memcgs.uncharge_swap(owner, 1);
        debug_assert!(uncharged.is_ok(), "swap charge of {owner:?}");
        self.tell_swap();
    }

    /// A charged page of a region is in memory: the engine gets to know it. It keeps its swap slot, as
    /// a clean copy, while there is plenty of swap.
    pub(crate) fn insert(
        &mut self,
        region: &RegionInner,
        swap: Option<&Swap>,
        page: usize,
        how: Arrival,
    ) {
        let anon = region.is_anon();
        let flags = if anon {
            Flags::ANON | Flags::SWAPBACKED | Flags::UPTODATE
        } else {
            Flags::OWNED | Flags::UPTODATE
        };
        let eng = &mut self.engine;
        let id = eng.folio_alloc(NewFolio {
            lruvec: region.lruvec,
            object: region.object,
            index: page as u32,
            order: 0,
            zone: 0,
            flags,
        });
        if !anon {
            eng.folio_get(id, 1);
        }
        eng.folio_map(id);
        region.set_folio(page, Some(id));
        region.count_in(page);
        let shadow = region.take_shadow(page);
        if let Some(s) = shadow.filter(|_| !how.returned) {
            eng.refault(id, Shadow(s), RefaultSite::Fault);
        }
        if let (Some(slot), Some(swap)) = (region.slot(page), swap) {
            region.set_slot(page, None);
            let memcg = region.memcg;
            let (used, total) = self.slots();
            let full = self.engine.memcgs.swap_full(memcg, total - used, total);
            // A copy that is about to grow old is only in the way.
            let kept = !how.write && !how.returned && !full && swap.bytes() * 2 <= swap.limit();
            if kept {
                self.engine.enter_swap_cache(id, slot);
            } else {
                self.free_slot(swap, slot);
            }
        }
        if how.write && !anon {
            self.engine.set_dirty(id);
        }
        self.engine.lru_add(CPU, id, how.wanted);
        self.engine.folio_put(id, 1);
    }

    /// The page's owner (its region is going away, or the fill failed) takes it from the engine.
    pub(crate) fn forget(&mut self, region: &RegionInner, swap: Option<&Swap>, page: usize) {
        if let Some(id) = region.folio(page) {
            region.set_folio(page, None);
            region.count_out(page);
            let eng = &mut self.engine;
            eng.folio_get(id, 1);
            while eng.folio(id).mapped() {
                eng.folio_unmap(id);
            }
            if let Some(slot) = eng.folio(id).swap_slot() {
                eng.leave_swap_cache(id);
                self.free_slot(swap.expect("slot of a swap"), slot);
            }
            let eng = &mut self.engine;
            if eng.folio(id).has(Flags::OWNED) {
                eng.folio_clear(id, Flags::OWNED);
                eng.folio_put(id, 1);
            }
            eng.clear_dirty(id);
            eng.folio_put(id, 1);
        }
        if let Some(slot) = region.slot(page) {
            region.set_slot(page, None);
            self.free_slot(swap.expect("slot of a swap"), slot);
        }
        region.set_shadow(page, None);
    }

    /// The engine remembers newly dirty folios for a flusher that queues them; ours finds them by
    /// block.
    pub(crate) fn forget_newly_dirty(&mut self) {
        if self.engine.has_newly_dirty() {
            self.engine.take_newly_dirty(&mut self.spare);
        }
    }
}
