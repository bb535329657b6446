//! What a pool takes beside its pages and compressed contents, and what of it takes from the budget.
//!
//! Four things grow with use: records of pages, of those in memory another one in the engine, tables of swap
//! slots, and the kernel's page tables, of
//! which a region needs one for each 2 MiB that have a page in memory. A share that every pool needs is
//! free ([`free`]); what is above it counts to the budget, so that a sparse region has fewer pages in
//! memory instead of more memory than was said. What does not grow with use (buffers, threads, code) is
//! the constant of the manual.

use super::core::Core;
use super::moved::{Moved, PAGE_KIB};
use super::resources::Resources;
use crate::config::PoolConfig;
use crate::store::Swap;
use crate::sys::PAGE;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of the engine's record of a page in memory.
const FOLIO: u64 = 48;
/// What a buffer of a miss takes of its bytes: a window of 32 pages, and scratch.
const BOUNCE: u64 = 34 * PAGE as u64;
/// Pages in whose multiples the engine is told.
const STEP: u64 = 16;
/// Of the budget, the part that always is for pages and what they need at least.
const FOR_PAGES: u64 = 4;

/// Bytes that do not count to a budget of so many pages.
fn free(budget: u64) -> u64 {
    // A budget full of neighbouring pages, without any swap, stays below it.
    (1 << 19) + budget * PAGE as u64 / 48
}

/// Bytes of anonymous memory that swap of so many bytes and a budget of so many pages can hold at any
/// moment; both bounds were measured. Pages on their way need a place at both ends, and tables of what is in the swap need memory.
pub(crate) fn holds(swap: u64, budget: u64) -> u64 {
    let budget = budget * PAGE as u64;
    if swap == 0 {
        return budget;
    }
    let under_way = (budget / 4).min(4 << 20);
    let tables = (swap + budget) / 96;
    (swap + budget)
        .saturating_sub(under_way + tables)
        .max(budget)
}

/// Bytes that compressed contents may take of a budget of so many pages: half, or what the pool was made with as far as that
/// leaves pages their quarter.
pub(crate) fn compressed_limit(config: &PoolConfig, budget: u64) -> u64 {
    let budget = budget * PAGE as u64;
    let swap = &config.swap;
    match swap.memory {
        0 if config.store_outside => swap.compressed,
        0 => budget / 2,
        most if config.store_outside => most,
        most => most.min(budget - budget / FOR_PAGES),
    }
}

/// Pages that `bytes` take from a budget of which compressed contents have `store` pages.
fn counted(bytes: u64, budget: u64, store: u64) -> u64 {
    let above = bytes.saturating_sub(free(budget)).div_ceil(PAGE as u64);
    let most = (budget - budget / FOR_PAGES).saturating_sub(store);
    above.next_multiple_of(STEP).min(most)
}

impl Resources {
    /// Bytes of records, tables of slots and page tables.
    pub(crate) fn overhead_bytes(&self, core: &Core) -> u64 {
        let tables = self.counts.table_bytes.load(Relaxed);
        let slot = 4 + self.swap.as_ref().map_or(0, |s| s.bytes_a_slot());
        let folios = core.policy.engine().folio_records() as u64 * FOLIO;
        // Of a small budget a small share: they come many pages at a time.
        let most = self.gate.budget() * PAGE as u64 / 32;
        let bounces = (self.counts.more_bounces.load(Relaxed) * BOUNCE).min(most);
        core.policy.record_bytes() + core.policy.slots_ever() * slot + folios + tables + bounces
    }

    /// Pages that have left memory; what compressed contents and tables take now, pages cannot have.
    pub(crate) fn gone(&self, core: &mut Core, pages: u64) {
        let budget = self.gate.budget();
        let (mut store, mut extra) = (0, 0);
        if !self.config.store_outside {
            let bytes = self.swap.as_ref().map_or(0, |s| s.bytes());
            store = bytes.div_ceil(PAGE as u64);
            extra = counted(self.overhead_bytes(core), budget, store);
        }
        let changed = (store, extra) != (self.gate.store(), self.gate.extra());
        self.gate.exchange(pages, store, extra);
        if changed {
            self.tell_room(core);
        }
    }

