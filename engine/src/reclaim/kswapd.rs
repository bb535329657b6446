//! One run of kswapd (`docs/rules/zones.md#kswapd`).

use super::classic_loop::ClassicLoop;
use super::cx::Cx;
use super::node::NodeVisit;
use super::scan_control::{ScanControl, DEF_PRIORITY};
use super::work::Work;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{LruType, MemcgId, NodeId};
use crate::memcg::{WalkCursor, WalkMode};
use crate::switches::PolicyKind;
use crate::zone::{self, ZoneClass};

#[derive(Debug)]
enum KswapdStage {
    Start,
    Check,
    Age,
    /// Classic: anonymous memory of every memcg ages a little.
    AgeAnon {
        cursor: WalkCursor,
        lruvec: Option<Box<ClassicLoop>>,
    },
    Shrink,
    Visit(NodeVisit),
    RoundOver,
    /// The rounds are over without the node being balanced at their top.
    Finish,
    /// The way out.
    Out,
    End,
}

/// A run in progress.
#[derive(Debug)]
pub(crate) struct KswapdRun {
    node: NodeId,
    class: ZoneClass,
    /// Boosts found at the start, by zone of the node: taken off at the end.
    boosts: Vec<u64>,
    boost: u64,
    raise: bool,
    reclaimed_before: u64,
    at: KswapdStage,
}

impl KswapdRun {
    pub(crate) fn new(eng: &mut Engine, node: NodeId, zone: u8) -> Self {
        eng.count_global(Counter::Pageoutrun, 1);
        let class = eng.zones.class(node, zone);
        let boosts: Vec<u64> = eng
            .zones
            .of(node)
            .iter()
            .map(|z| if z.class <= class { z.boost } else { 0 })
            .collect();
        Self {
            node,
            class,
            boost: boosts.iter().sum(),
            boosts,
            raise: true,
            reclaimed_before: 0,
            at: KswapdStage::Start,
        }
    }

    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        match &mut self.at {
            KswapdStage::Visit(v) => v.abandon(eng),
            KswapdStage::AgeAnon { cursor, .. } => eng.memcgs.iter_break(cursor),
            _ => {}
        }
        self.at = KswapdStage::End;
    }

    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Work {
        loop {
            match &mut self.at {
                KswapdStage::Start => {
                    cx.sc.priority = DEF_PRIORITY;
                    self.at = KswapdStage::Check;
                }
                KswapdStage::Check => {
                    let balanced = zone::balanced(
                        eng.zones.all(),
                        self.node,
                        cx.sc.order.into(),
                        self.class,
                        false,
                    );
                    if !balanced && self.boost != 0 {
                        self.boost = 0;
                        self.at = KswapdStage::Start;
                        continue;
                    }
                    if balanced && self.boost == 0 {
                        self.at = KswapdStage::Out;
                        continue;
                    }
                    let boosting = self.boost != 0;
                    self.raise = !(boosting && cx.sc.priority == DEF_PRIORITY - 2);
                    cx.sc.may_writepage = !boosting;
                    cx.sc.may_swap = !boosting;
                    self.at = KswapdStage::Age;
                }
                KswapdStage::Age => {
                    let low = || eng.memcg_inactive_is_low(MemcgId::ROOT, self.node, LruType::Anon);
                    self.at = if eng.switches().policy == PolicyKind::Classic
                        && eng.swap_total() > 0
                        && low()
                    {
                        KswapdStage::AgeAnon {
                            cursor: WalkCursor::new(WalkMode::Full, MemcgId::ROOT, self.node),
                            lruvec: None,
                        }
                    } else {
                        KswapdStage::Shrink
                    };
                }
                KswapdStage::AgeAnon { cursor, lruvec } => {
                    if let Some(work) = lruvec.as_mut().and_then(|l| l.step(eng, cx)) {
                        return work;
                    }
                    match eng.memcgs.iter_next(cursor) {
                        Some(memcg) => {
                            let id = eng.lruvec_id(memcg, self.node);
                            *lruvec = Some(Box::new(ClassicLoop::aging(eng, id)));
                        }
                        None => self.at = KswapdStage::Shrink,
                    }
                }
                KswapdStage::Shrink => {
                    // With several generations aging belongs to eviction; the only thing left here
                    // is the protection of young working sets.
                    if cx.sc.priority < DEF_PRIORITY - 2 {
                        cx.sc.may_writepage = true;
                    }
                    cx.sc.nr_scanned = 0;
                    cx.sc.nr_to_reclaim =
                        zone::kswapd_target(eng.zones.all(), self.node, self.class);
                    self.reclaimed_before = cx.sc.nr_reclaimed;
                    let kill = eng.switches().policy == PolicyKind::MultiGen
                        && eng.working_set_in_danger(cx.sc, self.node);
                    self.at = KswapdStage::Visit(NodeVisit::new(eng, cx.sc, self.node, cx.cpu));
                    if kill {
                        return Work::OomKill;
                    }
                }
                KswapdStage::Visit(v) => {
                    if let Some(work) = v.step(eng, cx) {
                        return work;
                    }
                    self.at = KswapdStage::RoundOver;
                    // Those who wait at the reserve gate may go on now, if there is room.
                    return Work::Balance { node: self.node };
                }
                KswapdStage::RoundOver => {
                    let got = cx.sc.nr_reclaimed - self.reclaimed_before;
                    if cx.sc.order != 0 && cx.sc.nr_reclaimed >= 2 << cx.sc.order {
                        cx.sc.order = 0;
                    }
                    let scanned = cx.sc.nr_scanned.max(got);
                    if scanned >= cx.sc.nr_to_reclaim {
                        self.raise = false;
                    }
                    let boosting = self.boost != 0;
                    self.boost -= self.boost.min(got);
                    if boosting && self.boost != 0 && got == 0 {
                        self.at = KswapdStage::Finish;
                        continue;
                    }
                    if self.raise || got == 0 {
                        cx.sc.priority -= 1;
                    }
                    self.at = if cx.sc.priority >= 1 {
                        KswapdStage::Check
                    } else {
                        KswapdStage::Finish
                    };
                }
                KswapdStage::Finish => {
                    if cx.sc.nr_reclaimed == 0
                        && cx.sc.priority < 1
                        && cx.sc.cache_trim_mode_failed
                        && !cx.sc.no_cache_trim_mode
                    {
                        cx.sc.no_cache_trim_mode = true;
                        self.at = KswapdStage::Start;
                        continue;
                    }
                    if cx.sc.nr_reclaimed == 0 {
                        eng.nodes[self.node.idx()].kswapd_failed();
                    }
                    self.at = KswapdStage::Out;
                }
                KswapdStage::Out => {
                    let boosts = std::mem::take(&mut self.boosts);
                    for (z, b) in eng.zones.of_mut(self.node).iter_mut().zip(boosts) {
                        z.unboost(b);
                    }
                    eng.snapshot_refaults(MemcgId::ROOT, self.node);
                    self.at = KswapdStage::End;
                }
                KswapdStage::End => return Work::Done,
            }
        }
    }
}

