//! One multi-gen lruvec: the reclaim loop before and after the series, and one eviction
//! (`mglru.md` 7.1, 8 and 11).

use super::scan_control::{ScanControl, SWAP_CLUSTER_MAX};
use super::shrink_list::ShrinkList;
use super::work::{Answer, Work};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId, MemcgId};
use crate::memcg::scale_by_protection;
use crate::mglru::refs::clear_refs;
use crate::mglru::walk::{AgingStep, AgingTask};
use crate::mglru::{EvictableTypes, MultiGen, ANON_ONLY, MIN_LRU_BATCH, MIN_NR_GENS};
use crate::node::{ThrottleReason, MAX_RECLAIM_RETRIES};
use crate::reclaim::scan_control::DEF_PRIORITY;
use crate::switches::{BudgetFloor, MinSeqFlush};
use arrayvec::ArrayVec;

/// Where the loop stands.
#[derive(Debug)]
enum At {
    /// Take the fixed budget (after the series).
    FixedBudget,
    /// Top of a round.
    Round,
    /// A walk is under way.
    Aging(AgingTask),
    /// Isolate and begin a list.
    Evict,
    /// The list is being worked through.
    Shrinking { retry: bool },
    /// One eviction is over.
    Evicted,
    /// The loop is over.
    End,
}

/// The reclaim of one lruvec.
#[derive(Debug)]
pub(crate) struct GenLoop {
    lruvec: LruvecId,
    memcg: MemcgId,
    swappiness: u16,
    at: At,
    /// Pages still to scan (after the series) or to scan in all (before).
    budget: i64,
    /// Pages scanned so far (before the series).
    total: i64,
    /// Result of the last eviction.
    scanned: u64,
    /// Pages isolated by the last eviction, 0 on its retry pass.
    isolated: u64,
    lru_type: LruType,
    rotate: bool,
    aged: bool,
    /// Aging has opened a generation.
    opened: bool,
    /// The vendor hook is aging in place of taking a budget.
    hooked: bool,
    /// Pages scanned since one was last freed, and pages freed by then.
    fruitless: u64,
    freed: u64,
    /// Survivors that became clean while isolated: tried once more.
    clean: Vec<FolioId>,
    survivors: Vec<FolioId>,
    /// Requests to make before going on.
    pending: ArrayVec<Work, 3>,
    /// A debug command: a single eviction of so many folios at most.
    once: Option<u64>,
}

/// What a pass of the loop needs to know beyond the lruvec.
pub(crate) struct Cx<'a> {
    pub(crate) sc: &'a mut ScanControl,
    pub(crate) list: &'a mut ShrinkList,
    pub(crate) answer: &'a mut Option<Answer>,
    pub(crate) cpu: u16,
}

