//! What the engine has done since the host last looked: the host turns it into time.

use crate::ids::LruvecId;

/// Work counts, to be taken by [`Meter::take`] after each step or verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Meter {
    /// lru_lock acquisitions.
    pub locks: u64,
    /// List operations and counter updates under the lock.
    pub list_ops: u64,
    /// Folios looked at by a scan.
    pub scanned: u64,
    /// Folios that reclaim took from their list, looked at and kept.
    pub kept: u64,
    /// Folios given back to the allocator.
    pub freed: u64,
    /// Lruvecs visited by reclaim, each with a call of the shrinkers.
    pub visits: u64,
    /// The lruvec whose lock was taken last; none if none was.
    pub lruvec: LruvecId,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            locks: 0,
            list_ops: 0,
            scanned: 0,
            kept: 0,
            freed: 0,
            visits: 0,
            lruvec: LruvecId::NONE,
        }
    }
}

impl Meter {
    /// One acquisition of the lruvec's lock.
    #[inline]
    pub(crate) fn lock(&mut self, lruvec: LruvecId) {
        self.locks += 1;
        self.lruvec = lruvec;
    }

    /// The counts since the last call.
    #[inline]
    pub fn take(&mut self) -> Meter {
        std::mem::take(self)
    }

    /// True if nothing has been counted.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.locks == 0
            && self.list_ops == 0
            && self.scanned == 0
            && self.kept == 0
            && self.freed == 0
            && self.visits == 0
    }
}
