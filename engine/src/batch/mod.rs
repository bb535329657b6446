//! Per-CPU folio batches (`lru-batches.md`): changes to LRU lists wait until a batch is full or
//! somebody needs exact lists, so that one hold of the lru_lock serves many folios.

pub mod drain;
#[cfg(test)]
mod tests;

use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::FolioId;
use crate::lruvec::Policy;
use arrayvec::ArrayVec;

/// Entries a batch can hold.
pub const BATCH_MAX: usize = 31;

/// Folios waiting for one kind of change, in insertion order. Each entry owns a reference.
pub type Batch = ArrayVec<FolioId, BATCH_MAX>;

/// The kinds of change, in the order in which a drain applies them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BatchOp {
    /// New folios onto their list.
    Add = 0,
    /// To the cold end, after writeback.
    MoveTail = 1,
    /// File folios to the inactive list (invalidation).
    DeactivateFile = 2,
    /// To the inactive list.
    Deactivate = 3,
    /// Anonymous folios to the file list, freeable without swap.
    LazyFree = 4,
    /// To the active list.
    Activate = 5,
}

impl BatchOp {
    /// All kinds in drain order.
    pub const ALL: [BatchOp; 6] = [
        BatchOp::Add,
        BatchOp::MoveTail,
        BatchOp::DeactivateFile,
        BatchOp::Deactivate,
        BatchOp::LazyFree,
        BatchOp::Activate,
    ];
}

/// The batches of one CPU.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuBatches {
    batches: [Batch; 6],
    mlock: ArrayVec<(FolioId, drain::MlockOp), BATCH_MAX>,
    used: bool,
}

impl CpuBatches {
    /// Folios waiting for `op`.
    pub fn waiting(&self, op: BatchOp) -> &[FolioId] {
        &self.batches[op as usize]
    }

    /// Every folio that some batch holds a reference to, once for each reference.
    pub fn entries(&self) -> impl Iterator<Item = FolioId> + '_ {
        let locks = self.mlock.iter().map(|&(id, _)| id);
        self.batches.iter().flatten().copied().chain(locks)
    }
}

impl Engine {
    /// Queues `id` for `op`, taking a reference. Full batches and large folios drain at once.
    #[inline]
    pub(crate) fn batch_push(&mut self, cpu: u16, op: BatchOp, id: FolioId) {
        let f = &mut self.folios[id];
        f.refcount += 1;
        let large = f.order > 0;
        let c = &mut self.cpus[cpu as usize];
        c.used = true;
        let batch = &mut c.batches[op as usize];
        batch.push(id);
        if large || batch.len() >= self.cfg.batch_size {
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

    /// Multi-gen: what a fault brings in is in use right now (`mglru.md` 2).
    #[inline]
    fn lru_add_in_fault(&mut self, id: FolioId) {
        let f = &mut self.folios[id];
        let mglru = matches!(self.lruvecs[f.lruvec].policy, Policy::MultiGen(_));
        if mglru && f.evictable() {
            f.word.set(Flags::ACTIVE);
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
        let mglru = matches!(self.lruvecs[f.lruvec].policy, Policy::MultiGen(_));
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

    fn can_lazyfree(&self, id: FolioId) -> bool {
        let f = &self.folios[id];
        f.has(Flags::ANON | Flags::SWAPBACKED) && !f.any(Flags::SWAPCACHE | Flags::UNEVICTABLE)
    }

    /// Is the folio waiting in this CPU's add batch?
    pub(crate) fn in_add_batch(&self, cpu: u16, id: FolioId) -> bool {
        self.cpus[cpu as usize]
            .waiting(BatchOp::Add)
            .iter()
            .rev()
            .any(|&f| f == id)
    }
}