impl GenLoop {
    /// Begins the reclaim of a lruvec whose memcg's protection has been computed.
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        eng.lru_add_drain(cpu);
        sc.walk_context = sc.kind != super::ReclaimKind::Direct;
        let memcg = eng.lruvecs[lruvec.idx()].memcg;
        Self {
            lruvec,
            memcg,
            swappiness: eng.swappiness(sc, memcg),
            at: if eng.sw.scan_budget {
                At::FixedBudget
            } else {
                At::Round
            },
            budget: 0,
            total: 0,
            scanned: 0,
            isolated: 0,
            lru_type: LruType::File,
            rotate: false,
            aged: false,
            opened: false,
            hooked: false,
            fruitless: 0,
            freed: sc.nr_reclaimed,
            clean: Vec::new(),
            survivors: Vec::new(),
            pending: ArrayVec::new(),
            once: None,
        }
    }

    /// A single eviction of at most `batch` folios, whatever the budget (section 10, debug commands).
    pub(crate) fn once(
        eng: &mut Engine,
        sc: &mut ScanControl,
        lruvec: LruvecId,
        cpu: u16,
        batch: u64,
    ) -> Self {
        Self {
            at: At::Evict,
            once: Some(batch),
            ..Self::new(eng, sc, lruvec, cpu)
        }
    }

    /// Its task is being killed.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        if let At::Aging(task) = &mut self.at {
            task.abandon(eng);
        }
        self.at = At::End;
    }

    /// Pages that the last eviction scanned.
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned
    }

    /// Should the memcg go to the young end of the memcg LRU? Valid at the end.
    pub(crate) fn rotate(&self) -> bool {
        self.rotate
    }

    /// Aging on the way to eviction has opened a generation.
    pub(crate) fn opened_generation(&self) -> bool {
        self.opened
    }

    /// Goes on; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            if let Some(work) = self.pending.pop_at(0) {
                return Some(work);
            }
            match &mut self.at {
                At::FixedBudget => self.take_budget(eng, cx.sc),
                At::Round if eng.sw.scan_budget => self.round_after(eng, cx.sc),
                At::Round => self.round_before(eng, cx.sc),
                At::Aging(task) => match task.step(eng, cx.answer.take()) {
                    AgingStep::Walk(w) => return Some(Work::Walk(w)),
                    AgingStep::Wait => return Some(Work::Spin),
                    AgingStep::Done(made) => self.aging_over(eng, cx.sc, made),
                },
                At::Evict => self.isolate(eng, cx),
                At::Shrinking { .. } => {
                    if let Some(work) = cx.list.step(eng, cx.sc, cx.answer) {
                        return Some(work);
                    }
                    self.list_over(eng, cx);
                }
                At::Evicted => self.evicted(eng, cx.sc),
                At::End => return None,
            }
        }
    }

    // ------------------------------------------------------------ budgets

    fn gens<'a>(&self, eng: &'a Engine) -> &'a MultiGen {
        eng.lruvecs[self.lruvec.idx()].gens()
    }

    /// `protection(n)` of section 8.
    fn protected_budget(&self, eng: &Engine, sc: &mut ScanControl, n: u64) -> u64 {
        let scales = eng.sw.proportional_protection && !eng.sw.mut_no_protection;
        if !scales || sc.target == Some(self.memcg) {
            return n;
        }
        let c = eng.memcgs[self.memcg].memory();
        let (min, low) = (c.emin(), c.elow());
        if min == 0 && low == 0 {
            return n;
        }
        let (scaled, low_skipped) = scale_by_protection(n, c.usage(), min, low, sc.low_reclaim);
        sc.low_skipped |= low_skipped;
        scaled
    }

    /// The budget of the whole loop, once.
    fn take_budget(&mut self, eng: &Engine, sc: &mut ScanControl) {
        let types = EvictableTypes::of(self.swappiness);
        if eng.sw.mut_aging_hook && self.must_age(eng, sc, types) {
            self.hooked = true;
            let max_seq = self.gens(eng).max_seq;
            self.at = At::Aging(AgingTask::new(self.lruvec, max_seq, types));
            return;
        }
        self.budget = self.fixed_budget(eng, sc) as i64;
        self.budget_taken(eng);
    }

    fn budget_taken(&mut self, eng: &Engine) {
        if self.budget == 0 && eng.sw.rotate_on_empty_budget {
            self.rotate = true;
        }
        self.at = At::Round;
    }

    /// 11.1 `should_run_aging`.
    fn must_age(&self, eng: &Engine, sc: &ScanControl, types: EvictableTypes) -> bool {
        let m = self.gens(eng);
        let left = m.min_seq_of(types) + MIN_NR_GENS;
        let normal = sc.priority < DEF_PRIORITY || eng.sw.mut_no_defprio_return;
        left > m.max_seq || (normal && left == m.max_seq)
    }

    /// Anonymous memory only was asked for, and none can be swapped (12.3).
    fn wants_what_cannot_go(&self, eng: &Engine, sc: &ScanControl) -> bool {
        eng.sw.anon_only_strict && self.swappiness == ANON_ONLY && !eng.can_swap(sc, self.memcg)
    }

    /// 11.1 `get_nr_to_scan`.
    fn fixed_budget(&self, eng: &Engine, sc: &mut ScanControl) -> u64 {
        if self.wants_what_cannot_go(eng, sc) {
            return 0;
        }
        let e = self
            .gens(eng)
            .evictable_pages(EvictableTypes::of(self.swappiness));
        if !eng.memcgs[self.memcg].online() {
            return e;
        }
        let n = self.protected_budget(eng, sc, e);
        let n = eng.cfg.scale.scan_share(n, sc.priority);
        match eng.sw.budget_floor {
            BudgetFloor::None => n,
            BudgetFloor::V2 => n.max(SWAP_CLUSTER_MAX),
            BudgetFloor::V5 if n == 0 && sc.priority < DEF_PRIORITY => e.min(SWAP_CLUSTER_MAX),
            BudgetFloor::V5 => n,
        }
    }

    fn below_min(&self, eng: &Engine, sc: &ScanControl) -> bool {
        eng.memcgs
            .below_min(sc.target.unwrap_or(MemcgId::ROOT), self.memcg)
    }

    /// One round of the loop after the series.
    fn round_after(&mut self, eng: &Engine, sc: &ScanControl) {
        if self.budget <= 0 {
            self.at = At::End;
            return;
        }
        if self.below_min(eng, sc) {
            self.rotate = true;
            self.at = At::End;
            return;
        }
        let types = EvictableTypes::of(self.swappiness);
        let m = self.gens(eng);
        if eng.sw.mut_budget_clobber && m.min_seq_of(types) + MIN_NR_GENS <= m.max_seq {
            // The test for aging looks at the size and writes it where the loop keeps its budget.
            self.budget = m.evictable_pages(types) as i64;
        }
        if self.must_age(eng, sc, types) {
            self.at = At::Aging(AgingTask::new(self.lruvec, m.max_seq, types));
        } else {
            self.at = At::Evict;
        }
    }

    /// One round of the loop before the series.
    fn round_before(&mut self, eng: &mut Engine, sc: &mut ScanControl) {
        if self.below_min(eng, sc) {
            self.rotate = true;
            return self.set_round_budget(eng, sc, 0);
        }
        if self.wants_what_cannot_go(eng, sc) {
            return self.set_round_budget(eng, sc, 0);
        }
        let types = EvictableTypes::of(self.swappiness);
        let m = self.gens(eng);
        let (age, size) = should_run_aging(m, types, eng.sw.is_612());
        if size > 0 && !eng.memcgs[self.memcg].online() {
            return self.set_round_budget(eng, sc, size);
        }
        let n = self.protected_budget(eng, sc, size);
        if !age || sc.priority == DEF_PRIORITY {
            let n = eng.cfg.scale.scan_share(n, sc.priority);
            return self.set_round_budget(eng, sc, n);
        }
        self.at = At::Aging(AgingTask::new(self.lruvec, m.max_seq, types));
    }

    fn set_round_budget(&mut self, eng: &mut Engine, sc: &ScanControl, n: u64) {
        self.budget = n as i64;
        if n == 0 {
            self.finish_before(eng, sc);
        } else {
            self.at = At::Evict;
        }
    }

    fn aging_over(&mut self, eng: &mut Engine, sc: &mut ScanControl, made: bool) {
        sc.walk_context = true;
        self.opened |= made;
        if std::mem::take(&mut self.hooked) {
            self.budget = if made { -1 } else { 0 };
            self.budget_taken(eng);
        } else if eng.sw.scan_budget {
            self.rotate |= made;
            self.aged = true;
            if !eng.sw.no_abort_after_aging && sc.root_reclaim() {
                eng.memcgs.count(self.memcg, Counter::AbortAfterAging, 1);
                self.at = At::End;
            } else {
                self.at = At::Evict;
            }
        } else {
            self.rotate = made;
            eng.memcgs.count(self.memcg, Counter::AbortAfterAging, 1);
            self.finish_before(eng, sc);
        }
    }

    // ------------------------------------------------------------ one eviction

    fn isolate(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) {
        let whole = eng.cfg.scale.max_lru_batch;
        let batch = if let Some(batch) = self.once {
            batch
        } else if !eng.sw.scan_budget {
            whole
        } else if eng.sw.smaller_batch {
            (self.budget as u64).min(MIN_LRU_BATCH)
        } else {
            (self.budget as u64).min(whole)
        };
        eng.meter.lock(self.lruvec);
        eng.memcgs.count(self.memcg, Counter::LruLockAcq, 1);
        if eng.sw.min_seq_flush != MinSeqFlush::After {
            eng.gen_try_inc_min_seq(self.lruvec, self.swappiness);
        }
        cx.list.input.clear();
        let got = eng.gen_isolate(
            self.lruvec,
            cx.sc,
            self.swappiness,
            batch,
            &mut cx.list.input,
        );
        self.scanned = got.scanned;
        self.isolated = got.isolated;
        self.lru_type = got.lru_type.unwrap_or(LruType::File);
        let flush_after = match eng.sw.min_seq_flush {
            MinSeqFlush::After => true,
            MinSeqFlush::Before => false,
            MinSeqFlush::Both => got.scanned > 0,
        };
        let dropped = flush_after && eng.gen_try_inc_min_seq(self.lruvec, self.swappiness);
        if !eng.sw.exact_scan_count {
            self.scanned += u64::from(dropped);
            let m = self.gens(eng);
            if m.min_seq_of(EvictableTypes::of(self.swappiness)) + MIN_NR_GENS > m.max_seq {
                self.scanned = 0;
            }
        }
        if cx.list.input.is_empty() {
            self.at = At::Evicted;
            return;
        }
        cx.list.begin(cx.sc.target, false);
        self.at = At::Shrinking { retry: false };
    }

    /// One list is through: survivors go back, some are tried again.
    fn list_over(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) {
        let retry = matches!(self.at, At::Shrinking { retry: true });
        let stat = cx.list.stat;
        cx.sc.nr_reclaimed += stat.reclaimed;
        self.survivors.clear();
        self.clean.clear();
        for i in 0..cx.list.ret.len() {
            let id = cx.list.ret[i];
            if !eng.folios[id].evictable() {
                eng.put_back_generic(cx.cpu, id);
            } else if self.sort_survivor(eng, id, retry) {
                self.clean.push(id);
            } else {
                self.survivors.push(id);
            }
        }
        eng.put_back(cx.cpu, self.lruvec, &self.survivors);
        eng.count_steal(self.lruvec, cx.sc, self.lru_type, stat.reclaimed);
        self.writeback_feedback(eng, cx.sc, retry, &stat);
        if self.clean.is_empty() || retry {
            self.at = At::Evicted;
            return;
        }
        self.isolated = 0;
        cx.list.input.clear();
        cx.list.input.append(&mut self.clean);
        cx.list.begin(cx.sc.target, false);
        self.at = At::Shrinking { retry: true };
    }

    /// True: try again (its rotation may have been missed while it was isolated). Otherwise the
    /// folio is readied to be put back, not into the oldest generation.
    fn sort_survivor(&self, eng: &mut Engine, id: FolioId, retry: bool) -> bool {
        let v612 = eng.sw.is_612();
        let f = &mut eng.folios[id];
        let busy = Flags::DIRTY | Flags::WRITEBACK;
        if v612 {
            if f.has(Flags::RECLAIM) && f.any(busy) {
                if f.has(Flags::WORKINGSET) {
                    f.word.set(Flags::REFERENCED);
                }
                return false;
            }
            let used =
                f.mapped() || f.any(Flags::ACTIVE | Flags::LOCKED | Flags::REFERENCED | busy);
            if retry || used {
                clear_refs(&mut f.word);
                f.word.set(Flags::ACTIVE);
                return false;
            }
            return true;
        }
        if !retry && !f.mapped() && !f.any(Flags::ACTIVE | busy) {
            return true;
        }
        let m = eng.lruvecs[self.lruvec.idx()].gens();
        let f = &mut eng.folios[id];
        let t = f.lru_type();
        if crate::mglru::insert::entry_seq(m, f.word, t, false, false) == m.min_seq[t.idx()] {
            f.word.set_refs(0);
            f.word.clear(Flags::REFERENCED);
            f.word.set(Flags::ACTIVE);
        }
        false
    }

    /// `shrink-folio-list.md` 7.1, in the form each patch of the series left it.
    fn writeback_feedback(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        retry: bool,
        stat: &super::shrink_list::ReclaimStat,
    ) {
        let sw = &eng.sw;
        if sw.flush_in_loop && !(retry && sw.retry_skips_writeback) {
            let taken = self.isolated;
            if taken != 0 && stat.unqueued_dirty == taken {
                self.wake_flushers(eng, sc);
            }
        } else if sw.common_dirty_reactivation && !sw.flush_in_loop && !sw.mut_counters_dropped {
            if self.lru_type == LruType::File {
                sc.nr.file_taken += self.isolated;
            }
            sc.nr.unqueued_dirty += stat.unqueued_dirty;
        }
        if eng.sw.unified_writeback_throttle {
            sc.nr.dirty += stat.dirty;
            sc.nr.congested += stat.congested;
            sc.nr.writeback += stat.writeback;
            sc.nr.immediate += stat.immediate;
            sc.nr.taken += self.isolated;
        }
    }

    fn wake_flushers(&mut self, eng: &mut Engine, sc: &ScanControl) {
        self.pending.push(Work::WakeFlushers);
        eng.memcgs.count(self.memcg, Counter::FlusherWakeups, 1);
        let sane = sc.target.is_none() || eng.cfg.cgroup_v2;
        if !sane {
            let node = eng.lruvecs[self.lruvec.idx()].node;
            let ticks = eng.cfg.hz / 10;
            self.pending
                .push(eng.throttle(sc, ThrottleReason::Writeback, node, ticks));
        }
    }

    // ------------------------------------------------------------ after an eviction

    fn evicted(&mut self, eng: &mut Engine, sc: &mut ScanControl) {
        if self.once.is_some() {
            self.at = At::End;
            return;
        }
        let abort = eng.should_abort(sc, self.lruvec);
        if eng.sw.scan_budget {
            let leave = self.aged && sc.root_reclaim() || self.endless(eng, sc);
            if self.scanned == 0 || abort || leave {
                self.at = At::End;
            } else {
                if !eng.sw.mut_no_decrement {
                    self.budget -= self.scanned as i64;
                }
                self.at = At::Round;
            }
        } else {
            self.total += self.scanned as i64;
            if self.scanned == 0 || self.total >= self.budget || abort {
                self.finish_before(eng, sc);
            } else {
                self.at = At::Round;
            }
        }
        if !matches!(self.at, At::End) {
            self.pending.push(Work::Yield);
        }
    }

    /// A budget that is never used up can keep a task busy for ever with folios that cannot be freed.
    /// Here every task ends: such a loop leaves when it has gone over the whole size many times and
    /// nothing came of it.
    fn endless(&mut self, eng: &Engine, sc: &ScanControl) -> bool {
        if !eng.sw.mut_no_decrement && !eng.sw.mut_budget_clobber {
            return false;
        }
        if sc.nr_reclaimed > self.freed {
            self.freed = sc.nr_reclaimed;
            self.fruitless = 0;
        }
        self.fruitless += self.scanned;
        let types = EvictableTypes::of(self.swappiness);
        let size = self.gens(eng).evictable_pages(types).max(MIN_LRU_BATCH);
        self.fruitless > size * u64::from(MAX_RECLAIM_RETRIES)
    }

    /// End of the loop before the series: one look at whether everything met was dirty.
    fn finish_before(&mut self, eng: &mut Engine, sc: &ScanControl) {
        if !eng.sw.flush_in_loop
            && sc.nr.unqueued_dirty > 0
            && sc.nr.unqueued_dirty == sc.nr.file_taken
        {
            self.wake_flushers(eng, sc);
        }
        self.at = At::End;
    }
}

