//! One visit of a node: the memcgs below the target, protection, and what the batches' sums mean
//! for throttling (`docs/rules/reclaim-loop.md#node-visit`, `docs/rules/memcg.md#walks`).

use super::cx::Cx;
use super::gen_root::GenRootVisit;
use super::lruvec_loop::LruvecLoop;
use super::order::{MemcgOrder, Visited};
use super::scan_control::{BatchSums, ScanControl};
use super::work::Work;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::memcg::heat::VisitStats;
use crate::memcg::LruOp;
use crate::node::ThrottleReason;
use crate::switches::PolicyKind;
use crate::zone::totalreserve;

/// A visit in progress.
#[derive(Debug)]
pub(crate) enum NodeVisit {
    /// The ordinary visit.
    Walk(Box<WalkVisit>),
    /// Root reclaim of multi-gen memcgs.
    GenRoot(Box<GenRootVisit>),
}

impl NodeVisit {
    /// Begins a visit.
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, node: NodeId, cpu: u16) -> Self {
        let mglru = eng.switches().policy == PolicyKind::MultiGen;
        if mglru && sc.root_reclaim() {
            sc.nr = BatchSums::default();
            NodeVisit::GenRoot(Box::new(GenRootVisit::new(eng, sc, node, cpu)))
        } else {
            NodeVisit::Walk(Box::new(WalkVisit::new(sc, node)))
        }
    }

    /// The next request to the host; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        match self {
            NodeVisit::Walk(v) => v.step(eng, cx),
            NodeVisit::GenRoot(v) => v.step(eng, cx),
        }
    }

    /// Called when the task is abandoned: memcgs it stands on are let go.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        match self {
            NodeVisit::Walk(v) => {
                if let VisitStage::Lruvec(l) = &mut v.at {
                    l.abandon(eng);
                }
                if let Some(order) = &mut v.order {
                    order.stop(eng);
                }
            }
            NodeVisit::GenRoot(v) => v.stop(eng),
        }
    }
}

#[derive(Debug)]
enum VisitStage {
    Turn,
    NextMemcg,
    Lruvec(LruvecLoop),
    Feedback,
    Throttled,
    End,
}

/// The ordinary visit: everything but root reclaim of multi-gen memcgs.
#[derive(Debug)]
pub(crate) struct WalkVisit {
    node: NodeId,
    at: VisitStage,
    order: Option<MemcgOrder>,
    memcg: MemcgId,
    reclaimed_before: u64,
    /// Pages scanned and freed when the present memcg's turn began.
    before: (u64, u64),
    pending: Vec<Work>,
}

impl WalkVisit {
    fn new(sc: &mut ScanControl, node: NodeId) -> Self {
        sc.nr = BatchSums::default();
        Self {
            node,
            at: VisitStage::Turn,
            order: None,
            memcg: MemcgId::ROOT,
            reclaimed_before: sc.nr_reclaimed,
            before: (0, 0),
            pending: Vec::new(),
        }
    }

    fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            match &mut self.at {
                VisitStage::Turn => {
                    cx.sc.nr = BatchSums::default();
                    self.reclaimed_before = cx.sc.nr_reclaimed;
                    if eng.switches().policy == PolicyKind::Classic {
                        eng.prepare_scan_control(cx.sc, self.node);
                    }
                    self.order = Some(MemcgOrder::new(eng, cx.sc, self.node));
                    self.at = VisitStage::NextMemcg;
                }
                VisitStage::NextMemcg => self.next_memcg(eng, cx),
                VisitStage::Lruvec(l) => {
                    if let Some(work) = l.step(eng, cx) {
                        return Some(work);
                    }
                    let lruvec = eng.lruvec_id(self.memcg, self.node);
                    eng.shrink_shadow_nodes(lruvec, cx.sc.priority);
                    let rotate = l.rotate();
                    let stats = VisitStats {
                        scanned: cx.sc.nr_scanned - self.before.0,
                        reclaimed: cx.sc.nr_reclaimed - self.before.1,
                        aged: l.aged(),
                    };
                    if rotate {
                        eng.nodes[self.node.idx()]
                            .memcg_lru
                            .apply(self.memcg, LruOp::Young);
                    }
                    let visited = Visited {
                        memcg: self.memcg,
                        stats,
                        rotate,
                        sizable: false,
                    };
                    let order = self.order.as_mut().expect("visit begun");
                    order.result(eng, cx.sc, &visited);
                    self.at = VisitStage::NextMemcg;
                    // There may be many more: others get their turn, and writes their end.
                    if cx.sc.root_reclaim() {
                        return Some(Work::Yield);
                    }
                }
                VisitStage::Feedback => {
                    self.feedback(eng, cx.sc);
                    self.at = VisitStage::Throttled;
                }
                VisitStage::Throttled => {
                    if !self.pending.is_empty() {
                        return Some(self.pending.remove(0));
                    }
                    self.at = VisitStage::End;
                }
                VisitStage::End => return None,
            }
        }
    }

    fn next_memcg(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) {
        let order = self.order.as_mut().expect("visit begun");
        let Some(memcg) = order.next(eng, cx.sc) else {
            self.at = VisitStage::Feedback;
            return;
        };
        self.memcg = memcg;
        self.before = (cx.sc.nr_scanned, cx.sc.nr_reclaimed);
        let lruvec = eng.lruvec_id(memcg, self.node);
        self.at = VisitStage::Lruvec(LruvecLoop::new(eng, cx.sc, lruvec, cx.cpu));
    }

    /// What dirty and written folios mean for the node (`docs/rules/writeback.md#what-reclaim-tells`).
    fn feedback(&mut self, eng: &mut Engine, sc: &mut ScanControl) {
        let progress = sc.nr_reclaimed > self.reclaimed_before;
        let nr = sc.nr;
        let target = sc.target.unwrap_or(MemcgId::ROOT);
        let target_lruvec = eng.lruvec_id(target, self.node);
        let hz = eng.config().hz;
        let node = &mut eng.nodes[self.node.idx()];
        if sc.is_kswapd() {
            if nr.writeback != 0 && nr.writeback == nr.taken {
                node.flag_writeback = true;
            }
            if eng.rules.series.kswapd_writes_files() && nr.unqueued_dirty == nr.file_taken {
                node.flag_dirty = true;
            }
            if nr.immediate != 0 {
                self.pending
                    .push(eng.throttle(sc, ThrottleReason::Writeback, self.node, hz / 10));
            }
        }
        if nr.dirty != 0 && nr.dirty == nr.congested {
            let sane = sc.target.is_none() || eng.config().cgroup_v2;
            if sc.target.is_some() && sane {
                eng.lruvecs[target_lruvec].cgroup_congested = true;
            }
            if sc.is_kswapd() {
                eng.lruvecs[target_lruvec].node_congested = true;
            }
        }
        let l = &eng.lruvecs[target_lruvec];
        let congested = l.cgroup_congested || l.node_congested;
        if !sc.is_kswapd() && sc.may_throttle && congested && eng.throttle_worthwhile(self.node) {
            self.pending
                .push(eng.throttle(sc, ThrottleReason::Congested, self.node, 1));
        }
        if progress {
            eng.node_progress(sc, self.node);
        } else if sc.cache_trim_mode {
            sc.cache_trim_mode_failed = true;
        }
    }
}

impl Engine {
    /// A sleep, counted.
    pub(crate) fn throttle(
        &mut self,
        sc: &ScanControl,
        reason: ThrottleReason,
        node: NodeId,
        ticks: u32,
    ) -> Work {
        let memcg = sc.target.unwrap_or(MemcgId::ROOT);
        let counter = match reason {
            ThrottleReason::Writeback => Counter::ThrottleWriteback,
            ThrottleReason::Isolated => Counter::ThrottleIsolated,
            ThrottleReason::NoProgress => Counter::ThrottleNoprogress,
            ThrottleReason::Congested => Counter::ThrottleCongested,
        };
        self.memcgs.count(memcg, counter, 1);
        self.memcgs.count(memcg, Counter::ThrottleWaits, 1);
        Work::Throttle {
            reason,
            node,
            ticks: ticks.max(1),
        }
    }

    /// NOPROGRESS and CONGESTED sleeps are skipped when waiting cannot help
    /// (`docs/rules/writeback.md#what-reclaim-tells`).
    pub(crate) fn throttle_worthwhile(&self, node: NodeId) -> bool {
        let n = &self.nodes[node.idx()];
        !n.hopeless() && 2 * n.write_pending() > self.node_reclaimable(node)
    }

    /// Pages of a node that reclaim could free: file lists, and anonymous ones if there is swap.
    pub fn node_reclaimable(&self, node: NodeId) -> u64 {
        let n = &self.nodes[node.idx()];
        let file = n.lru_pages(LruList::InactiveFile) + n.lru_pages(LruList::ActiveFile);
        if self.swap_free() == 0 {
            return file;
        }
        file + n.lru_pages(LruList::InactiveAnon) + n.lru_pages(LruList::ActiveAnon)
    }

    /// Pages of a node that may hold data to be written: free ones above what is kept back, and those of files
    /// (`docs/rules/writeback.md#limits`).
    pub fn node_dirtyable(&self, node: NodeId) -> u64 {
        let zones = self.zones.of(node);
        let free: u64 = zones.iter().map(|z| z.free).sum();
        let n = &self.nodes[node.idx()];
        free.saturating_sub(totalreserve(zones))
            + n.lru_pages(LruList::InactiveFile)
            + n.lru_pages(LruList::ActiveFile)
    }

    /// Pages of a node that are dirty or under writeback.
    pub fn node_write_pending(&self, node: NodeId) -> u64 {
        self.nodes[node.idx()].write_pending()
    }
}
