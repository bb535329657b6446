//! What the patches of the reclaim-loop series change (`docs/rules/series.md`).
//!
//! Each function says what happens with its patch and without it. The patches and their switches are
//! listed in [`patches`](crate::switches::patches).

use crate::folio::flags::FlagWord;
use crate::folio::Flags;
use crate::ids::LruType;
use crate::mglru::{EvictableTypes, MultiGen, MIN_LRU_BATCH, MIN_NR_GENS};
use crate::reclaim::scan_control::{BatchSums, ReclaimStat, DEF_PRIORITY, SWAP_CLUSTER_MAX};
use crate::switches::{BudgetFloor, MinSeqFlush, SwapCheck, Switches};

/// The rules of the reclaim loop, resolved from the switches.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(super) sw: Switches,
    /// Must the loop since the series age before it evicts, at this priority?
    pub(crate) must_age: fn(&MultiGen, EvictableTypes, u8) -> bool,
    /// memory.min and memory.low scale the scan budget.
    pub(crate) protection_scales_budget: bool,
    /// File pages taken, and those that were dirty and unqueued, are summed up for the flushers.
    pub(crate) sums_dirty: bool,
}

/// Where isolation goes on after the scan of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterType {
    /// Nowhere.
    Done,
    /// To the same type.
    Again,
    /// To the other type.
    Other,
}

impl Series {
    pub(super) fn new(sw: Switches) -> Self {
        Self {
            must_age,
            protection_scales_budget: sw.proportional_protection,
            sums_dirty: true,
            sw,
        }
    }

    pub(super) fn switches(&self) -> &Switches {
        &self.sw
    }
}

impl From<Series> for Switches {
    fn from(series: Series) -> Self {
        series.sw
    }
}

/// Patch 4: the loop ages when nothing can be evicted, and below the default priority already when
/// three generations are left.
pub(super) fn must_age(m: &MultiGen, types: EvictableTypes, priority: u8) -> bool {
    let left = m.min_seq_of(types) + MIN_NR_GENS;
    left > m.max_seq || (priority < DEF_PRIORITY && left == m.max_seq)
}

/// Patch 4, restructure the reclaim loop.
impl Series {
    /// The loop takes one budget and uses it up. Without: a new one each round.
    #[inline]
    pub(crate) fn takes_one_budget(&self) -> bool {
        self.sw.scan_budget
    }

    /// The budget, given the `n` pages that priority leaves of all `evictable` ones.
    pub(crate) fn least_budget(&self, n: u64, evictable: u64, priority: u8) -> u64 {
        match self.sw.budget_floor {
            BudgetFloor::None => n,
            BudgetFloor::V2 => n.max(SWAP_CLUSTER_MAX),
            BudgetFloor::V5 if n == 0 && priority < DEF_PRIORITY => evictable.min(SWAP_CLUSTER_MAX),
            BudgetFloor::V5 => n,
        }
    }

    /// A memcg without a budget counts as rotated.
    pub(crate) fn rotates_without_budget(&self) -> bool {
        self.sw.rotate_on_empty_budget
    }
}

/// Patch 5, scan and count exact folios.
impl Series {
    /// What a scan of one type reports. Without: nothing, unless it isolated something or used up its
    /// batch.
    pub(crate) fn reported_scan(&self, scanned: u64, isolated: u64, used_up: bool) -> u64 {
        if self.sw.exact_scan_count || isolated > 0 || used_up {
            scanned
        } else {
            0
        }
    }

    /// Where isolation goes on after a type. Without: to the other one, if this one reported nothing.
    pub(crate) fn after_type(&self, reported: u64, isolated: u64) -> AfterType {
        match self.sw.exact_scan_count {
            true if isolated > 0 => AfterType::Done,
            true if reported > 0 && self.falls_back_only_if_empty() => AfterType::Again,
            false if reported > 0 => AfterType::Done,
            _ => AfterType::Other,
        }
    }

    /// What an eviction tells the loop. Without: dropping a generation counts as a page, and with too few
    /// generations left to evict from, nothing does.
    pub(crate) fn progress(&self, reported: u64, dropped: bool, can_evict: bool) -> u64 {
        if self.sw.exact_scan_count {
            reported
        } else if can_evict {
            reported + u64::from(dropped)
        } else {
            0
        }
    }

    /// Empty old generations are dropped before isolation.
    pub(crate) fn drops_generations_first(&self) -> bool {
        self.sw.min_seq_flush != MinSeqFlush::After
    }

    /// Empty old generations are dropped after an isolation that reports so many pages.
    pub(crate) fn drops_generations_after(&self, reported: u64) -> bool {
        match self.sw.min_seq_flush {
            MinSeqFlush::After => true,
            MinSeqFlush::Before => false,
            MinSeqFlush::Both => reported > 0,
        }
    }
}

