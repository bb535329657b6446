//! One lruvec with active and inactive lists (`docs/rules/classic.md`).

use super::cx::Cx;
use super::request::Reclaimed;
use super::scan_control::{ScanControl, DEF_PRIORITY, SWAP_CLUSTER_MAX};
use super::work::{Answer, References, Work};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::{Flags, List};
use crate::ids::{FolioId, LruType, LruvecId, MemcgId};
use crate::lruvec::{LruList, LruvecLists};
use crate::node::ThrottleReason;
use crate::scans::ScanEvent;
use arrayvec::ArrayVec;

#[derive(Debug)]
enum ClassicStage {
    /// Next list of the round.
    Next,
    /// An inactive batch may have to wait first.
    Inactive {
        list: LruList,
        k: u64,
        waited: bool,
    },
    /// An inactive batch is on its way.
    Shrinking(LruList),
    /// An active batch is looked through, this many folios of it so far.
    Deactivating(LruList, usize),
    /// All rounds done: the anonymous lists are rebalanced.
    Rebalance,
    /// Nothing but some deactivation of anonymous memory (kswapd's aging).
    Age,
    End,
}

/// The reclaim of one lruvec.
#[derive(Debug)]
pub(crate) struct ClassicLoop {
    lruvec: LruvecId,
    memcg: MemcgId,
    nr: [u64; 4],
    targets: [u64; 4],
    /// Position in the round.
    nth: usize,
    /// Pages freed here.
    reclaimed: u64,
    /// Scan everything that was planned, whatever has been freed.
    whole: bool,
    last: bool,
    at: ClassicStage,
    taken: u64,
    scanned: u64,
    /// Folios of an active batch.
    active: Vec<FolioId>,
    keep_active: Vec<FolioId>,
    to_inactive: Vec<FolioId>,
    pending: ArrayVec<Work, 2>,
}