/// (aging is needed, evictable pages) of section 8; 0 pages when eviction is impossible.
fn should_run_aging(m: &MultiGen, types: EvictableTypes, v612: bool) -> (bool, u64) {
    let left = m.min_seq_of(types) + MIN_NR_GENS;
    if left > m.max_seq {
        return (true, 0);
    }
    let total = m.evictable_pages(types);
    if !v612 {
        return (left == m.max_seq, total);
    }
    if left < m.max_seq {
        return (false, total);
    }
    let (mut young, mut old) = (0, 0);
    for &t in types.list() {
        young += m.gen_pages(MultiGen::slot(m.max_seq), t);
        let oldest = MultiGen::slot(m.min_seq_of(types));
        if m.min_seq[t.idx()] == m.min_seq_of(types) {
            old += m.gen_pages(oldest, t);
        }
    }
    (young * 2 > total || old * 4 < total, total)
}

impl Engine {
    /// Swappiness of this request for a memcg (`mglru.md` 6).
    pub(crate) fn swappiness(&self, sc: &ScanControl, memcg: MemcgId) -> u16 {
        let mglru = self.sw.policy == crate::switches::PolicyKind::MultiGen;
        if mglru && self.sw.anon_only_strict && sc.swappiness == Some(ANON_ONLY) {
            return ANON_ONLY;
        }
        if mglru && !self.can_swap(sc, memcg) {
            return 0;
        }
        sc.swappiness.unwrap_or_else(|| {
            self.memcgs[memcg]
                .swappiness()
                .map_or(self.cfg.swappiness, u16::from)
        })
    }

