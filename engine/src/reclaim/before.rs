//! How a multi-gen lruvec is reclaimed before the series, Linux 6.12 to 7.1
//! (`docs/rules/reclaim-loop.md`).
//!
//! Each round computes its budget from what the lists hold now, and evicts up to a large batch. The loop
//! ends when the rounds together have scanned as much as the present budget. If there are too few
//! generations to evict from, it ages instead, and ends right after.

use super::cx::Cx;
use super::eviction::Eviction;
use super::scan_control::{ScanControl, DEF_PRIORITY};
use super::scan_protection::protected_share;
use super::work::Work;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::LruvecId;
use crate::mglru::walk::{AgingStep, AgingTask};
use crate::mglru::MIN_NR_GENS;

/// The reclaim of one lruvec.
#[derive(Debug)]
pub(crate) struct LoopBefore {
    eviction: Eviction,
    at: BeforeStage,
    /// Pages that all rounds together may scan, as the last round saw it.
    budget: u64,
    /// Pages scanned by all rounds.
    scanned: u64,
    rotate: bool,
    opened: bool,
}

#[derive(Debug)]
enum BeforeStage {
    /// A round begins.
    Round,
    Aging(AgingTask),
    Evicting,
    /// The loop is over but for what the host is still asked.
    End,
}

/// What a round is to do.
enum Round {
    Scan(u64),
    Age,
}

impl LoopBefore {
    /// Begins the reclaim of a lruvec whose memcg's protection has been computed.
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        Self {
            eviction: Eviction::new(eng, sc, lruvec, cpu),
            at: BeforeStage::Round,
            budget: 0,
            scanned: 0,
            rotate: false,
            opened: false,
        }
    }

    /// The next request to the host; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            match &mut self.at {
                BeforeStage::Round => match self.round(eng, cx.sc) {
                    Round::Scan(0) => self.finish(eng, cx.sc),
                    Round::Scan(budget) => {
                        self.budget = budget;
                        let whole = eng.config().scale.max_lru_batch;
                        let within = eng.rules.kernel.batch_within_budget;
                        self.eviction.begin(
                            eng,
                            cx,
                            if within { budget.min(whole) } else { whole },
                        );
                        self.at = BeforeStage::Evicting;
                    }
                    Round::Age => {
                        let (lruvec, types) = (self.eviction.lruvec, self.eviction.types());
                        let max_seq = self.eviction.gens(eng).max_seq;
                        self.at = BeforeStage::Aging(AgingTask::new(lruvec, max_seq, types));
                    }
                },
                BeforeStage::Aging(task) => match task.step(eng, cx.answer.take()) {
                    AgingStep::Ask(work) => return Some(work),
                    AgingStep::Done(opened) => {
                        cx.sc.walk_context = true;
                        self.opened |= opened;
                        self.rotate = opened;
                        let memcg = self.eviction.memcg;
                        eng.memcgs.count(memcg, Counter::AbortAfterAging, 1);
                        self.finish(eng, cx.sc);
                    }
                },
                BeforeStage::Evicting => {
                    if let Some(work) = self.eviction.step(eng, cx) {
                        return Some(work);
                    }
                    let scanned = self.eviction.scanned();
                    self.scanned += scanned;
                    if scanned == 0
                        || self.scanned >= self.budget
                        || eng.should_abort(cx.sc, self.eviction.lruvec)
                    {
                        self.finish(eng, cx.sc);
                    } else {
                        self.at = BeforeStage::Round;
                        return Some(Work::Yield);
                    }
                }
                BeforeStage::End => return self.eviction.next_pending(),
            }
        }
    }

    /// Pages to scan in all, or aging instead.
    fn round(&mut self, eng: &Engine, sc: &mut ScanControl) -> Round {
        let memcg = self.eviction.memcg;
        if eng.below_min(sc, memcg) {
            self.rotate = true;
            return Round::Scan(0);
        }
        if eng.wants_what_cannot_go(sc, memcg) {
            return Round::Scan(0);
        }
        let (m, types) = (self.eviction.gens(eng), self.eviction.types());
        let can_evict = m.min_seq_of(types) + MIN_NR_GENS <= m.max_seq;
        let evictable = if can_evict {
            m.evictable_pages(types)
        } else {
            0
        };
        if evictable > 0 && !eng.memcgs[memcg].online() {
            return Round::Scan(evictable);
        }
        let n = protected_share(eng, sc, memcg, evictable);
        let age = !can_evict || (eng.rules.kernel.wants_aging)(m, types);
        if age && sc.priority != DEF_PRIORITY {
            return Round::Age;
        }
        Round::Scan(eng.config().scale.scan_share(n, sc.priority))
    }

    fn finish(&mut self, eng: &mut Engine, sc: &ScanControl) {
        self.eviction.end_of_loop(eng, sc);
        self.at = BeforeStage::End;
    }

    /// The task is killed: a pass of aging that has ended still gets its generation.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        if let BeforeStage::Aging(task) = &mut self.at {
            task.abandon(eng);
        }
        self.eviction.abandon();
        self.at = BeforeStage::End;
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
