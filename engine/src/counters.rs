//! Statistics with the kernel's names (`docs/reference/counters.md`).
//!
//! A counter is an index into a plain array: bumping one costs one addition. Scopes (global event,
//! node, lruvec, memcg) are a matter of which arrays a call site adds to; `Engine::count_*` has one
//! verb for each scope.

use serde::Serialize;

/// Declares the counter enum, its names and its number.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// Every counter the engine keeps. Units are base pages unless the text says otherwise.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
        #[repr(u8)]
        pub enum Counter { $($(#[doc = $doc])+ $name,)* }

        impl Counter {
            /// All counters in declaration order.
            pub const ALL: &'static [Counter] = &[$(Counter::$name,)*];

            /// The name under which the counter is printed.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => $text,)* }
            }

            /// What it counts, in one sentence.
            pub const fn doc(self) -> &'static str {
                match self { $(Counter::$name => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

counters! {
    // --- gauges (levels, not events) ---
    /// Pages on the inactive anonymous list (multi-gen: older generations).
    InactiveAnon = "inactive_anon",
    /// Pages on the active anonymous list (multi-gen: the two youngest generations).
    ActiveAnon = "active_anon",
    /// Pages on the inactive file list.
    InactiveFile = "inactive_file",
    /// Pages on the active file list.
    ActiveFile = "active_file",
    /// Pages on the unevictable list.
    Unevictable = "unevictable",
    /// Anonymous pages in memory.
    AnonPages = "anon_pages",
    /// Page-cache pages in memory, shmem included.
    FilePages = "file_pages",
    /// Kernel memory charged to the memcg (index nodes, page tables).
    KernelPages = "kernel_pages",
    /// Those of them that are not slab: page tables, and what a memcg has from the start.
    KernelOther = "kernel_other_pages",
    /// Dirty page-cache pages.
    FileDirty = "file_dirty",
    /// Pages under writeback (swap cache included).
    Writeback = "file_writeback",
    /// Pages in the swap cache.
    SwapCached = "swapcached",
    /// Isolated anonymous pages (classic only).
    IsolatedAnon = "nr_isolated_anon",
    /// Isolated file pages (classic only).
    IsolatedFile = "nr_isolated_file",
    // --- scanning ---
    /// Pages scanned by kswapd.
    PgscanKswapd = "pgscan_kswapd",
    /// Pages scanned by direct and limit reclaim.
    PgscanDirect = "pgscan_direct",
    /// Pages scanned by proactive reclaim.
    PgscanProactive = "pgscan_proactive",
    /// Anonymous pages scanned.
    PgscanAnon = "pgscan_anon",
    /// File pages scanned.
    PgscanFile = "pgscan_file",
    /// Pages freed by kswapd.
    PgstealKswapd = "pgsteal_kswapd",
    /// Pages freed by direct and limit reclaim.
    PgstealDirect = "pgsteal_direct",
    /// Pages freed by proactive reclaim.
    PgstealProactive = "pgsteal_proactive",
    /// Anonymous pages freed.
    PgstealAnon = "pgsteal_anon",
    /// File pages freed.
    PgstealFile = "pgsteal_file",
    /// Classic: active pages looked at. Multi-gen: pages sorted.
    Pgrefill = "pgrefill",
    /// Pages of zones that the request could not use.
    Pgskip = "pgskip",
    /// Pages moved to the active list or a young generation, explicitly.
    Pgactivate = "pgactivate",
    /// Pages moved from active to inactive.
    Pgdeactivate = "pgdeactivate",
    /// Pages moved to the cold end when their writeback ended.
    Pgrotated = "pgrotated",
    /// Pages made lazily freeable.
    Pglazyfree = "pglazyfree",
    /// Lazily freeable pages freed.
    Pglazyfreed = "pglazyfreed",
    /// Pages given to a swap or shmem writer by reclaim.
    VmscanWrite = "nr_vmscan_write",
    /// Dirty file pages met by reclaim and marked for immediate reclaim.
    VmscanImmediate = "nr_vmscan_immediate_reclaim",
    /// Pages moved to the unevictable list.
    UnevictableCulled = "unevictable_pgs_culled",
    /// Pages moved back from the unevictable list.
    UnevictableRescued = "unevictable_pgs_rescued",
    // --- entry and waiting ---
    /// Passes of global direct reclaim.
    Allocstall = "allocstall",
    /// Runs of kswapd.
    Pageoutrun = "pageoutrun",
    /// kswapd's short sleep was interrupted.
    KswapdLowWmarkHitQuickly = "kswapd_low_wmark_hit_quickly",
    /// kswapd was not ready to sleep fully.
    KswapdHighWmarkHitQuickly = "kswapd_high_wmark_hit_quickly",
    /// Direct reclaimers stopped at the reserve gate.
    PgscanDirectThrottle = "pgscan_direct_throttle",
    /// Pages whose writeback ended while someone slept for writeback.
    ThrottledWritten = "nr_throttled_written",
    /// Pages that became dirty.
    Dirtied = "nr_dirtied",
    /// Pages whose writeback ended.
    Written = "nr_written",
    /// Processes killed for lack of memory.
    OomKill = "oom_kill",
    /// memory.events low.
    EventsLow = "events_low",
    /// memory.events high.
    EventsHigh = "events_high",
    /// memory.events max.
    EventsMax = "events_max",
    /// memory.events oom.
    EventsOom = "events_oom",
    /// memory.events oom_kill.
    EventsOomKill = "events_oom_kill",
    /// memory.events oom_group_kill.
    EventsOomGroupKill = "events_oom_group_kill",
    /// memory.swap.events high.
    EventsSwapHigh = "events_swap_high",
    /// memory.swap.events max.
    EventsSwapMax = "events_swap_max",
    /// memory.swap.events fail.
    EventsSwapFail = "events_swap_fail",
    /// Page faults, with or without I/O.
    Pgfault = "pgfault",
    /// Faults that needed I/O.
    Pgmajfault = "pgmajfault",
    // --- workingset ---
    /// Anonymous pages that came back while their shadow was kept.
    RefaultAnon = "workingset_refault_anon",
    /// File pages that came back while their shadow was kept.
    RefaultFile = "workingset_refault_file",
    /// Recent anonymous refaults.
    ActivateAnon = "workingset_activate_anon",
    /// Recent file refaults.
    ActivateFile = "workingset_activate_file",
    /// Recent anonymous refaults of former workingset folios.
    RestoreAnon = "workingset_restore_anon",
    /// Recent file refaults of former workingset folios.
    RestoreFile = "workingset_restore_file",
    /// Index nodes with shadows only that the shrinker has dropped.
    WorkingsetNodereclaim = "workingset_nodereclaim",
    // --- I/O and swap ---
    /// KiB read from block devices.
    Pgpgin = "pgpgin",
    /// KiB written to block devices.
    Pgpgout = "pgpgout",
    /// Windows of read-ahead started by a mark before their pages were asked for.
    AsyncWindows = "async_windows",
    /// Of these, windows started by a dirty page: its mark was meant for the end of its writeback.
    AsyncWindowsDirty = "async_windows_dirty",
    /// Pages read from swap.
    Pswpin = "pswpin",
    /// Pages written to swap.
    Pswpout = "pswpout",
    /// Huge folios that had to be split for swap (folios).
    ThpSwpoutFallback = "thp_swpout_fallback",
    /// Huge folios written to swap whole (folios).
    ThpSwpout = "thp_swpout",
    /// Faults that got a huge folio.
    ThpFaultAlloc = "thp_fault_alloc",
    /// Faults that could have got a huge folio and got a page.
    ThpFaultFallback = "thp_fault_fallback",
    /// Of these, because the memcg had no room for a huge folio.
    ThpFaultFallbackCharge = "thp_fault_fallback_charge",
    /// Huge folios that became single pages (folios).
    ThpSplitPage = "thp_split_page",
    /// Huge entries of page tables that became tables of single ones.
    ThpSplitPmd = "thp_split_pmd",
    /// Huge folios of which a part was no longer mapped (folios).
    ThpDeferredSplitPage = "thp_deferred_split_page",
    /// Swap read-ahead pages read.
    SwapRa = "swap_ra",
    /// Swap read-ahead pages later hit.
    SwapRaHit = "swap_ra_hit",
    // --- TLB ---
    /// Flushes that must reach other CPUs.
    TlbRemoteFlush = "nr_tlb_remote_flush",
    /// Remote requests executed by CPUs.
    TlbRemoteFlushReceived = "nr_tlb_remote_flush_received",
    /// Whole local TLBs flushed.
    TlbLocalFlushAll = "nr_tlb_local_flush_all",
    /// Single addresses invalidated locally.
    TlbLocalFlushOne = "nr_tlb_local_flush_one",
    /// Translations whose flush was deferred.
    UnmapPending = "unmap_pending",
    /// Flushes before freeing or at the end of a list.
    UnmapFlushFull = "unmap_flush_full",
    /// Flushes before writing dirty folios.
    UnmapFlushDirty = "unmap_flush_dirty",
    /// Of the full ones: because a batch of folios is about to be freed.
    UnmapFlushFree = "unmap_flush_free",
    /// Of the full ones: at the end of a list, or before a reclaimer sleeps.
    UnmapFlushEnd = "unmap_flush_end",
    /// Flushes by another operation on an address space with deferred flushes.
    UnmapFlushMm = "unmap_flush_mm",
    /// Interrupts taken for function calls; several requests can share one.
    CallIpis = "call_ipis",
    /// CPUs that were due for a flush and skipped, because they run nothing of the address space.
    TlbLazySkipped = "tlb_lazy_skipped",
    /// Loads and stores that went through a translation whose flush is deferred.
    TlbStaleHits = "tlb_stale_hits",
    /// Batches of dirty folios looked at again before they are written.
    DirtyBatches = "dirty_batches",
    /// Folios that waited in such a batch.
    DirtyBatched = "dirty_batched",
    /// Folios turned away there: somebody else had locked them.
    DirtyBatchLocked = "dirty_batch_locked",
    /// Turned away: under writeback.
    DirtyBatchWriteback = "dirty_batch_writeback",
    /// Turned away: back on a list.
    DirtyBatchLru = "dirty_batch_lru",
    /// Turned away: mapped again.
    DirtyBatchMapped = "dirty_batch_mapped",
    /// Turned away: maybe pinned for DMA.
    DirtyBatchPinned = "dirty_batch_pinned",
    /// Turned away and dirtied again: somebody else had written them meanwhile.
    DirtyBatchClean = "dirty_batch_clean",
    // --- the lab's own mechanism counters (docs/reference/counters.md) ---
    /// Reclaim lists that consisted of unqueued dirty folios only: flusher wake-ups by reclaim.
    FlusherWakeups = "flusher_wakeups",
    /// Sleeps of reclaimers, all reasons (`docs/rules/writeback.md#what-reclaim-tells`).
    ThrottleWaits = "throttle_waits",
    /// Sleeps with reason WRITEBACK.
    ThrottleWriteback = "throttle_writeback",
    /// Sleeps with reason CONGESTED.
    ThrottleCongested = "throttle_congested",
    /// Sleeps with reason ISOLATED.
    ThrottleIsolated = "throttle_isolated",
    /// Sleeps with reason NOPROGRESS.
    ThrottleNoprogress = "throttle_noprogress",
    /// File pages met by reclaim that were dirty and not under writeback.
    UnqueuedDirty = "unqueued_dirty",
    /// File pages met by reclaim that were under writeback.
    WritebackSeen = "writeback_seen",
    /// Dirty or writeback pages moved up a generation without isolation (multi-gen before the series).
    DirtyMovedUp = "dirty_moved_up",
    /// Dirty or writeback pages activated by the common path.
    DirtyReactivated = "dirty_reactivated",
    /// Youngest generations created.
    AgingRuns = "aging_runs",
    /// Reclaim loops left because aging ran.
    AbortAfterAging = "abort_after_aging",
    /// Reclaim calls that freed nothing.
    ZeroProgress = "zero_progress",
    /// Reclaim calls at a memcg limit.
    LimitReclaim = "limit_reclaim",
    /// Entries of allocating tasks into global direct reclaim.
    DirectReclaim = "direct_reclaim",
    /// Memcgs that root reclaim has reclaimed from (visits; the root itself is not counted).
    MemcgVisits = "memcg_visits",
    /// Visits of warm memcgs (heat levels).
    HeatVisitsWarm = "heat_visits_warm",
    /// Visits of hot memcgs.
    HeatVisitsHot = "heat_visits_hot",
    /// Memcgs that a walk passed over because they were too hot for it.
    HeatSkips = "heat_skips",
    /// Nanoseconds that allocating tasks have spent in it, waits included.
    DirectReclaimNs = "direct_reclaim_ns",
    /// lru_lock acquisitions.
    LruLockAcq = "lru_lock_acq",
    /// Folios drained from the per-CPU add batches.
    LruAddDrained = "lru_add_drained",
    /// Folios found with the batch's reference only when their add batch was drained.
    DeadAtAdd = "dead_at_add",
    /// Of these, folios that the dead-folio filter freed before they reached a list.
    DeadFiltered = "dead_filtered",
    /// List operations under lru_lock for drained add batches: insertions, and removals of folios
    /// that only the batch held.
    LruAddListOps = "lru_add_list_ops",
    /// lru_lock acquisitions that dead folios cost in drained add batches, or would have cost
    /// without the filter (`docs/rules/batches.md#dead-folios`).
    DeadLockAcq = "dead_lock_acq",
    /// Page-table entries looked at by aging walks.
    WalkPtes = "walk_ptes",
    /// Pages promoted by aging walks and look-around.
    WalkPromoted = "walk_promoted",
}

/// Number of counters.
pub const NR_COUNTERS: usize = Counter::ALL.len();

/// One value for each [`Counter`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct CounterSet(
    #[cfg_attr(feature = "state", serde(with = "crate::state::array"))] pub [i64; NR_COUNTERS],
);

impl Default for CounterSet {
    fn default() -> Self {
        Self([0; NR_COUNTERS])
    }
}

impl Counter {
    /// All but those that stay 0 unless anonymous memory has huge pages, in the order of [`Self::ALL`].
    pub fn without_huge_pages() -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|c| !c.needs_huge_pages())
    }

    /// True if it stays 0 unless anonymous memory has huge pages.
    pub const fn needs_huge_pages(self) -> bool {
        matches!(
            self,
            Self::ThpSwpout
                | Self::ThpFaultAlloc
                | Self::ThpFaultFallback
                | Self::ThpFaultFallbackCharge
                | Self::ThpSplitPage
                | Self::ThpSplitPmd
                | Self::ThpDeferredSplitPage
        )
    }
}

impl CounterSet {
    /// Value of one counter.
    #[inline]
    pub fn get(&self, c: Counter) -> i64 {
        self.0[c as usize]
    }

    /// Adds `n` (may be negative) to one counter.
    #[inline]
    pub fn add(&mut self, c: Counter, n: i64) {
        self.0[c as usize] += n;
    }

    /// Adds every counter of `other`.
    pub fn add_all(&mut self, other: &CounterSet) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a += b;
        }
    }

    /// Name and value of every counter, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, i64)> + '_ {
        Counter::ALL.iter().map(|&c| (c.name(), self.get(c)))
    }
}

impl std::ops::Index<Counter> for CounterSet {
    type Output = i64;
    fn index(&self, c: Counter) -> &i64 {
        &self.0[c as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_indices_dense() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        for (i, c) in Counter::ALL.iter().enumerate() {
            assert_eq!(*c as usize, i);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NR_COUNTERS);
    }
}
