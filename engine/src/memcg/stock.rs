//! Per-CPU stocks of pages charged ahead (`docs/rules/memcg.md#charging`): one memcg a CPU, at most 64 pages.

use super::counter::CounterKind;
use super::tree::MemcgTree;
use super::CHARGE_BATCH;
use crate::ids::{MemcgId, Pages};

impl MemcgTree {
    /// Takes `n` pages from the CPU's stock if it belongs to `id` and has enough.
    #[inline(always)]
    pub(super) fn consume_stock(&mut self, cpu: usize, id: MemcgId, n: Pages) -> bool {
        let s = &mut self.stocks[cpu];
        if s.memcg == id && s.pages >= n {
            s.pages -= n;
            return true;
        }
        false
    }

    /// Puts `n` charged pages into the CPU's stock; flushes another memcg's pages first, and all of
    /// them when there would be more than 64.
    pub(super) fn refill_stock(&mut self, cpu: usize, id: MemcgId, n: Pages) {
        if self.stocks[cpu].memcg != id {
            self.drain_cpu(cpu);
            self.stocks[cpu].memcg = id;
        }
        self.stocks[cpu].pages += n;
        if self.stocks[cpu].pages > CHARGE_BATCH {
            self.drain_cpu(cpu);
        }
    }

    /// Pages that the CPU's stock holds, and for which memcg.
    pub fn stock(&self, cpu: usize) -> Option<(MemcgId, Pages)> {
        let s = &self.stocks[cpu];
        s.memcg.is_some().then_some((s.memcg, s.pages))
    }

    /// Gives the CPU's stock back to the counters.
    pub fn drain_cpu(&mut self, cpu: usize) {
        let s = std::mem::take(&mut self.stocks[cpu]);
        if s.memcg.is_some() && s.pages > 0 {
            self.uncharge_counter(s.memcg, CounterKind::Memory, s.pages);
        }
    }

    /// Gives back the stocks of all CPUs that hold pages of `over` or of a memcg below it.
    pub fn drain_stocks(&mut self, over: MemcgId) {
        for cpu in 0..self.stocks.len() {
            let memcg = self.stocks[cpu].memcg;
            if memcg.is_some() && self.is_within(memcg, over) {
                self.drain_cpu(cpu);
            }
        }
    }
}
