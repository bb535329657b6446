//! The lazy decay wheel (`docs/rules/heat.md#decay-wheel`): coldest first, each memcg once a call, until enough is freed.
//! The root of the walk is outside of the wheel and first.

use super::shared::{Protection, Visited};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::memcg::heat::{HeatLevel, WheelCall};
use crate::reclaim::scan_control::ScanControl;

/// A limit's subtree gets a wheel from this many descendants on.
const LIMIT_DESCENDANTS: usize = 65;

/// A call in progress.
#[derive(Debug)]
pub struct WheelOrder {
    node: NodeId,
    root: MemcgId,
    root_done: bool,
    call: WheelCall,
    level: HeatLevel,
    /// The memcg taken off the wheel, to be handed back.
    held: Option<MemcgId>,
    /// Pages freed before this visit of the node.
    reclaimed_before: u64,
    ended: bool,
}

impl WheelOrder {
    /// `None`: the target has too few memcgs below it.
    pub(super) fn new(eng: &mut Engine, sc: &ScanControl, node: NodeId) -> Option<Self> {
        let root = sc.target.unwrap_or(MemcgId::ROOT);
        if !eng.nodes[node.idx()].heat.wheels.contains_key(&root) {
            let few =
                root != MemcgId::ROOT && eng.memcgs.preorder(root).nth(LIMIT_DESCENDANTS).is_none();
            if few {
                return None;
            }
            eng.make_wheel(root, node);
        }
        let limits = eng.memcgs.limit_changes();
        let now = eng.now();
        let wheel = eng.wheel_mut(root, node);
        Some(Self {
            node,
            root,
            root_done: false,
            call: wheel.begin(now, sc.priority, limits),
            level: HeatLevel::Cold,
            held: None,
            reclaimed_before: sc.nr_reclaimed,
            ended: false,
        })
    }

    pub(super) fn next(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<MemcgId> {
        if self.ended {
            return None;
        }
        if !std::mem::replace(&mut self.root_done, true) && eng.may_reclaim(sc, self.root) {
            return Some(self.root);
        }
        let now = eng.now();
        while let Some(memcg) = self.pick(eng) {
            eng.memcgs.hold(memcg).expect("members of a wheel exist");
            match eng.protection(sc, memcg) {
                Protection::None => {}
                Protection::LowBroken => eng.memcgs.event(memcg, Counter::EventsLow),
                p @ (Protection::Low | Protection::Min) => {
                    sc.low_skipped |= p == Protection::Low;
                    eng.wheel_mut(self.root, self.node).protect(memcg);
                    eng.memcgs.unhold(memcg);
                    continue;
                }
            }
            self.held = Some(memcg);
            if sc.root_reclaim() {
                let wheel = eng.wheel_mut(self.root, self.node);
                let heat = wheel.heat_at(memcg, now);
                let level = wheel.level_of(heat, now);
                eng.count_heat_visit(memcg, level);
            }
            return Some(memcg);
        }
        self.ended = true;
        None
    }

    /// Level by level; those who stand aside last.
    fn pick(&mut self, eng: &mut Engine) -> Option<MemcgId> {
        let now = eng.now();
        let wheel = eng.wheel_mut(self.root, self.node);
        loop {
            if let Some(id) = wheel.pick(&mut self.call, now, self.level) {
                return Some(id);
            }
            match self.level.next() {
                Some(level) => self.level = level,
                None => return wheel.pick_aside(&mut self.call),
            }
        }
    }

    pub(super) fn result(&mut self, eng: &mut Engine, sc: &ScanControl, v: &Visited) {
        if let Some(memcg) = self.held.take() {
            debug_assert_eq!(memcg, v.memcg);
            let now = eng.now();
            let lruvec = eng.lruvec_id(memcg, self.node);
            let kind = eng.switches().heat_refaults;
            let refaults = eng.lruvecs[lruvec].workingset.refaults(kind);
            let call = &self.call;
            let wheel = eng.wheel_mut(self.root, self.node);
            wheel.visited(call, memcg, now, &v.stats, refaults);
            eng.memcgs.unhold(memcg);
        }
        // kswapd's count runs over all its rounds, its target is that of one.
        let before = if sc.is_kswapd() {
            self.reclaimed_before
        } else {
            0
        };
        let enough = sc.nr_reclaimed - before >= sc.nr_to_reclaim;
        self.ended |= enough || eng.walk_has_enough(sc, v.memcg, self.node);
    }

    pub(super) fn stop(&mut self, eng: &mut Engine) {
        self.ended = true;
        if let Some(memcg) = self.held.take() {
            let now = eng.now();
            eng.wheel_mut(self.root, self.node).put(memcg, now, 0);
            eng.memcgs.unhold(memcg);
        }
    }
}
