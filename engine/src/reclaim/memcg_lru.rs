//! Root reclaim of multi-gen memcgs in the order of the memcg LRU (`mglru.md` 9 and 10).

use super::gen_loop::Cx;
use super::lruvec_loop::LruvecLoop;
use super::scan_control::{ScanControl, DEF_PRIORITY};
use super::work::{Answer, Work};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::memcg::{after_visit, before_visit, BeforeVisit, LruWalk};
use crate::mglru::EvictableTypes;

#[derive(Debug)]
enum At {
    Next,
    Lruvec(LruvecLoop),
    Slab { rotate: bool },
    End,
}

/// A walk over the old generation of memcgs.
#[derive(Debug)]
pub(crate) struct MemcgLruVisit {
    node: NodeId,
    walk: Option<LruWalk>,
    memcg: MemcgId,
    /// The memcg the walk stands on: it must not be released.
    held: Option<MemcgId>,
    at: At,
    /// kswapd counts this visit's pages apart and adds the earlier ones at the end.
    reclaimed_before: u64,
}

/// Position of the highest set bit, 1-based; 0 for 0.
fn fls(n: u64) -> i64 {
    i64::from(u64::BITS - n.leading_zeros())
}

/// Starting priority for a request of `nr_to_reclaim` pages (section 10); `None`: untouched. `shift`
/// is what the scale takes off a priority again when list sizes are shifted by it
/// (`workloads.md` 1.1): without it a small machine would start with its whole lists.
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

impl MemcgLruVisit {
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, node: NodeId, cpu: u16) -> Self {
        let mut visit = Self {
            node,
            walk: None,
            memcg: MemcgId::ROOT,
            held: None,
            at: At::End,
            reclaimed_before: sc.nr_reclaimed,
        };
        if !sc.may_writepage || !sc.may_unmap {
            return visit;
        }
        eng.lru_add_drain(cpu);
        let n = &eng.nodes[node.idx()];
        let mut reclaimable = n.lru_pages(LruList::InactiveFile);
        if sc.may_swap && eng.swap_free > 0 {
            reclaimable += n.lru_pages(LruList::InactiveAnon);
        }
        if let Some(p) = initial_priority(
            sc.priority,
            reclaimable,
            sc.nr_to_reclaim,
            eng.cfg.scale.shift,
        ) {
            sc.priority = p;
        }
        if sc.is_kswapd() {
            sc.nr_reclaimed = 0;
        } else {
            visit.reclaimed_before = 0;
        }
        visit.walk = Some(eng.nodes[node.idx()].memcg_lru.walk_begin());
        visit.at = At::Next;
        visit
    }

    /// Ends the walk early.
    pub(crate) fn stop(&mut self, eng: &mut Engine) {
        if let At::Lruvec(l) = &mut self.at {
            l.abandon(eng);
        }
        if let Some(walk) = &mut self.walk {
            eng.nodes[self.node.idx()].memcg_lru.walk_stop(walk);
        }
        self.hold(eng, None);
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

    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            match &mut self.at {
                At::Next => self.next(eng, cx),
                At::Lruvec(l) => {
                    if let Some(work) = l.step(eng, cx) {
                        return Some(work);
                    }
                    self.at = At::Slab { rotate: l.rotate() };
                    if eng.cfg.has_slab {
                        return Some(self.slab(cx.sc));
                    }
                }
                At::Slab { rotate } => {
                    let rotate = *rotate;
                    if eng.cfg.has_slab {
                        match cx.answer.take() {
                            Some(Answer::Slab(n)) => cx.sc.nr_reclaimed += n,
                            Some(_) => {}
                            None => return Some(self.slab(cx.sc)),
                        }
                    }
                    self.visited(eng, cx.sc, rotate);
                }
                At::End => {
                    if let Some(mut walk) = self.walk.take() {
                        eng.nodes[self.node.idx()].memcg_lru.walk_stop(&mut walk);
                        self.hold(eng, None);
                        let earlier = std::mem::take(&mut self.reclaimed_before);
                        if cx.sc.nr_reclaimed > 0 {
                            eng.nodes[self.node.idx()].kswapd_failures = 0;
                        }
                        cx.sc.nr_reclaimed += earlier;
                    }
                    return None;
                }
            }
        }
    }

    fn slab(&self, sc: &ScanControl) -> Work {
        Work::Slab {
            node: self.node,
            memcg: self.memcg,
            priority: sc.priority,
        }
    }

    fn next(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) {
        let walk = self.walk.as_mut().expect("walk begun");
        let lru = &mut eng.nodes[self.node.idx()].memcg_lru;
        let Some(memcg) = lru.walk_next(walk) else {
            self.at = At::End;
            return;
        };
        self.memcg = memcg;
        let seg = lru.seg(memcg);
        self.hold(eng, Some(memcg));
        eng.memcgs.calculate_protection(MemcgId::ROOT, memcg);
        let below_min = eng.memcgs.below_min(MemcgId::ROOT, memcg);
        let below_low = eng.memcgs.below_low(MemcgId::ROOT, memcg);
        match before_visit(below_min, below_low, seg) {
            BeforeVisit::Skip(op) => {
                let walk = self.walk.as_mut().expect("walk begun");
                walk.set_result(Some(op));
            }
            BeforeVisit::Shrink { low_event } => {
                if low_event {
                    eng.memcgs.event(memcg, Counter::EventsLow);
                }
                let lruvec = eng.lruvec_id(memcg, self.node);
                self.at = At::Lruvec(LruvecLoop::new(eng, cx.sc, lruvec, cx.cpu));
            }
        }
    }

    fn visited(&mut self, eng: &mut Engine, sc: &ScanControl, rotate: bool) {
        let lruvec = eng.lruvec_id(self.memcg, self.node);
        let types = EvictableTypes::of(eng.swappiness(sc, self.memcg));
        let size = eng.lruvecs[lruvec.idx()].gens().evictable_pages(types);
        let online = eng.memcgs[self.memcg].online();
        let sizable = if online {
            eng.cfg.scale.scan_share(size, sc.priority) != 0
        } else {
            size != 0
        };
        let seg = eng.nodes[self.node.idx()].memcg_lru.seg(self.memcg);
        let walk = self.walk.as_mut().expect("walk begun");
        walk.set_result(after_visit(rotate, online, sizable, seg));
        self.at = if eng.should_abort(sc, lruvec) {
            At::End
        } else {
            At::Next
        };
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
