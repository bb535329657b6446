//! What the orders have in common: what a visit has brought, whom protection spares, when a walk has
//! enough (`docs/rules/memcg.md`).

use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::memcg::heat::VisitStats;
use crate::memcg::WalkMode;
use crate::reclaim::scan_control::ScanControl;
use crate::switches::PolicyKind;

/// A memcg that has been reclaimed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visited {
    /// Which.
    pub memcg: MemcgId,
    /// Pages of its LRU, slab not included.
    pub stats: VisitStats,
    /// It should rotate to the young end (multi-gen).
    pub rotate: bool,
    /// Enough is left at this priority (multi-gen; offline: anything).
    pub sizable: bool,
}

/// Full for kswapd and for a retry that visits everything, else shared.
pub(super) fn walk_mode(sc: &ScanControl) -> WalkMode {
    if sc.is_kswapd() || sc.full_walk {
        WalkMode::Full
    } else {
        WalkMode::Partial
    }
}

/// What protection means for a memcg about to be reclaimed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protection {
    None,
    /// Below memory.low, which no longer protects: event LOW.
    LowBroken,
    Low,
    Min,
}

impl Engine {
    /// Protection of a memcg relative to the target, computed afresh.
    pub(super) fn protection(&mut self, sc: &ScanControl, memcg: MemcgId) -> Protection {
        let root = sc.target.unwrap_or(MemcgId::ROOT);
        self.memcgs.calculate_protection(root, memcg);
        if self.memcgs.below_min(root, memcg) {
            Protection::Min
        } else if !self.memcgs.below_low(root, memcg) {
            Protection::None
        } else if sc.low_reclaim {
            Protection::LowBroken
        } else {
            Protection::Low
        }
    }

    /// The rule of the plain walk: true if the memcg may be reclaimed from. Counts events.
    pub(super) fn may_reclaim(&mut self, sc: &mut ScanControl, memcg: MemcgId) -> bool {
        match self.protection(sc, memcg) {
            Protection::None => true,
            Protection::LowBroken => {
                self.memcgs.event(memcg, Counter::EventsLow);
                true
            }
            Protection::Low => {
                sc.low_skipped = true;
                false
            }
            Protection::Min => false,
        }
    }

    /// This visit of the node has freed enough (`docs/rules/memcg.md#walks`, `docs/rules/heat.md#as-posted`): multi-gen root reclaim goes by
    /// the rule of the memcg LRU, everything else by the target, which full walks ignore.
    pub(super) fn walk_has_enough(&self, sc: &ScanControl, memcg: MemcgId, node: NodeId) -> bool {
        if self.switches().policy == PolicyKind::MultiGen && sc.root_reclaim() {
            return self.should_abort(sc, self.lruvec_id(memcg, node));
        }
        walk_mode(sc) == WalkMode::Partial && sc.nr_reclaimed >= sc.nr_to_reclaim
    }
}
