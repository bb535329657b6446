//! Per-CPU folio batches (`docs/rules/batches.md`): changes to LRU lists wait until a batch is full or
//! somebody needs exact lists, so that one hold of the lru_lock serves many folios.

mod drain;
mod queue;
#[cfg(test)]
mod tests;

use crate::ids::FolioId;
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

/// What an entry of the mlock batch asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum MlockOp {
    /// Lock a folio that is on a list.
    Lock,
    /// Lock a folio that is on no list yet.
    LockNew,
    /// Give the page lock back.
    Unlock,
}

/// The batches of one CPU.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuBatches {
    batches: [Batch; 6],
    mlock: ArrayVec<(FolioId, MlockOp), BATCH_MAX>,
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