/// Patches 6 to 8.
impl Series {
    /// Patch 6, smaller batch: folios that one eviction takes at most. Without: `whole`.
    pub(crate) fn batch(&self, budget: u64, whole: u64) -> u64 {
        budget.min(if self.sw.smaller_batch {
            MIN_LRU_BATCH
        } else {
            whole
        })
    }

    /// Without patch 7, root reclaim leaves a memcg it has aged before it evicts anything.
    pub(crate) fn leaves_after_aging(&self) -> bool {
        !self.sw.no_abort_after_aging
    }

    /// Without patch 8, folios that may need swap I/O are not isolated for a request without I/O.
    pub(crate) fn may_isolate(&self, w: FlagWord, t: LruType, io: bool) -> bool {
        if io {
            return true;
        }
        let (anon, dirty) = (t == LruType::Anon, w.has(Flags::DIRTY));
        !match self.sw.isolate_swap_check {
            SwapCheck::Never => false,
            SwapCheck::DirtyAnon => dirty && anon,
            SwapCheck::DirtyOrAnon => dirty || (anon && !w.has(Flags::SWAPCACHE)),
        }
    }
}

/// Patch 9, common reactivation of dirty folios and those under writeback.
impl Series {
    /// Without: dirty files and folios under writeback are moved to the next generation by the scan.
    pub(crate) fn scan_moves_dirty(&self) -> bool {
        !self.sw.common_dirty_reactivation
    }

    /// Without: isolation forgets that a folio waits for its rotation.
    pub(crate) fn isolation_clears_reclaim(&self) -> bool {
        self.sw.isolate_clears_reclaim
    }
}

/// Patch 10, simplify dirty writeback handling; patch 14, unify writeback statistics and throttling.
impl Series {
    /// The flushers are woken for a list that held nothing but dirty folios that nobody has queued.
    pub(crate) fn list_wants_flushers(&self, stat: &ReclaimStat, taken: u64, retry: bool) -> bool {
        self.sw.flush_in_loop
            && !(retry && self.retry_skips_feedback())
            && taken != 0
            && stat.unqueued_dirty == taken
    }

    /// Without patch 10: they are woken at the end of the loop if all files taken were such.
    pub(crate) fn loop_wants_flushers(&self, nr: &BatchSums) -> bool {
        !self.sw.flush_in_loop && nr.unqueued_dirty > 0 && nr.unqueued_dirty == nr.file_taken
    }

    /// Sums for that end, where the scan does not take them: `isolated` pages have come back.
    pub(crate) fn sum_list(
        &self,
        nr: &mut BatchSums,
        stat: &ReclaimStat,
        t: LruType,
        isolated: u64,
    ) {
        let takes = self.sw.common_dirty_reactivation && !self.sw.flush_in_loop;
        if takes && self.sums_dirty {
            if t == LruType::File {
                nr.file_taken += isolated;
            }
            nr.unqueued_dirty += stat.unqueued_dirty;
        }
        if self.sw.unified_writeback_throttle {
            nr.dirty += stat.dirty;
            nr.congested += stat.congested;
            nr.writeback += stat.writeback;
            nr.immediate += stat.immediate;
            nr.taken += isolated;
        }
    }
}

/// Before 6.19.
impl Series {
    /// kswapd writes single dirty files once it has met nothing else.
    #[inline]
    pub(crate) fn kswapd_writes_files(&self) -> bool {
        self.sw.file_writeback_from_reclaim
    }
}

/// What was changed when the series was merged.
impl Series {
    /// The scan leaves unevictable folios to the common path (late 6.12 as well).
    pub(crate) fn unevictable_generic(&self) -> bool {
        self.sw.unevictable_generic
    }

    /// The second type is scanned only if the first had nothing to scan; if all of the first was put aside, it is
    /// scanned once more.
    fn falls_back_only_if_empty(&self) -> bool {
        self.sw.strict_type_fallback
    }

    /// A request for anonymous memory only takes nothing if none can be swapped.
    pub(crate) fn anon_only_is_strict(&self) -> bool {
        self.sw.anon_only_strict
    }

    /// Limit reclaim, too, leaves a memcg once its target is met.
    pub(crate) fn limit_reclaim_stops_at_target(&self) -> bool {
        self.sw.memcg_abort_on_target
    }

    /// Survivors tried again do not wake the flushers.
    fn retry_skips_feedback(&self) -> bool {
        self.sw.retry_skips_writeback
    }

    /// Limit reclaim counts in the global scan and steal counters as well.
    pub(crate) fn counts_limit_reclaim_globally(&self) -> bool {
        self.sw.counters_72
    }
}
