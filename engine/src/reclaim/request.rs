//! What a request means for one lruvec: swappiness, when to stop, where its pages are counted
//! (`docs/rules/reclaim-loop.md`).

use super::scan_control::{ReclaimKind, ScanControl};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{LruType, LruvecId, MemcgId};
use crate::mglru::{ANON_ONLY, MIN_LRU_BATCH};
use crate::switches::PolicyKind;

/// What happened to pages that a request took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reclaimed {
    /// Pages isolated: pgscan.
    Scan,
    /// Pages freed: pgsteal.
    Steal,
}

impl Reclaimed {
    /// Where it is counted: by who reclaims, and by type.
    pub(crate) fn counters(self, kind: ReclaimKind, t: LruType) -> (Counter, Counter) {
        match self {
            Self::Scan => (
                kind.pgscan(),
                [Counter::PgscanAnon, Counter::PgscanFile][t.idx()],
            ),
            Self::Steal => (
                kind.pgsteal(),
                [Counter::PgstealAnon, Counter::PgstealFile][t.idx()],
            ),
        }
    }
}

impl Engine {
    /// Swappiness of this request for a memcg.
    pub(crate) fn swappiness(&self, sc: &ScanControl, memcg: MemcgId) -> u16 {
        let mglru = self.switches().policy == PolicyKind::MultiGen;
        if mglru && self.rules.series.anon_only_is_strict() && sc.swappiness == Some(ANON_ONLY) {
            return ANON_ONLY;
        }
        if mglru && !self.can_swap(sc, memcg) {
            return 0;
        }
        sc.swappiness.unwrap_or_else(|| {
            self.memcgs[memcg]
                .swappiness()
                .map_or(self.config().swappiness, u16::from)
        })
    }

    /// Anonymous memory of the memcg is worth scanning: there is room for it elsewhere.
    fn can_swap(&self, sc: &ScanControl, memcg: MemcgId) -> bool {
        sc.may_swap && self.swap_available(memcg) >= MIN_LRU_BATCH
    }

    /// Anonymous memory only was asked for, and none can be swapped.
    pub(crate) fn wants_what_cannot_go(&self, sc: &ScanControl, memcg: MemcgId) -> bool {
        self.rules.series.anon_only_is_strict()
            && sc.swappiness == Some(ANON_ONLY)
            && !self.can_swap(sc, memcg)
    }

    /// The memcg is below its memory.min as the request sees it.
    pub(crate) fn below_min(&self, sc: &ScanControl, memcg: MemcgId) -> bool {
        self.memcgs
            .below_min(sc.target.unwrap_or(MemcgId::ROOT), memcg)
    }

    /// The loop of a multi-gen lruvec stops early: the target is met, or the node has enough again.
    pub(crate) fn should_abort(&self, sc: &ScanControl, lruvec: LruvecId) -> bool {
        let root = sc.root_reclaim();
        if !root && !self.rules.series.limit_reclaim_stops_at_target() {
            return false;
        }
        if sc.nr_reclaimed >= sc.nr_to_reclaim.max(2 << sc.order) {
            return true;
        }
        if !root || !sc.is_kswapd() || sc.order != 0 {
            return false;
        }
        let node = self.lruvecs[lruvec].node;
        self.zones
            .above_high(node, sc.reclaim_idx, crate::mglru::MIN_LRU_BATCH)
    }

    /// Counts pages scanned or freed: for the memcg and, unless a limit is reclaimed, for the machine, by
    /// who reclaims; for both by type.
    pub(crate) fn count_reclaim(
        &mut self,
        lruvec: LruvecId,
        sc: &ScanControl,
        what: Reclaimed,
        t: LruType,
        pages: u64,
    ) {
        let (by_kind, by_type) = what.counters(sc.kind, t);
        let n = pages as i64;
        let memcg = self.memcg_of(lruvec);
        if sc.target.is_none() || self.rules.series.counts_limit_reclaim_globally() {
            self.count_global(by_kind, n);
        }
        self.memcgs.count(memcg, by_kind, n);
        self.count(memcg, by_type, n);
    }

    /// Counts pages that the scan of a generation moved instead of isolating them.
    pub(crate) fn count_refill(&mut self, lruvec: LruvecId, sc: &ScanControl, pages: u64) {
        let n = pages as i64;
        let memcg = self.memcg_of(lruvec);
        self.memcgs.count(memcg, Counter::Pgrefill, n);
        if sc.target.is_none() {
            self.count_global(Counter::Pgrefill, n);
        }
    }
}
