//! How a multi-gen lruvec is reclaimed since the series (`docs/rules/reclaim-loop.md`).
//!
//! The loop takes one budget and uses it up in small batches. It ages when it must and evicts a batch
//! all the same; root reclaim then leaves.

use super::cx::Cx;
use super::eviction::Eviction;
use super::scan_control::ScanControl;
use super::scan_protection::protected_share;
use super::work::Work;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::LruvecId;
use crate::mglru::walk::{AgingStep, AgingTask};

/// The reclaim of one lruvec.
#[derive(Debug)]
pub(crate) struct LoopAfter {
    pub(super) eviction: Eviction,
    at: AfterStage,
    /// Pages still to scan. Below 0 after a batch of large folios.
    pub(super) budget: i64,
    rotate: bool,
    aged: bool,
    opened: bool,
}

#[derive(Debug)]
enum AfterStage {
    /// A round begins.
    Round,
    Aging(AgingTask),
    /// Take a batch.
    Evict,
    Evicting,
    /// The loop is over but for what the host is still asked.
    End,
}

impl LoopAfter {
    /// Begins the reclaim of a lruvec whose memcg's protection has been computed.
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        let mut this = Self::without_budget(eng, sc, lruvec, cpu);
        let budget = this.whole_budget(eng, sc) as i64;
        this.take_budget(eng, budget);
        this
    }

    pub(super) fn without_budget(
        eng: &mut Engine,
        sc: &mut ScanControl,
        lruvec: LruvecId,
        cpu: u16,
    ) -> Self {
        Self {
            eviction: Eviction::new(eng, sc, lruvec, cpu),
            at: AfterStage::Round,
            budget: 0,
            rotate: false,
            aged: false,
            opened: false,
        }
    }

    pub(super) fn take_budget(&mut self, eng: &Engine, budget: i64) {
        self.budget = budget;
        self.rotate = budget == 0 && eng.rules.series.rotates_without_budget();
    }

    /// Pages to scan in all: what protection leaves, shifted by the priority.
    pub(super) fn whole_budget(&self, eng: &Engine, sc: &mut ScanControl) -> u64 {
        let memcg = self.eviction.memcg;
        if eng.wants_what_cannot_go(sc, memcg) {
            return 0;
        }
        let (m, types) = (self.eviction.gens(eng), self.eviction.types());
        let evictable = m.evictable_pages(types);
        if !eng.memcgs[memcg].online() {
            return evictable;
        }
        let n = protected_share(eng, sc, memcg, evictable);
        let n = eng.config().scale.scan_share(n, sc.priority);
        eng.rules.series.least_budget(n, evictable, sc.priority)
    }

    /// The next request to the host; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            match &mut self.at {
                AfterStage::Round => {
                    if self.budget <= 0 {
                        self.finish(eng, cx.sc);
                    } else if eng.below_min(cx.sc, self.eviction.memcg) {
                        self.rotate = true;
                        self.finish(eng, cx.sc);
                    } else if self.must_age(eng, cx.sc) {
                        self.at = AfterStage::Aging(self.aging(eng));
                    } else {
                        self.at = AfterStage::Evict;
                    }
                }
                AfterStage::Aging(task) => match task.step(eng, cx.answer.take()) {
                    AgingStep::Ask(work) => return Some(work),
                    AgingStep::Done(opened) => {
                        cx.sc.walk_context = true;
                        self.opened |= opened;
                        self.rotate |= opened;
                        // Even if another task has made the generation.
                        self.aged = true;
                        if eng.rules.series.leaves_after_aging() && cx.sc.root_reclaim() {
                            let memcg = self.eviction.memcg;
                            eng.memcgs.count(memcg, Counter::AbortAfterAging, 1);
                            self.finish(eng, cx.sc);
                        } else {
                            self.at = AfterStage::Evict;
                        }
                    }
                },
                AfterStage::Evict => {
                    let whole = eng.config().scale.max_lru_batch;
                    let batch = eng.rules.series.batch(self.budget as u64, whole);
                    self.eviction.begin(eng, cx, batch);
                    self.at = AfterStage::Evicting;
                }
                AfterStage::Evicting => {
                    if let Some(work) = self.eviction.step(eng, cx) {
                        return Some(work);
                    }
                    let scanned = self.eviction.scanned();
                    if scanned == 0
                        || eng.should_abort(cx.sc, self.eviction.lruvec)
                        || (self.aged && cx.sc.root_reclaim())
                    {
                        self.finish(eng, cx.sc);
                    } else {
                        self.budget -= scanned as i64;
                        self.at = AfterStage::Round;
                        return Some(Work::Yield);
                    }
                }
                AfterStage::End => return self.eviction.next_pending(),
            }
        }
    }

    fn finish(&mut self, eng: &mut Engine, sc: &ScanControl) {
        self.eviction.end_of_loop(eng, sc);
        self.at = AfterStage::End;
    }

    pub(super) fn must_age(&self, eng: &Engine, sc: &ScanControl) -> bool {
        (eng.rules.series.must_age)(self.eviction.gens(eng), self.eviction.types(), sc.priority)
    }

    pub(super) fn aging(&self, eng: &Engine) -> AgingTask {
        let max_seq = self.eviction.gens(eng).max_seq;
        AgingTask::new(self.eviction.lruvec, max_seq, self.eviction.types())
    }

    /// A round is about to begin.
    pub(super) fn between_rounds(&self) -> bool {
        matches!(self.at, AfterStage::Round)
    }

    /// Ends the loop. A pass of aging that has ended still gets its generation.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        if let AfterStage::Aging(task) = &mut self.at {
            task.abandon(eng);
        }
        self.eviction.abandon();
        self.at = AfterStage::End;
    }

    /// Should the memcg go to the young end of the memcg LRU? Valid at the end.
    pub(crate) fn rotate(&self) -> bool {
        self.rotate
    }

    /// Aging has opened a generation.
    pub(crate) fn opened_generation(&self) -> bool {
        self.opened
    }
}
