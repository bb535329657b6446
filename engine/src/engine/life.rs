//! The life of a folio, from allocation to its end: references and mappings, dirty and under
//! writeback, in the swap cache.

use super::Engine;
use crate::counters::Counter;
use crate::folio::table::NewFolio;
use crate::folio::Flags;
use crate::ids::{FolioId, LruvecId, MemcgId, NodeId};

/// The gauge that a folio counts in while it exists.
fn gauge(flags: Flags) -> Counter {
    if flags.contains(Flags::ANON) {
        Counter::AnonPages
    } else {
        Counter::FilePages
    }
}

impl Engine {
    /// A new folio that has been charged already ([`crate::memcg::ChargeTask`]): one reference for the caller, on no
    /// list. In the page cache it becomes the slot's (a large folio's slots hold one for each page); for anonymous
    /// memory it is dropped after [`Self::folio_map`]. A reference too many keeps reclaim from freeing the folio.
    #[inline]
    pub fn folio_alloc(&mut self, new: NewFolio) -> FolioId {
        let n = 1i64 << new.order;
        self.memcgs
            .count(self.memcg_of(new.lruvec), gauge(new.flags), n);
        self.folios.alloc(new)
    }

    /// Takes references.
    #[inline]
    pub fn folio_get(&mut self, id: FolioId, n: u32) {
        self.folios[id].get(n);
    }

    /// Drops references; the last one frees the folio and takes its charge back. Returns true if it was freed.
    #[inline]
    pub fn folio_put(&mut self, id: FolioId, n: u32) -> bool {
        let last = self.folios[id].put(n);
        if last {
            self.folio_free(id);
        }
        last
    }

    /// Sets host-visible flags (`LOCKED`, `UPTODATE`, `EXEC`, `PINNED`, ...).
    #[inline]
    pub fn folio_set(&mut self, id: FolioId, flags: Flags) {
        self.folios[id].set(flags);
    }

    /// Clears host-visible flags.
    #[inline]
    pub fn folio_clear(&mut self, id: FolioId, flags: Flags) {
        self.folios[id].clear(flags);
    }

    /// A page-table entry maps the folio: one map count, one reference. Reclaim asks for its accessed bit
    /// ([`crate::reclaim::Work::Test`]).
    #[inline]
    pub fn folio_map(&mut self, id: FolioId) {
        self.folios[id].map();
    }

    /// A page-table entry is gone. May free the folio (returns true then).
    #[inline]
    pub fn folio_unmap(&mut self, id: FolioId) -> bool {
        let last = self.folios[id].unmap();
        if last {
            self.folio_free(id);
        }
        last
    }

    /// Removes the last traces of a folio without references: list, charge, record.
    pub(crate) fn folio_free(&mut self, id: FolioId) {
        if self.folios[id].has(Flags::LRU) {
            self.meter.lock(self.folios[id].lruvec());
            self.lruvec_del(id, false);
            self.folios[id].clear(Flags::LRU | Flags::ACTIVE | Flags::UNEVICTABLE);
        }
        self.folio_release(id);
    }

    /// Uncharges and recycles a folio that is on no list.
    pub(crate) fn folio_release(&mut self, id: FolioId) {
        let f = &self.folios[id];
        debug_assert!(!f.has(Flags::WRITEBACK), "freed under writeback: {f:?}");
        let n = f.nr_pages();
        let lruvec = f.lruvec();
        let (memcg, node) = (self.memcg_of(lruvec), self.lruvecs[lruvec].node);
        let gauge = gauge(f.word().flags());
        let (dirty, poisoned) = (f.has(Flags::DIRTY), f.has(Flags::POISONED));
        let zone = f.zone();
        self.memcgs.count(memcg, gauge, -(n as i64));
        if dirty {
            self.clear_dirty(id);
        }
        if memcg != MemcgId::ROOT {
            self.memcgs.uncharge(memcg, n);
        }
        if !poisoned {
            self.zones.give(node, zone, n);
        }
        self.meter.freed += 1;
        self.folios[id].freeze();
        self.folios.release(id);
    }

    // ---------------------------------------------------------------- dirty and writeback

