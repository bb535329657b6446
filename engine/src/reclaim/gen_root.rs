//! Root reclaim of multi-gen memcgs (`docs/rules/memcg-lru.md`, `docs/rules/aging.md`), in whatever order the switches ask for:
//! the memcg LRU, heat, or the plain walk.

use super::cx::Cx;
use super::lruvec_loop::LruvecLoop;
use super::order::{MemcgOrder, Visited};
use super::scan_control::{ScanControl, DEF_PRIORITY};
use super::work::Work;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::memcg::heat::VisitStats;

#[derive(Debug)]
enum RootStage {
    Next,
    Lruvec(LruvecLoop),
    End,
}

/// A visit of a node in progress.
#[derive(Debug)]
pub(crate) struct GenRootVisit {
    node: NodeId,
    order: Option<MemcgOrder>,
    memcg: MemcgId,
    at: RootStage,
    /// kswapd counts this visit's pages apart and adds the earlier ones at the end.
    reclaimed_before: u64,
    /// Pages scanned and freed when the present memcg's turn began.
    before: (u64, u64),
}

/// Position of the highest set bit, 1-based; 0 for 0.
fn fls(n: u64) -> i64 {
    i64::from(u64::BITS - n.leading_zeros())
}

/// Starting priority for a request of `nr_to_reclaim` pages (`docs/rules/reclaim-loop.md#initial-priority`); `None`:
/// untouched. `shift` is what the scale takes off a priority again when list sizes are shifted by it
/// (`docs/reference/experiments.md`): without it a small machine would start with its whole lists.
pub fn initial_priority(
    priority: u8,
    reclaimable: u64,
    nr_to_reclaim: u64,
    shift: u8,
) -> Option<u8> {
    if priority != DEF_PRIORITY || nr_to_reclaim < 64 {
        return None;
    }
    let p = (fls(reclaimable) - 1) - fls(nr_to_reclaim - 1) + i64::from(shift);
    Some(p.clamp(6, i64::from(DEF_PRIORITY)) as u8)
}

impl GenRootVisit {
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, node: NodeId, cpu: u16) -> Self {
        let mut visit = Self {
            node,
            order: None,
            memcg: MemcgId::ROOT,
            at: RootStage::End,
            reclaimed_before: sc.nr_reclaimed,
            before: (0, 0),
        };
        if !sc.may_writepage || !sc.may_unmap {
            return visit;
        }
        eng.lru_add_drain(cpu);
        let n = &eng.nodes[node.idx()];
        let mut reclaimable = n.lru_pages(LruList::InactiveFile);
        if sc.may_swap && eng.swap_free() > 0 {
            reclaimable += n.lru_pages(LruList::InactiveAnon);
        }
        if let Some(p) = initial_priority(
            sc.priority,
            reclaimable,
            sc.nr_to_reclaim,
            eng.config().scale.shift,
        ) {
            sc.priority = p;
        }
        if sc.is_kswapd() {
            sc.nr_reclaimed = 0;
        } else {
            visit.reclaimed_before = 0;
        }
        visit.order = Some(MemcgOrder::new(eng, sc, node));
        visit.at = RootStage::Next;
        visit
    }

    /// Ends the walk early.
    pub(crate) fn stop(&mut self, eng: &mut Engine) {
        if let RootStage::Lruvec(l) = &mut self.at {
            l.abandon(eng);
        }
        if let Some(order) = &mut self.order {
            order.stop(eng);
        }
    }

    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            match &mut self.at {
                RootStage::Next => self.next(eng, cx),
                RootStage::Lruvec(l) => {
                    if let Some(work) = l.step(eng, cx) {
                        return Some(work);
                    }
                    let lruvec = eng.lruvec_id(self.memcg, self.node);
                    eng.shrink_shadow_nodes(lruvec, cx.sc.priority);
                    let stats = VisitStats {
                        scanned: cx.sc.nr_scanned - self.before.0,
                        reclaimed: cx.sc.nr_reclaimed - self.before.1,
                        aged: l.aged(),
                    };
                    let rotate = l.rotate();
                    self.visited(eng, cx.sc, rotate, stats);
                }
                RootStage::End => {
                    if let Some(mut order) = self.order.take() {
                        order.stop(eng);
                        let earlier = std::mem::take(&mut self.reclaimed_before);
                        if cx.sc.nr_reclaimed > 0 {
                            eng.node_progress(cx.sc, self.node);
                        }
                        cx.sc.nr_reclaimed += earlier;
                    }
                    return None;
                }
            }
        }
    }

    fn next(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) {
        let order = self.order.as_mut().expect("visit begun");
        let Some(memcg) = order.next(eng, cx.sc) else {
            self.at = RootStage::End;
            return;
        };
        self.memcg = memcg;
        self.before = (cx.sc.nr_scanned, cx.sc.nr_reclaimed);
        let lruvec = eng.lruvec_id(memcg, self.node);
        self.at = RootStage::Lruvec(LruvecLoop::new(eng, cx.sc, lruvec, cx.cpu));
    }

    fn visited(&mut self, eng: &mut Engine, sc: &ScanControl, rotate: bool, stats: VisitStats) {
        let visited = Visited {
            memcg: self.memcg,
            stats,
            rotate,
            sizable: eng.gen_sizable(sc, self.memcg, self.node),
        };
        let order = self.order.as_mut().expect("visit begun");
        order.result(eng, sc, &visited);
        self.at = RootStage::Next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e14_initial_priority() {
        assert_eq!(initial_priority(12, 1_000_000, 64, 0), Some(12));
        assert_eq!(initial_priority(12, 1_000_000, 4000, 0), Some(7));
        assert_eq!(initial_priority(12, 300_000, 100_000, 0), Some(6));
        assert_eq!(initial_priority(12, 1_000_000, 63, 0), None);
        assert_eq!(initial_priority(11, 1_000_000, 4000, 0), None);
        // At 1/64 of both sizes the share of the lists is that of the full-size machine.
        assert_eq!(
            initial_priority(12, 1_000_000 / 64, 4000 / 64 + 2, 6),
            Some(12)
        );
        assert_eq!(
            initial_priority(12, 1_000_000 / 64, 128_000 / 64, 6),
            Some(8)
        );
        assert_eq!(initial_priority(12, 1_000_000, 128_000, 0), Some(6));
    }
}
