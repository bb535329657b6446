//! One eviction from a multi-gen lruvec, as the loops before and after the series share it: isolate a
//! batch, send it through the folio path, put back what survives (`docs/rules/eviction.md`).

use super::cx::Cx;
use super::request::Reclaimed;
use super::scan_control::{ReclaimStat, ScanControl};
use super::work::Work;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{FolioId, LruType, LruvecId, MemcgId};
use crate::mglru::{EvictableTypes, MultiGen, MIN_NR_GENS};
use crate::node::ThrottleReason;
use crate::rules::Survivor;
use crate::scans::ScanEvent;
use arrayvec::ArrayVec;

/// Requests to the host that wait for their turn.
type Pending = ArrayVec<Work, 2>;

/// Evictions from one lruvec, one at a time.
#[derive(Debug)]
pub(crate) struct Eviction {
    pub(super) lruvec: LruvecId,
    pub(super) memcg: MemcgId,
    pub(super) swappiness: u16,
    pass: Option<Pass>,
    /// What the last eviction counts as, in pages.
    scanned: u64,
    /// Pages isolated by the last eviction, 0 on its retry pass.
    isolated: u64,
    lru_type: LruType,
    /// Survivors that became clean while they were isolated: tried once more.
    clean: Vec<FolioId>,
    survivors: Vec<FolioId>,
    pending: Pending,
}

/// A list on its way through the folio path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    First,
    Retry,
}

