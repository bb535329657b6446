//! What a pool takes beside its pages and compressed contents, and what of it takes from the budget.
//!
//! Four things grow with use: records of pages, of those in memory another one in the engine, tables of swap
//! slots, and the kernel's page tables, of
//! which a region needs one for each 2 MiB that have a page in memory. A share that every pool needs is
//! free ([`free`]); what is above it counts to the budget, so that a sparse region has fewer pages in
//! memory instead of more memory than was said. What does not grow with use (buffers, threads, code) is
//! the constant of the manual.

use crate::budget::core::Core;
use crate::pool::inner::PoolInner;
use crate::region::area::RegionInner;
use crate::sys::PAGE;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

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
/// moment. Pages on their way need a place at both ends, and tables of what is in the swap need memory.
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

/// Pages that `bytes` take from a budget of which compressed contents have `store` pages.
fn counted(bytes: u64, budget: u64, store: u64) -> u64 {
    let above = bytes.saturating_sub(free(budget)).div_ceil(PAGE as u64);
    let most = (budget - budget / FOR_PAGES).saturating_sub(store);
    above.next_multiple_of(STEP).min(most)
}

impl PoolInner {
    /// Bytes of records, tables of slots and page tables.
    pub(crate) fn overhead_bytes(&self, core: &Core) -> u64 {
        let tables = self.counts.tables.load(Relaxed) * PAGE as u64;
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

    /// The engine gets to know what is left for pages.
    pub(crate) fn tell_room(&self, core: &mut Core) {
        let other = self.gate.store() + self.gate.extra();
        core.policy
            .set_room(self.gate.budget().saturating_sub(other));
    }
}

impl RegionInner {
    /// A page is in memory: the kernel has a table for its block.
    pub(crate) fn count_in(&self, page: usize) {
        let b = self
            .book
            .records
            .make_block(page / crate::region::area::BLOCK);
        b.in_memory.fetch_add(1, SeqCst);
        if !self.is_explicit() && b.table.load(SeqCst) == 0 && b.table.swap(1, SeqCst) == 0 {
            self.pool.counts.tables.fetch_add(1, Relaxed);
        }
    }

    /// A page is in memory no more. True if it was the last of its block.
    pub(crate) fn count_out(&self, page: usize) -> bool {
        let b = self
            .book
            .records
            .make_block(page / crate::region::area::BLOCK);
        b.in_memory.fetch_sub(1, SeqCst) == 1
    }

    /// Gives the kernel's table of a block back that has no page in memory. It still holds the marks of
    /// write protection of pages that have left; these are taken away first.
    ///
    /// A page may come in meanwhile. It then counts as written since it was stored, and is mapped
    /// again when it is used next: both are said of pages that are not in that state all the time.
    pub(crate) fn release_table(&self, b: usize) {
        use crate::region::area::Memory;
        let Memory::Faulting { uffd, .. } = &self.memory else {
            return;
        };
        let Some(block) = self.known_block(b) else {
            return;
        };
        if block.table.swap(0, SeqCst) == 0 {
            return;
        }
        self.pool.counts.tables.fetch_sub(1, Relaxed);
        let range = self.block(b);
        let unmarked = block.in_memory.load(SeqCst) == 0
            && !self.is_torn()
            && uffd
                .unprotect(&self.map, range.start * PAGE, range.len() * PAGE)
                .is_ok();
        if unmarked {
            self.zap(range.start * PAGE, range.len() * PAGE);
        } else if block.table.swap(1, SeqCst) == 0 {
            self.pool.counts.tables.fetch_add(1, Relaxed);
        }
    }

    /// Tables of a region that goes away.
    pub(crate) fn forget_tables(&self) {
        let known = (0..self.blocks()).filter_map(|b| self.known_block(b));
        let had = known.filter(|b| b.table.swap(0, SeqCst) != 0).count();
        self.pool.counts.tables.fetch_sub(had as u64, Relaxed);
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
