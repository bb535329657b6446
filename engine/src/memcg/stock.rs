//! Per-CPU stocks of pages charged ahead (`docs/rules/memcg.md#charging`): at most 64 pages each, for one memcg or for
//! several at a time.

use super::counter::CounterKind;
use super::tree::MemcgTree;
use super::CHARGE_BATCH;
use crate::ids::{MemcgId, Pages};

impl MemcgTree {
    /// Takes `n` pages from the CPU's stock for `id` if that has enough.
    #[inline(always)]
    pub(super) fn consume_stock(&mut self, cpu: usize, id: MemcgId, n: Pages) -> bool {
        match self.stocks[cpu].slots.iter_mut().find(|s| s.memcg == id) {
            Some(s) if s.pages >= n => {
                s.pages -= n;
                true
            }
            _ => false,
        }
    }

    /// Puts `n` charged pages into the CPU's stock for `id`. If that needs another memcg's slot, its pages are
    /// flushed first; and all of the memcg's own when there would be more than 64.
    pub(super) fn refill_stock(&mut self, cpu: usize, id: MemcgId, n: Pages) {
        let at = self.stocks[cpu].place(id);
        if self.stocks[cpu].slots[at].memcg != id {
            self.drain_slot(cpu, at);
            self.stocks[cpu].slots[at].memcg = id;
        }
        self.stocks[cpu].slots[at].pages += n;
        if self.stocks[cpu].slots[at].pages > CHARGE_BATCH {
            self.drain_slot(cpu, at);
        }
    }

    /// The stocks of a CPU: for which memcg, how many pages.
    pub fn stock(&self, cpu: usize) -> impl Iterator<Item = (MemcgId, Pages)> + '_ {
        let held = self.stocks[cpu].slots.iter().filter(|s| s.memcg.is_some());
        held.map(|s| (s.memcg, s.pages))
    }

    /// Gives all stocks of the CPU back to the counters.
    pub fn drain_cpu(&mut self, cpu: usize) {
        for at in 0..self.stocks[cpu].slots.len() {
            self.drain_slot(cpu, at);
        }
    }

    fn drain_slot(&mut self, cpu: usize, at: usize) {
        let s = std::mem::take(&mut self.stocks[cpu].slots[at]);
        if s.memcg.is_some() && s.pages > 0 {
            self.uncharge_counter(s.memcg, CounterKind::Memory, s.pages);
        }
    }

    /// Gives back the stocks of all CPUs for `over` and the memcgs below it.
    pub fn drain_stocks(&mut self, over: MemcgId) {
        for cpu in 0..self.stocks.len() {
            for at in 0..self.stocks[cpu].slots.len() {
                let memcg = self.stocks[cpu].slots[at].memcg;
                if memcg.is_some() && self.is_within(memcg, over) {
                    self.drain_slot(cpu, at);
                }
            }
        }
    }
}