impl Engine {
    /// The node needs no kswapd for a request of an order in its zones up to this one.
    fn node_balanced(&self, node: NodeId, order: u8, zone: u8) -> bool {
        let class = self.zones.class(node, zone);
        zone::balanced(self.zones.all(), node, order.into(), class, false)
    }

    /// Reclaim has freed something on a node. Its kswapd has hope again, unless it had given up and whoever reclaims does so
    /// because the node is short of memory (7.2, 7.3).
    pub(crate) fn node_progress(&mut self, sc: &ScanControl, node: NodeId) {
        let counts = sc.is_kswapd() || !self.rules.switches().kswapd_stays_down;
        if counts || self.node_balanced(node, sc.order, sc.reclaim_idx) {
            self.nodes[node.idx()].progress();
        }
    }

    /// kswapd would like to sleep (`docs/rules/zones.md#kswapd`): true if its node lets it, because it is
    /// balanced or because 16 runs in a row were fruitless. On a balanced node nothing is congested
    /// any more: the marks that kswapd has left are removed. The host wakes those who wait at the
    /// reserve gate first.
    pub fn kswapd_may_sleep(&mut self, node: NodeId, order: u8, zone: u8) -> bool {
        if self.nodes[node.idx()].hopeless() {
            return true;
        }
        if !self.node_balanced(node, order, zone) {
            return false;
        }
        let n = &mut self.nodes[node.idx()];
        n.flag_writeback = false;
        n.flag_dirty = false;
        let root = self.lruvec_id(MemcgId::ROOT, node);
        let l = &mut self.lruvecs[root];
        l.cgroup_congested = false;
        l.node_congested = false;
        true
    }
}