    /// Another budget: for pages, for compressed contents, and for the engine.
    pub(crate) fn set_budget(&self, core: &mut Core, pages: u64) {
        self.gate.set_budget(pages);
        if let Some(swap) = &self.swap {
            swap.set_limit(compressed_limit(&self.config, pages));
        }
        self.gone(core, 0);
        self.tell_room(core);
    }

    /// Compressed contents take no more from now on than a budget of so many pages allows, and what is above it goes to the
    /// swap file, while the budget is what it was. False: it cannot go, and pages would not have their quarter.
    pub(crate) fn squeeze(&self, pages: u64) -> bool {
        let Some(swap) = self.swap.as_ref().filter(|_| !self.config.store_outside) else {
            return true;
        };
        let budget = pages * PAGE as u64;
        let fits = || swap.bytes() <= budget - budget / FOR_PAGES;
        if !swap.has_file() && !fits() {
            // Before those who evict find less room.
            return false;
        }
        swap.set_limit(compressed_limit(&self.config, pages));
        self.spill_until(swap, || swap.bytes() <= swap.limit());
        fits()
    }

    /// At least `pages` pages of memory of compressed contents go to the swap file, if there is one and so many can. Returns
    /// how many did.
    pub(crate) fn spill(&self, pages: u64) -> u64 {
        let Some(swap) = self.swap.as_ref().filter(|_| !self.config.store_outside) else {
            return 0;
        };
        let before = swap.bytes();
        let gone = || before.saturating_sub(swap.bytes()) / PAGE as u64;
        self.spill_until(swap, || gone() >= pages);
        gone()
    }

    fn spill_until(&self, swap: &Swap, enough: impl Fn() -> bool) {
        let mut pages = 0;
        while !enough() {
            match swap.spill() {
                0 => break,
                n => pages += n as u64,
            }
        }
        self.spilled(pages);
    }

    /// So many pages have gone from compressed memory to the swap file.
    pub(crate) fn spilled(&self, pages: u64) {
        let moved = Moved {
            kib_out: pages * PAGE_KIB,
            ..Moved::default()
        };
        let mut core = self.core();
        // Whose pages they were the swap does not know.
        core.add_moved([(self.top, moved)]);
        self.gone(&mut core, 0);
    }

    /// Tells the engine what is left for pages.
    fn tell_room(&self, core: &mut Core) {
        let other = self.gate.store() + self.gate.extra();
        core.policy
            .set_room(self.gate.budget().saturating_sub(other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_pool_needs_is_free_and_pages_keep_a_quarter() {
        let mib = |n: u64| n << 20;
        let pages = |n: u64| mib(n) / PAGE as u64;
        assert_eq!(counted(mib(1) / 2, pages(48), 0), 0);
        assert_eq!(counted(mib(3) / 2, pages(48), 0), 0);
        assert_eq!(counted(mib(5) / 2, pages(48), 0), pages(1));
        assert_eq!(counted(mib(2), pages(48), 0), 128);
        assert_eq!(counted(mib(100), pages(16), 0), pages(12));
        assert_eq!(counted(mib(100), pages(16), pages(8)), pages(4));
        assert_eq!(counted(mib(100), pages(16), pages(13)), 0);
    }

    /// A record each in the pager and in the engine, and a page table for 512 of them.
    #[test]
    fn a_pool_without_swap_may_be_full() {
        for pages in [1 << 8, 1 << 14, 1 << 18, 1 << 24] {
            let tables = pages * (21 + FOLIO) + pages / 512 * PAGE as u64;
            assert_eq!(counted(tables, pages, 0), 0, "{pages}");
            assert_eq!(holds(0, pages), pages * PAGE as u64);
        }
    }
}
