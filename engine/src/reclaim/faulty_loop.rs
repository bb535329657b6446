//! The loop after the series with the faults of a backport, put in from outside between its rounds
//! (`docs/rules/faults.md`). Faults in single rules are in `rules/faults.rs`.

use super::after::LoopAfter;
use super::cx::Cx;
use super::scan_control::ScanControl;
use super::work::Work;
use crate::engine::Engine;
use crate::ids::LruvecId;
use crate::mglru::walk::{AgingStep, AgingTask};
use crate::mglru::{MIN_LRU_BATCH, MIN_NR_GENS};
use crate::node::MAX_RECLAIM_RETRIES;
use crate::switches::Switches;

/// The reclaim of one lruvec.
#[derive(Debug)]
pub(crate) struct FaultyLoop {
    inner: LoopAfter,
    /// The vendor hook is aging in place of taking a budget.
    hook: Option<AgingTask>,
    opened_by_hook: bool,
    /// Pages scanned since one was last freed, and pages freed by then.
    fruitless: u64,
    freed: u64,
}

impl FaultyLoop {
    /// Any of the faults that lie in the loop is on.
    pub(crate) fn wanted(sw: &Switches) -> bool {
        sw.mut_budget_clobber || sw.mut_no_decrement || sw.mut_aging_hook
    }

    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        let mut inner = LoopAfter::without_budget(eng, sc, lruvec, cpu);
        let hook = eng.switches().mut_aging_hook && inner.must_age(eng, sc);
        if !hook {
            let budget = inner.whole_budget(eng, sc) as i64;
            inner.take_budget(eng, budget);
        }
        Self {
            hook: hook.then(|| inner.aging(eng)),
            opened_by_hook: false,
            fruitless: 0,
            freed: sc.nr_reclaimed,
            inner,
        }
    }

    /// The next request to the host; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        if let Some(task) = &mut self.hook {
            match task.step(eng, cx.answer.take()) {
                AgingStep::Ask(work) => return Some(work),
                AgingStep::Done(opened) => {
                    cx.sc.walk_context = true;
                    self.opened_by_hook = opened;
                    self.hook = None;
                    // -1 says "has aged". The loop sees nothing to do, and no reason to rotate.
                    self.inner.take_budget(eng, if opened { -1 } else { 0 });
                }
            }
        }
        if self.inner.between_rounds() && eng.switches().mut_budget_clobber {
            self.clobber_budget(eng);
        }
        let work = self.inner.step(eng, cx)?;
        if self.inner.between_rounds() {
            if self.endless(eng, cx.sc) {
                self.inner.abandon(eng);
                return None;
            }
            if eng.switches().mut_no_decrement {
                self.inner.budget += self.inner.eviction.scanned() as i64;
            }
        }
        Some(work)
    }

    /// The test for aging looks at the size and writes it where the loop keeps its budget, unless
    /// eviction is impossible.
    fn clobber_budget(&mut self, eng: &Engine) {
        let (m, types) = (self.inner.eviction.gens(eng), self.inner.eviction.types());
        if self.inner.budget > 0 && m.min_seq_of(types) + MIN_NR_GENS <= m.max_seq {
            self.inner.budget = m.evictable_pages(types).max(1) as i64;
        }
    }

    /// A budget that is never used up can keep a task busy for ever with folios that cannot be freed.
    /// Here every task ends: such a loop leaves when it has gone over the whole size many times and
    /// nothing came of it.
    fn endless(&mut self, eng: &Engine, sc: &ScanControl) -> bool {
        let sw = eng.switches();
        if !sw.mut_no_decrement && !sw.mut_budget_clobber {
            return false;
        }
        if sc.nr_reclaimed > self.freed {
            self.freed = sc.nr_reclaimed;
            self.fruitless = 0;
        }
        self.fruitless += self.inner.eviction.scanned();
        let (m, types) = (self.inner.eviction.gens(eng), self.inner.eviction.types());
        let size = m.evictable_pages(types).max(MIN_LRU_BATCH);
        self.fruitless > size * u64::from(MAX_RECLAIM_RETRIES)
    }

    /// Ends the loop.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        if let Some(mut task) = self.hook.take() {
            task.abandon(eng);
        }
        self.inner.abandon(eng);
    }

    /// Should the memcg go to the young end of the memcg LRU? Valid at the end.
    pub(crate) fn rotate(&self) -> bool {
        self.inner.rotate()
    }

    /// Aging has opened a generation.
    pub(crate) fn opened_generation(&self) -> bool {
        self.opened_by_hook || self.inner.opened_generation()
    }
}
