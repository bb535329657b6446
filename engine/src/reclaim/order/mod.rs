//! Which memcg reclaim turns to next, behind one interface: [`MemcgOrder::next`] says which memcg to
//! reclaim from, [`MemcgOrder::result`] hears what that has brought.
//!
//! Four answers: the shared or private walk of the hierarchy ([`HierarchyOrder`], `memcg.md` 6), the
//! memcg LRU ([`LruOrder`], 9), heat levels as posted ([`PostedOrder`], 10) and the lazy decay wheel
//! ([`WheelOrder`], 11). Protection is each order's own business, because what is protected is moved
//! elsewhere in some of them.

mod hierarchy;
mod lru;
mod posted;
mod state;
mod wheel;

#[cfg(test)]
mod tests;

pub use hierarchy::HierarchyOrder;
pub use lru::LruOrder;
pub use posted::PostedOrder;
pub(crate) use state::heat_config;
pub use wheel::WheelOrder;

use super::scan_control::ScanControl;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::memcg::heat::VisitStats;
use crate::memcg::WalkMode;
use crate::switches::{MemcgHeat, PolicyKind};

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

/// The order of one node visit.
#[derive(Debug)]
pub enum MemcgOrder {
    /// Plain walk.
    Hierarchy(HierarchyOrder),
    /// Memcg LRU.
    Lru(LruOrder),
    /// Heat as posted.
    Posted(PostedOrder),
    /// Lazy decay wheel.
    Wheel(WheelOrder),
}

impl MemcgOrder {
    /// The order the switches ask for.
    pub fn new(eng: &mut Engine, sc: &ScanControl, node: NodeId) -> Self {
        match eng.switches().memcg_heat {
            MemcgHeat::Posted if sc.root_reclaim() => {
                return MemcgOrder::Posted(PostedOrder::new(sc, node));
            }
            MemcgHeat::Wheel => {
                if let Some(w) = WheelOrder::new(eng, sc, node) {
                    return MemcgOrder::Wheel(w);
                }
            }
            _ => {}
        }
        if uses_memcg_lru(eng, sc) {
            MemcgOrder::Lru(LruOrder::new(eng, node))
        } else {
            MemcgOrder::Hierarchy(HierarchyOrder::new(sc, node))
        }
    }

    /// The memcg to reclaim from now; `None` when the visit of the node is over. It stays in
    /// existence until the next call or [`Self::stop`].
    pub fn next(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<MemcgId> {
        match self {
            MemcgOrder::Hierarchy(o) => o.next(eng, sc),
            MemcgOrder::Lru(o) => o.next(eng),
            MemcgOrder::Posted(o) => o.next(eng, sc),
            MemcgOrder::Wheel(o) => o.next(eng, sc),
        }
    }

    /// The memcg that [`Self::next`] has named was reclaimed from.
    pub fn result(&mut self, eng: &mut Engine, sc: &ScanControl, visited: &Visited) {
        if sc.root_reclaim() && visited.memcg != MemcgId::ROOT {
            eng.count_host(visited.memcg, Counter::MemcgVisits, 1);
        }
        match self {
            MemcgOrder::Hierarchy(o) => o.result(eng, sc, visited),
            MemcgOrder::Lru(o) => o.result(eng, sc, visited),
            MemcgOrder::Posted(o) => o.result(eng, sc, visited),
            MemcgOrder::Wheel(o) => o.result(eng, sc, visited),
        }
    }

    /// Ends the visit early.
    pub fn stop(&mut self, eng: &mut Engine) {
        match self {
            MemcgOrder::Hierarchy(o) => o.stop(eng),
            MemcgOrder::Lru(o) => o.stop(eng),
            MemcgOrder::Posted(o) => o.stop(eng),
            MemcgOrder::Wheel(o) => o.stop(eng),
        }
    }
}

/// Root reclaim of multi-gen memcgs goes by the memcg LRU.
fn uses_memcg_lru(eng: &Engine, sc: &ScanControl) -> bool {
    let sw = eng.switches();
    sw.policy == PolicyKind::MultiGen
        && sw.memcg_lru
        && sw.memcg_heat == MemcgHeat::Off
        && sc.root_reclaim()
}

/// Full for kswapd and for a retry that visits everything, else shared.
fn walk_mode(sc: &ScanControl) -> WalkMode {
    if sc.is_kswapd() || sc.full_walk {
        WalkMode::Full
    } else {
        WalkMode::Partial
    }
}

/// What protection means for a memcg about to be reclaimed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protection {
    None,
    /// Below memory.low, which no longer protects: event LOW.
    LowBroken,
    Low,
    Min,
}

impl Engine {
    /// Protection of a memcg relative to the target, computed afresh.
    fn protection(&mut self, sc: &ScanControl, memcg: MemcgId) -> Protection {
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
    fn may_reclaim(&mut self, sc: &mut ScanControl, memcg: MemcgId) -> bool {
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

    /// This visit of the node has freed enough (`memcg.md` 6 and 10): multi-gen root reclaim goes by
    /// the rule of the memcg LRU, everything else by the target, which full walks ignore.
    fn walk_has_enough(&self, sc: &ScanControl, memcg: MemcgId, node: NodeId) -> bool {
        if self.switches().policy == PolicyKind::MultiGen && sc.root_reclaim() {
            return self.should_abort(sc, self.lruvec_id(memcg, node));
        }
        walk_mode(sc) == WalkMode::Partial && sc.nr_reclaimed >= sc.nr_to_reclaim
    }
}
