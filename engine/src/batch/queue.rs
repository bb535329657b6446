//! Queueing folios for a change, a batch full at a time.

use super::BatchOp;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::FolioId;
use crate::lruvec::LruvecLists;

impl Engine {
    /// Folios that wait on `cpu` for `op`.
    pub fn batch(&self, cpu: u16, op: BatchOp) -> &[FolioId] {
        self.batches.waiting(cpu, op)
    }

    /// Queues `id` for `op`, taking a reference. Full batches and large folios drain at once.
    #[inline]
    pub(crate) fn batch_push(&mut self, cpu: u16, op: BatchOp, id: FolioId) {
        let f = &mut self.folios[id];
        f.get(1);
        let large = f.order() > 0;
        let waiting = self.batches.push(cpu, op, id);
        if large || waiting >= self.config().batch_size {
            self.drain_op(cpu, op);
        }
    }

    /// A new folio enters the LRU. `in_fault`: the task is inside a page fault and not a reclaimer.
    #[inline]
    pub fn lru_add(&mut self, cpu: u16, id: FolioId, in_fault: bool) {
        debug_assert!(!self.folios[id].any(Flags::LRU));
        if in_fault {
            self.lru_add_in_fault(id);
        }
        self.batch_push(cpu, BatchOp::Add, id);
    }

    /// Multi-gen: what a fault brings in is in use right now (`docs/rules/generations.md#entry`).
    #[inline]
    fn lru_add_in_fault(&mut self, id: FolioId) {
        let f = &mut self.folios[id];
        let mglru = matches!(self.lruvecs[f.lruvec()].lists, LruvecLists::MultiGen(_));
        if mglru && f.evictable() {
            f.set(Flags::ACTIVE);
        }
    }

    /// Explicit activation, batched. Only for folios on a list.
    pub fn activate(&mut self, cpu: u16, id: FolioId) {
        let f = &self.folios[id];
        if f.has(Flags::LRU) && !f.any(Flags::ACTIVE | Flags::UNEVICTABLE) {
            self.batch_push(cpu, BatchOp::Activate, id);
        }
    }

    /// Rotation to the cold end, batched (writeback of a folio marked for reclaim has ended).
    pub fn rotate(&mut self, cpu: u16, id: FolioId) {
        let f = &self.folios[id];
        if f.has(Flags::LRU) && !f.any(Flags::LOCKED | Flags::DIRTY | Flags::UNEVICTABLE) {
            self.batch_push(cpu, BatchOp::MoveTail, id);
        }
    }

    /// Deactivation of a file folio, batched.
    pub fn deactivate_file(&mut self, cpu: u16, id: FolioId) {
        let f = &self.folios[id];
        if f.has(Flags::LRU) && !f.has(Flags::UNEVICTABLE) {
            self.batch_push(cpu, BatchOp::DeactivateFile, id);
        }
    }

    /// Deactivation, batched.
    pub fn deactivate(&mut self, cpu: u16, id: FolioId) {
        let f = &self.folios[id];
        let mglru = matches!(self.lruvecs[f.lruvec()].lists, LruvecLists::MultiGen(_));
        if f.has(Flags::LRU) && !f.has(Flags::UNEVICTABLE) && (mglru || f.has(Flags::ACTIVE)) {
            self.batch_push(cpu, BatchOp::Deactivate, id);
        }
    }

    /// Advice that anonymous contents are no longer needed, batched.
    pub fn lazyfree(&mut self, cpu: u16, id: FolioId) {
        if self.can_lazyfree(id) && self.folios[id].has(Flags::LRU) {
            self.batch_push(cpu, BatchOp::LazyFree, id);
        }
    }

    pub(super) fn can_lazyfree(&self, id: FolioId) -> bool {
        let f = &self.folios[id];
        f.has(Flags::ANON | Flags::SWAPBACKED) && !f.any(Flags::SWAPCACHE | Flags::UNEVICTABLE)
    }

    /// Is the folio waiting in this CPU's add batch?
    pub(crate) fn in_add_batch(&self, cpu: u16, id: FolioId) -> bool {
        self.batches.waiting(cpu, BatchOp::Add).contains(&id)
    }
}
