//! What an lruvec remembers of evictions and refaults.

use super::shadow::VALUE_MASK;
use crate::ids::LruType;
use crate::switches::RefaultKind;

/// Clock and refaults of one lruvec (`docs/rules/workingset.md`). Pages, but for the clock.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct WorkingSet {
    clock: u64,
    refaults: [u64; 3],
    inherited: u64,
    folded: i64,
    snapshot: [i64; 2],
}

impl WorkingSet {
    /// The workingset clock (`docs/rules/workingset.md#shadow`), which ticks once per page evicted or
    /// activated.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// So many pages were evicted or activated.
    #[inline]
    pub(crate) fn tick(&mut self, pages: u64) {
        self.clock += pages;
    }

    /// Ticks since the clock showed `value`, which a shadow has truncated.
    pub(super) fn distance(&self, value: u64) -> u64 {
        self.clock.wrapping_sub(value) & VALUE_MASK
    }

    /// Refaults of this lruvec alone, never lagging.
    pub fn refaults(&self, kind: RefaultKind) -> u64 {
        self.refaults[kind as usize]
    }

    /// Pages have come back.
    pub(crate) fn count(&mut self, kind: RefaultKind, pages: u64) {
        self.refaults[kind as usize] += pages;
    }

    /// Recent refaults of this lruvec and of those released below it.
    pub(crate) fn activations(&self) -> i64 {
        (self.refaults(RefaultKind::Activate) + self.inherited) as i64
    }

    /// The lruvec of a child goes away: its counts stay here.
    pub(crate) fn inherit(&mut self, child: &Self) {
        self.inherited += child.activations() as u64;
    }

    /// Recent refaults of the subtree as of the last fold.
    pub(crate) fn folded(&self) -> i64 {
        self.folded
    }

    /// A fold begins: the sum is its own.
    pub(crate) fn fold_own(&mut self) {
        self.folded = self.activations();
    }

    /// A fold adds the sum of a child.
    pub(crate) fn fold_child(&mut self, sum: i64) {
        self.folded += sum;
    }

    /// WORKINGSET_ACTIVATE of a type, in all of the memcg, at the end of the last reclaim.
    pub fn snapshot(&self, t: LruType) -> i64 {
        self.snapshot[t.idx()]
    }

    /// A reclaim ends: WORKINGSET_ACTIVATE as it is now, by type.
    pub(crate) fn set_snapshot(&mut self, activations: [i64; 2]) {
        self.snapshot = activations;
    }

    /// Sets the clock, for worked examples.
    #[cfg(test)]
    pub(crate) fn set_clock(&mut self, to: u64) {
        self.clock = to;
    }
}
