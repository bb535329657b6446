//! Swap slots: which are used, and by whom.

use super::{Policy, CPU};
use crate::record::ops::Op;
use crate::store::Swap;
use coldset_engine::swap::slots::SwapSlot;
use coldset_engine::{Counter, FolioId, MemcgId};

impl Policy {
    pub(super) fn tell_swap(&mut self) {
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

    /// Slots that have been used, ever.
    pub(crate) fn slots_ever(&self) -> u64 {
        self.owner.len() as u64
    }

    /// More than half of the swap is used, of all of it or of what a group may have.
    pub(crate) fn swap_full(&self, memcg: MemcgId) -> bool {
        let (used, total) = self.slots();
        let tree = &self.engine.memcgs;
        tree.swap_full(memcg, total - used, total)
    }

    /// The slot is taken, and a group is charged for it.
    pub(crate) fn is_slot_used(&self, offset: u32) -> bool {
        let slot = SwapSlot { area: 0, offset };
        let slots = self.slots.as_ref();
        slots.is_some_and(|s| s.is_used(slot)) && (offset as usize) < self.owner.len()
    }

    /// A slot for a folio, charged to its memcg.
    pub(crate) fn alloc_slot(&mut self, folio: FolioId) -> Option<u32> {
        self.note(Op::AllocSlot(folio));
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
    pub(crate) fn free_slot(&mut self, swap: Option<&Swap>, slot: u32) {
        self.note(Op::FreeSlot(slot));
        self.give_slot(swap, slot);
    }

    pub(super) fn give_slot(&mut self, swap: Option<&Swap>, slot: u32) {
        if let Some(swap) = swap {
            swap.remove(slot);
        }
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
}