    /// Marks a folio dirty. True if it was clean. File folios are counted, and remembered in the
    /// list the host takes with [`Self::take_newly_dirty`] (`docs/rules/writeback.md#accounting`).
    pub fn set_dirty(&mut self, id: FolioId) -> bool {
        let f = &mut self.folios[id];
        if f.has(Flags::DIRTY) {
            return false;
        }
        f.set(Flags::DIRTY);
        if f.counts_as_dirty_file() {
            let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
            self.resize_pending(lruvec, Counter::FileDirty, n);
            self.count(self.memcg_of(lruvec), Counter::Dirtied, n);
            self.files_dirtied(&[id]);
        }
        true
    }

    /// File folios have become dirty, or folios of their own.
    pub(crate) fn files_dirtied(&mut self, ids: &[FolioId]) {
        self.newly_dirty.extend_from_slice(ids);
    }

    /// File folios that became dirty since the last call; the vector given is swapped in, empty.
    pub fn take_newly_dirty(&mut self, buffer: &mut Vec<FolioId>) {
        buffer.clear();
        std::mem::swap(buffer, &mut self.newly_dirty);
    }

    /// True if [`Self::take_newly_dirty`] would return something.
    #[inline]
    pub fn has_newly_dirty(&self) -> bool {
        !self.newly_dirty.is_empty()
    }

    /// Clears the dirty mark (for I/O, or because the contents are dropped). True if it was dirty.
    pub fn clear_dirty(&mut self, id: FolioId) -> bool {
        let f = &mut self.folios[id];
        if !f.test_clear(Flags::DIRTY) {
            return false;
        }
        if f.counts_as_dirty_file() {
            let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
            self.resize_pending(lruvec, Counter::FileDirty, -n);
        }
        true
    }

    /// I/O to the backing store begins.
    pub fn writeback_start(&mut self, id: FolioId) {
        let f = &mut self.folios[id];
        assert!(!f.has(Flags::WRITEBACK));
        f.set(Flags::WRITEBACK);
        f.get(1);
        let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
        self.resize_pending(lruvec, Counter::Writeback, n);
    }

    /// I/O to the backing store has ended (`docs/rules/writeback.md#completion`). A folio marked for it rotates to the
    /// cold end. Returns the nodes whose sleepers for writeback must be woken: all of them at once.
    /// The folio may be freed by this.
    pub fn writeback_end(&mut self, cpu: u16, id: FolioId) -> Option<NodeId> {
        let f = &mut self.folios[id];
        assert!(f.has(Flags::WRITEBACK));
        let rotate = f.test_clear(Flags::RECLAIM);
        if rotate && !f.any(Flags::LOCKED | Flags::DIRTY) && f.evictable() && f.has(Flags::LRU) {
            self.rotate(cpu, id);
        }
        let f = &mut self.folios[id];
        f.clear(Flags::WRITEBACK);
        let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
        self.resize_pending(lruvec, Counter::Writeback, -n);
        self.count(self.memcg_of(lruvec), Counter::Written, n);
        let node = self.lruvecs[lruvec].node;
        let (wake, slept) = self.nodes[node.idx()].writeback_ended(n as u64);
        if slept {
            self.vm.add(Counter::ThrottledWritten, n);
        }
        self.folio_put(id, 1);
        wake.then_some(node)
    }

    /// Pages become dirty or go under writeback, or the reverse: the memcg's gauge and the node's.
    fn resize_pending(&mut self, lruvec: LruvecId, gauge: Counter, pages: i64) {
        self.memcgs.count(self.memcg_of(lruvec), gauge, pages);
        let node = self.lruvecs[lruvec].node.idx();
        self.nodes[node].resize_pending(pages);
    }

    // ---------------------------------------------------------------- swap cache

    /// The folio gets a swap slot: the swap cache holds it with one reference a page. For swap-ins that keep their
    /// slot; reclaim does this itself with the answer to [`crate::reclaim::Work::AllocSwap`].
    pub fn enter_swap_cache(&mut self, id: FolioId, slot: u32) {
        let f = &mut self.folios[id];
        f.enter_swap_cache(slot);
        let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
        self.memcgs
            .count(self.memcg_of(lruvec), Counter::SwapCached, n);
    }

    /// The folio leaves the swap cache. The caller frees the slot, or keeps it with the contents.
    pub fn leave_swap_cache(&mut self, id: FolioId) {
        let f = &mut self.folios[id];
        f.leave_swap_cache();
        let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
        self.memcgs
            .count(self.memcg_of(lruvec), Counter::SwapCached, -n);
    }
}
