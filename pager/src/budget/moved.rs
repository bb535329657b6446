//! What a pool counts under the kernel's names: the engine's counters, those of what the pager itself reads, writes and
//! serves, and none of what only a kernel knows.
//!
//! The pager's are no part of the policy: nothing is decided by them, and journals do not have them.

use super::core::Core;
use crate::sys::PAGE;
use coldset_engine::{Counter, MemcgId};

/// Counters that stay 0 in a pool whatever happens: what they count is done by the kernel, which tells nobody, or does not
/// exist here.
const KERNELS: [Counter; 25] = [
    // Most faults are the kernel's alone: entries that come back after a sweep, written marks, lent pages.
    Counter::Pgfault,
    Counter::KswapdLowWmarkHitQuickly,
    Counter::KswapdHighWmarkHitQuickly,
    Counter::PgscanDirectThrottle,
    Counter::DirectReclaimNs,
    // Read-ahead of the kernel's kind; the pager's own is `filled` without `misses`.
    Counter::AsyncWindows,
    Counter::AsyncWindowsDirty,
    Counter::SwapRa,
    Counter::SwapRaHit,
    Counter::ThpSwpout,
    Counter::ThpFaultAlloc,
    Counter::ThpFaultFallback,
    Counter::ThpFaultFallbackCharge,
    Counter::ThpSplitPage,
    Counter::ThpSplitPmd,
    Counter::ThpDeferredSplitPage,
    Counter::TlbRemoteFlush,
    Counter::TlbRemoteFlushReceived,
    Counter::TlbLocalFlushAll,
    Counter::TlbLocalFlushOne,
    Counter::UnmapPending,
    Counter::UnmapFlushMm,
    Counter::CallIpis,
    Counter::TlbLazySkipped,
    Counter::TlbStaleHits,
];

/// Does a pool count this? [`Stats::engine`](crate::Stats::engine), snapshots and metrics have those counters only.
pub fn is_counted(c: Counter) -> bool {
    !KERNELS.contains(&c)
}

/// KiB of a page.
pub(crate) const PAGE_KIB: u64 = PAGE as u64 / 1024;

/// What the pager has moved, and served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moved {
    /// Misses whose page was read from a file or from swap.
    pub(crate) major_faults: u64,
    /// Pages.
    pub(crate) swapped_in: u64,
    pub(crate) swapped_out: u64,
    /// From and to files, the swap file among them.
    pub(crate) kib_in: u64,
    pub(crate) kib_out: u64,
}

impl Moved {
    fn add(&mut self, other: &Self) {
        self.major_faults += other.major_faults;
        self.swapped_in += other.swapped_in;
        self.swapped_out += other.swapped_out;
        self.kib_in += other.kib_in;
        self.kib_out += other.kib_out;
    }
}

impl Core {
    /// Counts what has been moved for groups, in them and in all groups above.
    pub(crate) fn add_moved(&mut self, all: impl IntoIterator<Item = (MemcgId, Moved)>) {
        let mut all = all.into_iter().peekable();
        while let Some((group, mut sum)) = all.next() {
            while let Some((_, more)) = all.next_if(|next| next.0 == group) {
                sum.add(&more);
            }
            let mut at = Some(group);
            while let Some(group) = at {
                self.moved.entry(group).or_default().add(&sum);
                at = self.policy.engine().memcgs[group].parent();
            }
        }
    }

    /// A counter of a group and of what is below it; none if a pool does not count this.
    pub(crate) fn counter(&self, group: MemcgId, c: Counter) -> Option<i64> {
        let moved = self.moved.get(&group).copied().unwrap_or_default();
        let own = match c {
            Counter::Pgmajfault => moved.major_faults,
            Counter::Pswpin => moved.swapped_in,
            Counter::Pswpout => moved.swapped_out,
            Counter::Pgpgin => moved.kib_in,
            Counter::Pgpgout => moved.kib_out,
            c if !is_counted(c) => return None,
            c => return Some(self.policy.engine().memcgs.live(group, c)),
        };
        Some(own as i64)
    }
}
