//! Heat levels as posted (`docs/rules/heat.md#as-posted`): a walk for the cold memcgs, one more for the warm ones if
//! any was passed over, and one for all. Used for root reclaim only.
//!
//! Kept as it was posted, oddities included: enough freed ends a walk, but not the walks that follow.

use super::shared::{walk_mode, Visited};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::memcg::heat::HeatLevel;
use crate::memcg::WalkCursor;
use crate::reclaim::scan_control::ScanControl;
use crate::switches::PolicyKind;

/// The walks of one visit.
#[derive(Debug)]
pub struct PostedOrder {
    node: NodeId,
    level: HeatLevel,
    /// A memcg too hot for this level has been passed over.
    need_next: bool,
    cursor: WalkCursor,
    ended: bool,
}

impl PostedOrder {
    pub(super) fn new(sc: &ScanControl, node: NodeId) -> Self {
        Self {
            node,
            level: HeatLevel::Cold,
            need_next: false,
            cursor: WalkCursor::new(walk_mode(sc), MemcgId::ROOT, node),
            ended: false,
        }
    }

    pub(super) fn next(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<MemcgId> {
        while !self.ended {
            let Some(memcg) = eng.memcgs.iter_next(&mut self.cursor) else {
                let next = self.level.next().filter(|_| self.need_next);
                let Some(level) = next else { break };
                self.level = level;
                self.need_next = false;
                self.cursor = WalkCursor::new(walk_mode(sc), MemcgId::ROOT, self.node);
                continue;
            };
            if !eng.may_reclaim(sc, memcg) {
                continue;
            }
            let level = self.level_of(eng, memcg);
            if level > self.level {
                self.need_next = true;
                eng.count(memcg, Counter::HeatSkips, 1);
                continue;
            }
            if eng.switches().policy == PolicyKind::MultiGen
                && !eng.gen_sizable(sc, memcg, self.node)
            {
                continue;
            }
            eng.count_heat_visit(memcg, level);
            return Some(memcg);
        }
        self.ended = true;
        None
    }

    /// The root is always cold.
    fn level_of(&self, eng: &mut Engine, memcg: MemcgId) -> HeatLevel {
        if memcg == MemcgId::ROOT {
            return HeatLevel::Cold;
        }
        let (now, cfg) = (eng.now(), *eng.heat_config());
        eng.nodes[self.node.idx()].heat.posted[memcg.idx()].level(now, &cfg)
    }

    pub(super) fn result(&mut self, eng: &mut Engine, sc: &ScanControl, v: &Visited) {
        if v.memcg != MemcgId::ROOT {
            let refaults = eng.activations(v.memcg, self.node);
            let (now, cfg) = (eng.now(), *eng.heat_config());
            let heat = &mut eng.nodes[self.node.idx()].heat.posted[v.memcg.idx()];
            heat.record(now, &cfg, &v.stats, refaults);
        }
        if eng.walk_has_enough(sc, v.memcg, self.node) {
            eng.memcgs.iter_break(&mut self.cursor);
        }
    }

    pub(super) fn stop(&mut self, eng: &mut Engine) {
        eng.memcgs.iter_break(&mut self.cursor);
        self.ended = true;
    }
}
