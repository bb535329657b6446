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
struct CpuBatches {
    batches: [Batch; 6],
    mlock: MlockBatch,
    /// Something has been queued since the last drain of all kinds.
    used: bool,
}

/// Folios waiting for [`MlockOp`]s.
type MlockBatch = ArrayVec<(FolioId, MlockOp), BATCH_MAX>;

/// The batches of all CPUs.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Batches {
    cpus: Vec<CpuBatches>,
}

impl Batches {
    /// Empty batches for that many CPUs.
    pub(crate) fn new(nr_cpus: u32) -> Self {
        Self {
            cpus: vec![CpuBatches::default(); nr_cpus as usize],
        }
    }

    /// Folios that wait on `cpu` for `op`.
    pub(crate) fn waiting(&self, cpu: u16, op: BatchOp) -> &[FolioId] {
        &self.cpus[usize::from(cpu)].batches[op as usize]
    }

    /// Every folio that some batch holds a reference to, once for each reference.
    pub(crate) fn entries(&self) -> impl Iterator<Item = FolioId> + '_ {
        self.cpus.iter().flat_map(|c| {
            let locks = c.mlock.iter().map(|&(id, _)| id);
            c.batches.iter().flatten().copied().chain(locks)
        })
    }

    /// Adds a folio whose reference the caller has taken. Returns how many wait for `op` now.
    #[inline]
    fn push(&mut self, cpu: u16, op: BatchOp, id: FolioId) -> usize {
        let c = &mut self.cpus[usize::from(cpu)];
        c.used = true;
        let batch = &mut c.batches[op as usize];
        batch.push(id);
        batch.len()
    }

    /// As [`Self::push`], for the mlock batch.
    fn push_mlock(&mut self, cpu: u16, id: FolioId, op: MlockOp) -> usize {
        let c = &mut self.cpus[usize::from(cpu)];
        c.used = true;
        c.mlock.push((id, op));
        c.mlock.len()
    }

    /// Empties the batch of `op`.
    #[inline]
    fn take(&mut self, cpu: u16, op: BatchOp) -> Batch {
        std::mem::take(&mut self.cpus[usize::from(cpu)].batches[op as usize])
    }

    /// Empties the mlock batch.
    fn take_mlock(&mut self, cpu: u16) -> MlockBatch {
        std::mem::take(&mut self.cpus[usize::from(cpu)].mlock)
    }

    /// Something may wait on `cpu`.
    #[inline]
    fn used(&self, cpu: u16) -> bool {
        self.cpus[usize::from(cpu)].used
    }

    /// Nothing waits on `cpu` any more.
    fn drained(&mut self, cpu: u16) {
        self.cpus[usize::from(cpu)].used = false;
    }
}