impl ClassicLoop {
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId) -> Self {
        let nr = eng.get_scan_count(sc, lruvec);
        let whole = sc.target.is_none() && !sc.is_kswapd() && sc.priority == DEF_PRIORITY;
        Self {
            whole,
            ..Self::with_targets(eng, lruvec, nr, ClassicStage::Next)
        }
    }

    fn with_targets(eng: &Engine, lruvec: LruvecId, nr: [u64; 4], at: ClassicStage) -> Self {
        Self {
            lruvec,
            memcg: eng.memcg_of(lruvec),
            nr,
            targets: nr,
            nth: 0,
            reclaimed: 0,
            whole: false,
            last: false,
            at,
            taken: 0,
            scanned: 0,
            active: Vec::new(),
            keep_active: Vec::new(),
            to_inactive: Vec::new(),
            pending: ArrayVec::new(),
        }
    }

    /// kswapd's aging (`docs/rules/zones.md#kswapd`): 32 active anonymous pages are looked through.
    pub(crate) fn aging(eng: &Engine, lruvec: LruvecId) -> Self {
        Self::with_targets(eng, lruvec, [0; 4], ClassicStage::Age)
    }

    /// The task is being killed; what was isolated has gone back.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        if let ClassicStage::Shrinking(list) = self.at {
            eng.resize_isolated(self.lruvec, list.lru_type(), -(self.taken as i64));
        }
        self.at = ClassicStage::End;
    }

    /// The next request to the host; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            if let Some(work) = self.pending.pop_at(0) {
                return Some(work);
            }
            match self.at {
                ClassicStage::Next => self.next_list(eng, cx),
                ClassicStage::Inactive { list, k, waited } => {
                    if self.too_many_isolated(eng, cx.sc, list.lru_type()) {
                        if waited {
                            self.at = ClassicStage::Next;
                            continue;
                        }
                        self.at = ClassicStage::Inactive {
                            list,
                            k,
                            waited: true,
                        };
                        let node = eng.lruvecs[self.lruvec].node;
                        let ticks = eng.config().hz / 50;
                        return Some(eng.throttle(cx.sc, ThrottleReason::Isolated, node, ticks));
                    }
                    self.shrink_inactive(eng, cx, list, k);
                    let reason = ThrottleReason::Isolated;
                    let node = eng.lruvecs[self.lruvec].node;
                    if eng.nodes[node.idx()].sleeping(reason) > 0 && self.heeds_isolated(eng, cx.sc)
                    {
                        return Some(Work::WakeThrottled { reason, node });
                    }
                }
                ClassicStage::Shrinking(list) => {
                    if let Some(work) = cx.list.step(eng, cx.sc, cx.answer) {
                        return Some(work);
                    }
                    self.inactive_over(eng, cx, list);
                }
                ClassicStage::Deactivating(list, i) => {
                    if let Some(work) = self.deactivate_step(eng, cx, list, i) {
                        return Some(work);
                    }
                }
                ClassicStage::Rebalance => {
                    let node = eng.lruvecs[self.lruvec].node;
                    let anon_low = eng.memcg_inactive_is_low(self.memcg, node, LruType::Anon);
                    self.last = true;
                    self.at = ClassicStage::End;
                    if eng.swap_total() > 0 && anon_low {
                        self.shrink_active(eng, cx, LruList::ActiveAnon, SWAP_CLUSTER_MAX);
                    }
                }
                ClassicStage::Age => {
                    self.last = true;
                    self.shrink_active(eng, cx, LruList::ActiveAnon, SWAP_CLUSTER_MAX);
                }
                ClassicStage::End => return None,
            }
        }
    }

    // ------------------------------------------------------------ scan of an lruvec

    fn next_list(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) {
        if self.last {
            self.at = ClassicStage::End;
            return;
        }
        while self.nth < LruList::EVICTABLE.len() {
            let list = LruList::EVICTABLE[self.nth];
            if self.nth == 0 && !self.more() {
                break;
            }
            self.nth += 1;
            let left = &mut self.nr[list.idx()];
            if *left == 0 {
                continue;
            }
            let k = (*left).min(SWAP_CLUSTER_MAX);
            *left -= k;
            if list.is_active() {
                if cx.sc.may_deactivate[list.lru_type().idx()] {
                    self.shrink_active(eng, cx, list, k);
                    return;
                }
                cx.sc.skipped_deactivate = true;
            } else {
                self.at = ClassicStage::Inactive {
                    list,
                    k,
                    waited: false,
                };
                return;
            }
        }
        let round_done = self.nth == LruList::EVICTABLE.len();
        self.nth = 0;
        if !round_done || !self.more() {
            self.finish(cx.sc);
            return;
        }
        if self.reclaimed < cx.sc.nr_to_reclaim || self.whole {
            return;
        }
        self.stop_smaller_side(cx.sc);
    }

    /// The active anonymous list alone does not keep the loop going.
    fn more(&self) -> bool {
        self.nr[LruList::InactiveAnon.idx()] > 0
            || self.nr[LruList::ActiveFile.idx()] > 0
            || self.nr[LruList::InactiveFile.idx()] > 0
    }

    /// The target is met: the side with less left stops, the other is cut to the same proportion.
    /// Happens once: one side has nothing left when the next round is over.
    fn stop_smaller_side(&mut self, sc: &mut ScanControl) {
        let side = |v: &[u64; 4], t: usize| v[2 * t] + v[2 * t + 1];
        let (anon, file) = (side(&self.nr, 0), side(&self.nr, 1));
        if anon == 0 || file == 0 {
            self.finish(sc);
            return;
        }
        let (small, left) = if file > anon { (0, anon) } else { (1, file) };
        let percent = left * 100 / (side(&self.targets, small) + 1);
        for i in [2 * small, 2 * small + 1] {
            self.nr[i] = 0;
        }
        let big = 1 - small;
        for i in [2 * big, 2 * big + 1] {
            let done = self.targets[i] - self.nr[i];
            self.nr[i] = self.targets[i] * (100 - percent) / 100;
            self.nr[i] -= self.nr[i].min(done);
        }
    }

    fn finish(&mut self, sc: &mut ScanControl) {
        sc.nr_reclaimed += self.reclaimed;
        self.at = ClassicStage::Rebalance;
    }

    // ------------------------------------------------------------ isolation

    /// Takes up to `nr` pages off the tail. Returns pages looked at.
    fn isolate(
        &mut self,
        eng: &mut Engine,
        sc: &ScanControl,
        list: LruList,
        nr: u64,
        out: &mut Vec<FolioId>,
    ) -> u64 {
        eng.meter.lock(self.lruvec);
        eng.memcgs.count(self.memcg, Counter::LruLockAcq, 1);
        out.clear();
        self.taken = 0;
        let (mut scan, mut total, mut folios) = (0, 0, 0);
        let mut parked: Vec<FolioId> = Vec::new();
        while scan < nr {
            let LruvecLists::Classic(lists) = &mut eng.lruvecs[self.lruvec].lists else {
                unreachable!("classic loop on another policy");
            };
            let l = &mut lists.lists[list.idx()];
            let Some(id) = l.tail() else { break };
            let n = eng.folios[id].nr_pages();
            // The next one is looked at as soon as this one is off the list.
            eng.folios.prefetch_newer(id);
            total += n;
            folios += 1;
            if eng.folios[id].zone() > sc.reclaim_idx {
                l.remove(&mut eng.folios, id);
                parked.push(id);
                eng.count_global(Counter::Pgskip, n as i64);
                continue;
            }
            scan += n;
            let f = &mut eng.folios[id];
            if !f.can_isolate() || (f.mapped() && !sc.may_unmap) {
                l.remove(&mut eng.folios, id);
                l.push_head(&mut eng.folios, id);
                continue;
            }
            f.isolate();
            eng.lruvec_del(id, true);
            self.taken += n;
            out.push(id);
        }
        if let LruvecLists::Classic(lists) = &mut eng.lruvecs[self.lruvec].lists {
            for id in parked {
                lists.lists[list.idx()].push_head(&mut eng.folios, id);
            }
        }
        eng.meter.scanned += folios;
        let event = ScanEvent::Isolated {
            list,
            asked: nr,
            scanned: total,
            taken: self.taken,
        };
        eng.log_scan(sc, event);
        total
    }

    // ------------------------------------------------------------ inactive scan

    /// The reclaimer takes part in the ISOLATED throttle: it may have to wait, and wakes those who
    /// do when it need not.
    fn heeds_isolated(&self, eng: &Engine, sc: &ScanControl) -> bool {
        !sc.is_kswapd() && (sc.target.is_none() || eng.config().cgroup_v2)
    }

    fn too_many_isolated(&self, eng: &Engine, sc: &ScanControl, t: LruType) -> bool {
        if !self.heeds_isolated(eng, sc) {
            return false;
        }
        let node = &eng.nodes[eng.lruvecs[self.lruvec].node.idx()];
        let inactive = node.lru_pages(LruList::of(t, false));
        too_many_isolated(inactive, node.isolated(t), sc.io && sc.fs)
    }

    fn shrink_inactive(&mut self, eng: &mut Engine, cx: &mut Cx<'_>, list: LruList, k: u64) {
        eng.lru_add_drain(cx.cpu);
        let t = list.lru_type();
        let mut input = std::mem::take(&mut cx.list.input);
        self.scanned = self.isolate(eng, cx.sc, list, k, &mut input);
        cx.list.input = input;
        eng.resize_isolated(self.lruvec, t, self.taken as i64);
        eng.count_reclaim(self.lruvec, cx.sc, Reclaimed::Scan, t, self.scanned);
        if self.taken == 0 {
            self.at = ClassicStage::Next;
            return;
        }
        cx.list.begin(cx.sc.target, false);
        if let LruvecLists::Classic(lists) = &eng.lruvecs[self.lruvec].lists {
            let lists = [list, LruList::of(t, true)].map(|list| &lists.lists[list.idx()]);
            cx.list.taken_before(lists.map(List::tail));
        }
        self.at = ClassicStage::Shrinking(list);
    }

    fn inactive_over(&mut self, eng: &mut Engine, cx: &mut Cx<'_>, list: LruList) {
        let t = list.lru_type();
        let stat = cx.list.stat;
        eng.log_scan(cx.sc, ScanEvent::shrunk(cx.sc, &stat));
        eng.put_back(cx.cpu, self.lruvec, &cx.list.ret);
        let node = eng.lruvecs[self.lruvec].node;
        eng.resize_isolated(self.lruvec, t, -(self.taken as i64));
        eng.count_reclaim(self.lruvec, cx.sc, Reclaimed::Steal, t, stat.reclaimed);
        eng.note_cost(self.lruvec, t, stat.pageout, self.scanned - stat.reclaimed);
        self.reclaimed += stat.reclaimed;
        if stat.unqueued_dirty == self.taken {
            self.pending.push(Work::WakeFlushers);
            eng.memcgs.count(self.memcg, Counter::FlusherWakeups, 1);
            if cx.sc.target.is_some() && !eng.config().cgroup_v2 {
                let ticks = eng.config().hz / 10;
                self.pending
                    .push(eng.throttle(cx.sc, ThrottleReason::Writeback, node, ticks));
            }
        }
        let nr = &mut cx.sc.nr;
        nr.dirty += stat.dirty;
        nr.congested += stat.congested;
        nr.writeback += stat.writeback;
        nr.immediate += stat.immediate;
        nr.taken += self.taken;
        if eng.rules.series.sums_dirty {
            nr.unqueued_dirty += stat.unqueued_dirty;
            if t == LruType::File {
                nr.file_taken += self.taken;
            }
        }
        self.at = ClassicStage::Next;
    }

    // ------------------------------------------------------------ active scan

    fn shrink_active(&mut self, eng: &mut Engine, cx: &mut Cx<'_>, list: LruList, k: u64) {
        eng.lru_add_drain(cx.cpu);
        let mut active = std::mem::take(&mut self.active);
        let total = self.isolate(eng, cx.sc, list, k, &mut active);
        self.active = active;
        eng.resize_isolated(self.lruvec, list.lru_type(), self.taken as i64);
        eng.memcgs
            .count(self.memcg, Counter::Pgrefill, total as i64);
        if cx.sc.target.is_none() {
            eng.count_global(Counter::Pgrefill, total as i64);
        }
        self.keep_active.clear();
        self.to_inactive.clear();
        self.at = ClassicStage::Deactivating(list, 0);
    }

    /// Looks at one folio of the batch, oldest first.
    fn deactivate_step(
        &mut self,
        eng: &mut Engine,
        cx: &mut Cx<'_>,
        list: LruList,
        i: usize,
    ) -> Option<Work> {
        let Some(&id) = self.active.get(i) else {
            self.active_over(eng, cx, list);
            return None;
        };
        let f = &eng.folios[id];
        if !f.evictable() {
            eng.put_back_generic(cx.cpu, id);
            self.at = ClassicStage::Deactivating(list, i + 1);
            return None;
        }
        let r = match cx.answer.take() {
            Some(Answer::References(r)) => r,
            Some(other) => panic!("answer {other:?} does not fit a reference test"),
            None if f.mapped() => {
                return Some(Work::Test {
                    folio: id,
                    target: cx.sc.target,
                    look_around: None,
                })
            }
            None => References::default(),
        };
        let f = &mut eng.folios[id];
        let referenced = r.accessed > 0 || r.unknown || r.locked;
        if referenced && r.exec && f.lru_type() == LruType::File {
            self.keep_active.push(id);
        } else {
            f.clear(Flags::ACTIVE);
            f.set(Flags::WORKINGSET);
            self.to_inactive.push(id);
        }
        self.at = ClassicStage::Deactivating(list, i + 1);
        None
    }

    fn active_over(&mut self, eng: &mut Engine, cx: &mut Cx<'_>, list: LruList) {
        let t = list.lru_type();
        let rotated: u64 = self
            .keep_active
            .iter()
            .map(|&id| eng.folios[id].nr_pages())
            .sum();
        eng.put_back(cx.cpu, self.lruvec, &self.keep_active);
        let moved = eng.put_back(cx.cpu, self.lruvec, &self.to_inactive);
        eng.count(
            eng.memcg_of(self.lruvec),
            Counter::Pgdeactivate,
            moved as i64,
        );
        eng.resize_isolated(self.lruvec, t, -(self.taken as i64));
        if rotated > 0 {
            eng.note_cost(self.lruvec, t, 0, rotated);
        }
        self.at = ClassicStage::Next;
    }
}

impl Engine {
    /// Folios of a type leave for reclaim or come back: the node's figure and its gauge.
    fn resize_isolated(&mut self, lruvec: LruvecId, t: LruType, pages: i64) {
        let node = self.lruvecs[lruvec].node.idx();
        self.nodes[node].resize_isolated(t, pages);
        let gauge = [Counter::IsolatedAnon, Counter::IsolatedFile][t.idx()];
        self.count_global(gauge, pages);
    }
}

/// Isolated pages outnumber the inactive list, or its eighth for callers that could wait
/// (`docs/rules/classic.md#inactive-scan`).
pub fn too_many_isolated(inactive: u64, isolated: u64, io_and_fs: bool) -> bool {
    isolated > if io_and_fs { inactive / 8 } else { inactive }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c7_too_many_isolated() {
        assert!(too_many_isolated(800, 101, true));
        assert!(!too_many_isolated(800, 101, false));
    }
}
