//! The memcg LRU (`docs/rules/memcg-lru.md`): a walk over the old generation of memcgs.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::memcg::{after_visit, before_visit, BeforeVisit, LruWalk};
use crate::reclaim::order::Visited;
use crate::reclaim::scan_control::ScanControl;

/// A walk in progress.
#[derive(Debug)]
pub struct LruOrder {
    node: NodeId,
    walk: LruWalk,
    /// The memcg the walk stands on: it must not be released.
    held: Option<MemcgId>,
    ended: bool,
}

impl LruOrder {
    pub(crate) fn new(eng: &mut Engine, node: NodeId) -> Self {
        Self {
            node,
            walk: eng.nodes[node.idx()].memcg_lru.walk_begin(),
            held: None,
            ended: false,
        }
    }

    /// Holds the memcg the walk stands on now instead of the one before.
    fn hold(&mut self, eng: &mut Engine, memcg: Option<MemcgId>) {
        if let Some(id) = memcg {
            eng.memcgs.hold(id).expect("members of the LRU exist");
        }
        if let Some(id) = std::mem::replace(&mut self.held, memcg) {
            eng.memcgs.unhold(id);
        }
    }

    pub(crate) fn next(&mut self, eng: &mut Engine) -> Option<MemcgId> {
        while !self.ended {
            let lru = &mut eng.nodes[self.node.idx()].memcg_lru;
            let Some(memcg) = lru.walk_next(&mut self.walk) else {
                self.stop(eng);
                break;
            };
            let seg = lru.seg(memcg);
            self.hold(eng, Some(memcg));
            eng.memcgs.calculate_protection(MemcgId::ROOT, memcg);
            let below_min = eng.memcgs.below_min(MemcgId::ROOT, memcg);
            let below_low = eng.memcgs.below_low(MemcgId::ROOT, memcg);
            match before_visit(below_min, below_low, seg) {
                BeforeVisit::Skip(op) => self.walk.set_result(Some(op)),
                BeforeVisit::Shrink { low_event } => {
                    if low_event {
                        eng.memcgs.event(memcg, Counter::EventsLow);
                    }
                    return Some(memcg);
                }
            }
        }
        None
    }

    pub(crate) fn result(&mut self, eng: &mut Engine, sc: &ScanControl, v: &Visited) {
        let online = eng.memcgs[v.memcg].online();
        let seg = eng.nodes[self.node.idx()].memcg_lru.seg(v.memcg);
        self.walk
            .set_result(after_visit(v.rotate, online, v.sizable, seg));
        if eng.should_abort(sc, eng.lruvec_id(v.memcg, self.node)) {
            self.stop(eng);
        }
    }

    pub(crate) fn stop(&mut self, eng: &mut Engine) {
        let lru = &mut eng.nodes[self.node.idx()].memcg_lru;
        lru.walk_stop(&mut self.walk);
        self.hold(eng, None);
        self.ended = true;
    }
}