    /// Anonymous memory of the memcg is worth scanning: there is room for it elsewhere.
    fn can_swap(&self, sc: &ScanControl, memcg: MemcgId) -> bool {
        sc.may_swap && self.swap_available(memcg) >= MIN_LRU_BATCH
    }

    /// `mglru.md` 8.
    pub(crate) fn should_abort(&self, sc: &ScanControl, lruvec: LruvecId) -> bool {
        let root = sc.root_reclaim();
        if !root && !self.sw.memcg_abort_on_target {
            return false;
        }
        if sc.nr_reclaimed >= sc.nr_to_reclaim.max(2 << sc.order) {
            return true;
        }
        if !root || !sc.is_kswapd() || sc.order != 0 {
            return false;
        }
        let node = self.lruvecs[lruvec.idx()].node;
        self.well_above_high(node, sc.reclaim_idx)
    }

    /// Pages freed by reclaim, in every scope they are counted in.
    pub(crate) fn count_steal(&mut self, lruvec: LruvecId, sc: &ScanControl, t: LruType, n: u64) {
        if n == 0 {
            return;
        }
        let memcg = self.lruvecs[lruvec.idx()].memcg;
        let kind = sc.kind.pgsteal();
        self.memcgs.count(memcg, kind, n as i64);
        if sc.target.is_none() || self.sw.counters_72 {
            self.vm.add(kind, n as i64);
        }
        let by_type = [Counter::PgstealAnon, Counter::PgstealFile][t.idx()];
        self.vm.add(by_type, n as i64);
        self.memcgs.count(memcg, by_type, n as i64);
    }
}
