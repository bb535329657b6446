//! Which memcg reclaim turns to next, behind one interface: [`MemcgOrder::next`] says which memcg to
//! reclaim from, [`MemcgOrder::result`] hears what that has brought.
//!
//! Four answers: the shared or private walk of the hierarchy ([`HierarchyOrder`], `docs/rules/memcg.md#walks`), the
//! memcg LRU ([`LruOrder`], `docs/rules/memcg-lru.md`), heat levels as posted ([`PostedOrder`]) and the lazy decay wheel
//! ([`WheelOrder`], `docs/rules/heat.md`). Protection is each order's own business, because what is protected is moved
//! elsewhere in some of them.

mod hierarchy;
mod lru;
mod posted;
mod shared;
mod state;
mod wheel;

#[cfg(test)]
mod tests;

pub use hierarchy::HierarchyOrder;
pub use lru::LruOrder;
pub use posted::PostedOrder;
pub use shared::Visited;
pub use wheel::WheelOrder;

use super::scan_control::ScanControl;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::switches::{MemcgHeat, PolicyKind};

/// The order of one node visit.
#[derive(Debug)]
pub enum MemcgOrder {
    /// The tree, parents first.
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
            eng.count(visited.memcg, Counter::MemcgVisits, 1);
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
