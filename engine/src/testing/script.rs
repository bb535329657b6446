//! Scripted answers of one folio, and what the engine has asked for.

use crate::ids::FolioId;
use crate::node::ThrottleReason;
use crate::reclaim::Freed;

/// How a write ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum WriteAs {
    /// I/O is in flight until [`super::Host::finish_writes`].
    #[default]
    InFlight,
    /// Finished inside the call (zram, compressed cache, zeros).
    Finished,
    /// The writer keeps it.
    Activate,
    /// The device refuses.
    Failed,
    /// A large folio does not fit as a whole; single pages are in flight.
    NoRoom,
}

impl WriteAs {
    /// All of them, for draws.
    pub(crate) const ALL: [Self; 5] = [
        Self::InFlight,
        Self::Finished,
        Self::Activate,
        Self::Failed,
        Self::NoRoom,
    ];
}

/// Answers of one folio.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Script {
    /// Mappings with an accessed entry; a look clears them.
    pub(crate) accessed: u32,
    /// A mapping is locked into memory.
    pub(crate) locked: bool,
    /// The reverse map cannot be looked at.
    pub(crate) unknown: bool,
    /// A mapping is executable.
    pub(crate) exec: bool,
    /// The entry is dirty: unmapping dirties the folio and leaves a writable translation.
    pub(crate) pte_dirty: bool,
    /// No other CPU has cached the translation: no flush is deferred.
    pub(crate) uncached: bool,
    /// The unmap fails.
    pub(crate) keeps_mapping: bool,
    /// The host will not split it.
    pub(crate) refuses_split: bool,
    /// Pages that are still mapped, from the first on; none = all of them.
    pub(crate) present: Option<usize>,
    /// How its write ends.
    pub(crate) write: WriteAs,
}

/// Tallies of requests, in the order and number in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Reverse-map visits.
    pub(crate) tests: Vec<FolioId>,
    /// Address-space walks.
    pub(crate) walks: u64,
    /// Unmaps.
    pub(crate) unmaps: u64,
    /// TLB flushes, all.
    pub(crate) flushes: u64,
    /// Of these, before a write.
    pub(crate) flushes_for_write: u64,
    /// Splits asked for.
    pub(crate) splits: Vec<FolioId>,
    /// Writes.
    pub(crate) writes: Vec<FolioId>,
    /// Flusher wake-ups.
    pub(crate) wakes: u64,
    /// Sleeps: reason and ticks.
    pub(crate) throttles: Vec<(ThrottleReason, u32)>,
    /// Sleeps ended by a reclaimer's progress.
    pub(crate) throttle_wakes: u64,
    /// Waits for one folio's writeback.
    pub(crate) waits: u64,
    /// Slots given back.
    pub(crate) slots_freed: Vec<u32>,
    /// [`crate::reclaim::Work::Free`] requests and what they were about.
    pub(crate) freed: Vec<Freed>,
    /// Sizes of those batches, in folios.
    pub(crate) free_batches: Vec<usize>,
    /// Requests to run the OOM killer.
    pub(crate) oom_kills: u64,
    /// Reschedule points.
    pub(crate) yields: u64,
}

impl Seen {
    /// Lists of at most 64 single-page folios that freed something: each ends with a partial batch.
    pub(crate) fn lists(&self) -> usize {
        let full = crate::batch::BATCH_MAX;
        self.free_batches.iter().filter(|&&n| n < full).count()
    }

    /// Pages freed.
    pub(crate) fn freed_pages(&self) -> u64 {
        self.freed.iter().map(|f| 1u64 << f.order).sum()
    }
}
