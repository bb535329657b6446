//! Swap charging (`docs/rules/swap.md#charging`): slots are charged to an online memcg and pin its 16-bit id.

use super::counter::CounterKind;
use super::error::MemcgError;
use super::tree::MemcgTree;
use crate::counters::Counter;
use crate::ids::{MemcgId, Pages};

impl MemcgTree {
    /// Swap pages that the limits of a memcg and its ancestors leave it.
    pub fn swap_margin(&self, id: MemcgId) -> Pages {
        let mut margin = Pages::MAX;
        let mut at = Some(id);
        while let Some(id) = at.filter(|&id| id != MemcgId::ROOT) {
            margin = margin.min(self[id].swap().margin());
            at = self[id].parent();
        }
        margin
    }

    /// Charges `n` new swap slots of a folio of `id`: to `id`, or its nearest online ancestor.
    /// Returns the memcg that the slots must record: it exists, under the same [`MemcgId`], until they
    /// are freed. On refusal the events SWAP_MAX and
    /// SWAP_FAIL are counted on it and the memcg whose limit refused is the error. (Without a free
    /// slot at all the caller counts [`Counter::EventsSwapFail`] with [`Self::event`].)
    pub fn charge_swap(&mut self, id: MemcgId, n: u32) -> Result<MemcgId, MemcgId> {
        let owner = self.nearest_online(id);
        let charged = self.try_charge(owner, CounterKind::Swap, Pages::from(n));
        if let Err(over) = charged {
            self.event(owner, Counter::EventsSwapMax);
            self.event(owner, Counter::EventsSwapFail);
            return Err(over);
        }
        self.nodes[owner.idx()].css_pins += n;
        Ok(owner)
    }

    /// Frees `n` swap slots charged to `owner`.
    pub fn uncharge_swap(&mut self, owner: MemcgId, n: u32) -> Result<(), MemcgError> {
        if !self.exists(owner) {
            return Err(MemcgError::Unknown(owner));
        }
        self.uncharge_counter(owner, CounterKind::Swap, Pages::from(n));
        self.unpin_id(owner, n)
    }

    /// The memcg to charge for swapping in a slot that records `css`: the recorded one if it is
    /// still online, else the faulting task's.
    pub fn swapin_memcg(&self, css: u16, task: MemcgId) -> MemcgId {
        self.by_css_id(css)
            .filter(|&id| self[id].online)
            .unwrap_or(task)
    }

    /// True if the slot of a folio of `id` that is back in use should be freed: swap is more than
    /// half full globally, or against the limits of a memcg on the way up. Slots in pages.
    pub fn swap_full(&self, id: MemcgId, free_slots: Pages, total_slots: Pages) -> bool {
        free_slots * 2 < total_slots
            || self.ancestors(id).any(|k| {
                let c = &self[k].swap;
                k != MemcgId::ROOT && (c.usage * 2 >= c.high || c.usage * 2 >= c.max)
            })
    }
}
