//! The scan control: what one reclaim request wants, may do and has done (`docs/rules/reclaim-loop.md#entry-points`).

use crate::counters::Counter;
use crate::ids::{MemcgId, NodeId};

pub use crate::constants::SWAP_CLUSTER_MAX;

/// Priority at which reclaim starts; the scan amount is the list size shifted right by it.
pub const DEF_PRIORITY: u8 = 12;

/// Who reclaims. Decides the counters' suffix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReclaimKind {
    /// The node's background reclaimer.
    Kswapd,
    /// An allocating or charging task.
    Direct,
    /// A request from user space (memory.reclaim).
    Proactive,
}

impl ReclaimKind {
    /// Its scan counter.
    pub const fn pgscan(self) -> Counter {
        match self {
            ReclaimKind::Kswapd => Counter::PgscanKswapd,
            ReclaimKind::Direct => Counter::PgscanDirect,
            ReclaimKind::Proactive => Counter::PgscanProactive,
        }
    }

    /// Its steal counter.
    pub const fn pgsteal(self) -> Counter {
        match self {
            ReclaimKind::Kswapd => Counter::PgstealKswapd,
            ReclaimKind::Direct => Counter::PgstealDirect,
            ReclaimKind::Proactive => Counter::PgstealProactive,
        }
    }
}

/// Sums over the batches of one node visit, in pages (`docs/reference/counters.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchSums {
    /// File pages dirty or under writeback.
    pub dirty: u64,
    /// File pages dirty and not under writeback (before the series only).
    pub unqueued_dirty: u64,
    /// File pages under writeback met again.
    pub congested: u64,
    /// Pages under writeback met for the first time.
    pub writeback: u64,
    /// Pages under writeback met again by kswapd on a node flagged for it.
    pub immediate: u64,
    /// File pages taken (before the series only).
    pub file_taken: u64,
    /// Pages isolated.
    pub taken: u64,
}

/// What a list came to, in base pages (`docs/rules/shrink-list.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReclaimStat {
    /// File pages dirty or under writeback.
    pub dirty: u64,
    /// File pages dirty and not under writeback.
    pub unqueued_dirty: u64,
    /// File pages under writeback, met again.
    pub congested: u64,
    /// Pages under writeback, met for the first time.
    pub writeback: u64,
    /// Pages under writeback, met again by kswapd on a flagged node.
    pub immediate: u64,
    /// Pages submitted by pageout.
    pub pageout: u64,
    /// Activated, by type.
    pub activate: [u64; 2],
    /// Kept because referenced.
    pub ref_keep: u64,
    /// Could not be unmapped.
    pub unmap_fail: u64,
    /// Lazily freeable pages that had been written again.
    pub lazyfree_fail: u64,
    /// Pages freed so far.
    pub reclaimed: u64,
}

/// One reclaim request.
#[derive(Clone, Debug)]
pub struct ScanControl {
    /// Pages to free before the request is done.
    pub nr_to_reclaim: u64,
    /// 12 (gentle) down to 0 (everything).
    pub priority: u8,
    /// Highest zone the request can use.
    pub reclaim_idx: u8,
    /// Order of the allocation behind the request.
    pub order: u8,
    /// Memcg whose limit is reclaimed; none: global reclaim. The root as target is root reclaim, too.
    pub target: Option<MemcgId>,
    /// Only this node may give (an allocation that is bound to it); none: all.
    pub node: Option<NodeId>,
    /// Who reclaims; decides which counters move.
    pub kind: ReclaimKind,
    /// I/O is allowed (__GFP_IO).
    pub io: bool,
    /// File-system calls are allowed (__GFP_FS).
    pub fs: bool,
    /// Mapped folios may be unmapped.
    pub may_unmap: bool,
    /// Anonymous folios may go to swap.
    pub may_swap: bool,
    /// Single folios may be written.
    pub may_writepage: bool,
    /// Swappiness given with a proactive request.
    pub swappiness: Option<u16>,
    /// The task may sleep in throttles (not a kernel thread other than kswapd).
    pub may_throttle: bool,

    /// Pages looked at in this round.
    pub nr_scanned: u64,
    /// Pages freed in this call.
    pub nr_reclaimed: u64,
    /// Classic: active lists that may be deactivated, by type.
    pub may_deactivate: [bool; 2],
    /// Deactivate whatever the balance says.
    pub force_deactivate: bool,
    /// An active list was left alone.
    pub skipped_deactivate: bool,
    /// memory.low no longer protects.
    pub low_reclaim: bool,
    /// memory.low protected something.
    pub low_skipped: bool,
    /// Visit every memcg instead of sharing a walk.
    pub full_walk: bool,
    /// Plenty of inactive file pages: leave anonymous memory alone.
    pub cache_trim_mode: bool,
    /// The above must not be used.
    pub no_cache_trim_mode: bool,
    /// It was used and nothing was freed.
    pub cache_trim_mode_failed: bool,
    /// File pages of the node no longer make up for its watermarks.
    pub file_is_tiny: bool,
    /// Reclaim cost by type of the target's lruvec.
    pub cost: [u64; 2],
    /// Sums of this node visit.
    pub nr: BatchSums,
    /// A walk context is at hand (kswapd, proactive, or aging has run in this lruvec visit).
    pub walk_context: bool,
}

impl ScanControl {
    /// A request of `nr` pages; kind Direct, everything allowed, priority 12.
    pub fn new(nr: u64, target: Option<MemcgId>) -> Self {
        Self {
            nr_to_reclaim: nr,
            priority: DEF_PRIORITY,
            reclaim_idx: (crate::config::MAX_ZONES - 1) as u8,
            order: 0,
            target,
            node: None,
            kind: ReclaimKind::Direct,
            io: true,
            fs: true,
            may_unmap: true,
            may_swap: true,
            may_writepage: true,
            swappiness: None,
            may_throttle: true,
            nr_scanned: 0,
            nr_reclaimed: 0,
            may_deactivate: [false; 2],
            force_deactivate: false,
            skipped_deactivate: false,
            low_reclaim: false,
            low_skipped: false,
            full_walk: false,
            cache_trim_mode: false,
            no_cache_trim_mode: false,
            cache_trim_mode_failed: false,
            file_is_tiny: false,
            cost: [0; 2],
            nr: BatchSums::default(),
            walk_context: false,
        }
    }

    /// True without a target, or with the root as target.
    pub fn root_reclaim(&self) -> bool {
        self.target.is_none_or(|m| m == MemcgId::ROOT)
    }

    /// True for kswapd.
    pub fn is_kswapd(&self) -> bool {
        self.kind == ReclaimKind::Kswapd
    }
}