impl Eviction {
    /// The visit of a lruvec begins. Its memcg's protection has been computed.
    pub(super) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        eng.lru_add_drain(cpu);
        Self::without_drain(eng, sc, lruvec)
    }

    /// The same by a command, which leaves batches alone.
    pub(super) fn without_drain(eng: &Engine, sc: &mut ScanControl, lruvec: LruvecId) -> Self {
        sc.walk_context = sc.kind != super::ReclaimKind::Direct;
        let memcg = eng.memcg_of(lruvec);
        Self {
            lruvec,
            memcg,
            swappiness: eng.swappiness(sc, memcg),
            pass: None,
            scanned: 0,
            isolated: 0,
            lru_type: LruType::File,
            clean: Vec::new(),
            survivors: Vec::new(),
            pending: Pending::new(),
        }
    }

    /// What the last eviction counts as, in pages. 0: the loop is over.
    pub(super) fn scanned(&self) -> u64 {
        self.scanned
    }

    /// The generations of the lruvec.
    pub(super) fn gens<'a>(&self, eng: &'a Engine) -> &'a MultiGen {
        eng.lruvecs[self.lruvec].gens()
    }

    /// The types that may be evicted.
    pub(super) fn types(&self) -> EvictableTypes {
        EvictableTypes::of(self.swappiness)
    }

    /// Isolates up to `batch` folios. [`Self::step`] goes on from there.
    pub(super) fn begin(&mut self, eng: &mut Engine, cx: &mut Cx<'_>, batch: u64) {
        eng.meter.lock(self.lruvec);
        eng.memcgs.count(self.memcg, Counter::LruLockAcq, 1);
        if eng.rules.series.drops_generations_first() {
            eng.gen_try_inc_min_seq(self.lruvec, self.swappiness);
        }
        let list = &mut cx.list.input;
        list.clear();
        let got = eng.gen_isolate(self.lruvec, cx.sc, self.swappiness, batch, list);
        let dropped = eng.rules.series.drops_generations_after(got.scanned)
            && eng.gen_try_inc_min_seq(self.lruvec, self.swappiness);
        let m = self.gens(eng);
        let can_evict = m.min_seq_of(self.types()) + MIN_NR_GENS <= m.max_seq;
        self.scanned = eng.rules.series.progress(got.scanned, dropped, can_evict);
        self.isolated = got.isolated;
        self.lru_type = got.lru_type.unwrap_or(LruType::File);
        if !cx.list.input.is_empty() {
            cx.list.begin(cx.sc.target, false);
            let tail = self.gens(eng).next_victim(self.lru_type);
            cx.list.taken_before([tail, None]);
            self.pass = Some(Pass::First);
        }
    }

    /// The next request to the host; `None` once the eviction is over.
    pub(super) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            if let Some(work) = self.next_pending() {
                return Some(work);
            }
            let pass = self.pass?;
            if let Some(work) = cx.list.step(eng, cx.sc, cx.answer) {
                return Some(work);
            }
            self.pass = self.list_over(eng, cx, pass);
        }
    }

    /// One list is through: survivors go back, some are tried again.
    fn list_over(&mut self, eng: &mut Engine, cx: &mut Cx<'_>, pass: Pass) -> Option<Pass> {
        let retried = pass == Pass::Retry;
        let stat = cx.list.stat;
        eng.log_scan(cx.sc, ScanEvent::shrunk(cx.sc, &stat));
        cx.sc.nr_reclaimed += stat.reclaimed;
        self.survivors.clear();
        self.clean.clear();
        for i in 0..cx.list.ret.len() {
            let id = cx.list.ret[i];
            if !eng.folios[id].evictable() {
                eng.put_back_generic(cx.cpu, id);
            } else if self.try_again(eng, id, retried) {
                self.clean.push(id);
            } else {
                self.survivors.push(id);
            }
        }
        eng.put_back(cx.cpu, self.lruvec, &self.survivors);
        let freed = stat.reclaimed;
        eng.count_reclaim(self.lruvec, cx.sc, Reclaimed::Steal, self.lru_type, freed);
        self.writeback_feedback(eng, cx.sc, retried, &stat);
        if self.clean.is_empty() || retried {
            return None;
        }
        self.isolated = 0;
        cx.list.input.clear();
        cx.list.input.append(&mut self.clean);
        cx.list.begin(cx.sc.target, false);
        Some(Pass::Retry)
    }

    /// True: try again (its rotation may have been missed while it was isolated). Otherwise the
    /// folio is ready to be put back, not into the oldest generation.
    fn try_again(&self, eng: &mut Engine, id: FolioId, retried: bool) -> bool {
        let m = eng.lruvecs[self.lruvec].gens();
        let f = &mut eng.folios[id];
        let t = f.lru_type();
        let enters = (eng.rules.kernel.entry)(m, f.word(), t, false);
        let known = Survivor {
            mapped: f.mapped(),
            retried,
            enters_oldest: enters == m.min_seq[t.idx()],
        };
        (eng.rules.kernel.survivor)(f.word_mut(), known)
    }

    /// What a list says about dirty memory (`docs/rules/writeback.md`).
    fn writeback_feedback(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        retried: bool,
        stat: &ReclaimStat,
    ) {
        if eng
            .rules
            .series
            .list_wants_flushers(stat, self.isolated, retried)
        {
            self.pending = self.wake_flushers(eng, sc);
        }
        eng.rules
            .series
            .sum_list(&mut sc.nr, stat, self.lru_type, self.isolated);
    }

    /// The loop ends, for whatever reason: one look at whether all files that it met were dirty.
    /// [`Self::next_pending`] has what the host is then asked.
    pub(super) fn end_of_loop(&mut self, eng: &mut Engine, sc: &ScanControl) {
        if eng.rules.series.loop_wants_flushers(&sc.nr) {
            self.pending = self.wake_flushers(eng, sc);
        }
    }

    /// A request that has waited for its turn.
    pub(super) fn next_pending(&mut self) -> Option<Work> {
        self.pending.pop_at(0)
    }

    /// The task is killed: it asks for nothing more.
    pub(super) fn abandon(&mut self) {
        self.pending.clear();
    }

    /// Asks for the flushers; under cgroup v1, limit reclaim sleeps until they have written something.
    fn wake_flushers(&self, eng: &mut Engine, sc: &ScanControl) -> Pending {
        let mut pending = Pending::new();
        pending.push(Work::WakeFlushers);
        eng.memcgs.count(self.memcg, Counter::FlusherWakeups, 1);
        let balanced = sc.target.is_none() || eng.config().cgroup_v2;
        if !balanced {
            let node = eng.lruvecs[self.lruvec].node;
            let ticks = eng.config().hz / 10;
            pending.push(eng.throttle(sc, ThrottleReason::Writeback, node, ticks));
        }
        pending
    }
}
