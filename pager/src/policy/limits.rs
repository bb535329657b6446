//! Groups, their limits, and charges.

use super::{Fed, Policy, CPU};
use crate::error::Result;
use crate::record::ops::Op;
use coldset_engine::memcg::{
    ChargeFlags, ChargeStep, ChargeTask, CounterKind, HighStep, HighTask, HighWrite, MaxWrite,
    MemcgError, TaskMemcg, WriteStep,
};
use coldset_engine::MemcgId;

/// A charge, or a write to a limit, that goes in steps.
#[derive(Debug)]
pub(crate) struct Stepped<T> {
    id: u64,
    task: T,
    fed: Option<Fed>,
}

impl<T> Stepped<T> {
    /// Tells the next step what came of the last.
    pub(crate) fn feed(&mut self, fed: Fed) {
        self.fed = Some(fed);
    }

    /// The same, as recorded.
    pub(crate) fn feed_all(&mut self, fed: Option<Fed>) {
        self.fed = fed;
    }
}

/// A write to a limit.
#[derive(Debug)]
pub(crate) enum LimitWrite {
    High(HighWrite),
    Max(MaxWrite),
}

impl Policy {
    pub(crate) fn group(&mut self, parent: MemcgId) -> Result<MemcgId> {
        self.note(Op::Group(parent));
        Ok(self.engine.memcg_create(parent)?)
    }

    /// Sets the two protections.
    pub(crate) fn protect(
        &mut self,
        memcg: MemcgId,
        min: Option<u64>,
        low: Option<u64>,
    ) -> Result<()> {
        let group = memcg;
        self.note(Op::Protect(group, min, low));
        if let Some(v) = min {
            self.engine.memcgs.set_min(memcg, v)?;
        }
        if let Some(v) = low {
            self.engine.memcgs.set_low(memcg, v)?;
        }
        Ok(())
    }

    /// What the pages of the budget may take.
    pub(crate) fn set_room(&mut self, pages: u64) {
        self.note(Op::Room(pages));
        let top = self.top;
        let set = self.engine.memcgs.set_max(top, CounterKind::Memory, pages);
        debug_assert!(set.is_ok());
    }

    pub(crate) fn limit(
        &mut self,
        memcg: MemcgId,
        max: bool,
        pages: u64,
    ) -> std::result::Result<Stepped<LimitWrite>, MemcgError> {
        let id = self.task_id();
        self.note(Op::Limit(id, memcg, max, pages));
        let tree = &mut self.engine.memcgs;
        let task = if max {
            LimitWrite::Max(MaxWrite::new(tree, memcg, pages)?)
        } else {
            LimitWrite::High(HighWrite::new(tree, memcg, pages)?)
        };
        let fed = None;
        Ok(Stepped { id, task, fed })
    }

    pub(crate) fn limit_step(&mut self, w: &mut Stepped<LimitWrite>) -> WriteStep {
        let fed = w.fed.take();
        self.note(Op::LimitStep(w.id, fed));
        let tree = &mut self.engine.memcgs;
        match &mut w.task {
            LimitWrite::High(t) => {
                if let Some(Fed::Reclaimed(n)) = fed {
                    t.reclaim_done(n);
                }
                t.step(tree, false)
            }
            LimitWrite::Max(t) => {
                if let Some(Fed::Reclaimed(n)) = fed {
                    t.reclaim_done(n);
                }
                t.step(tree, false)
            }
        }
    }

    pub(crate) fn drain(&mut self) {
        self.note(Op::Drain());
        self.engine.lru_add_drain_all();
    }
    pub(crate) fn charge(
        &mut self,
        memcg: MemcgId,
        pages: u64,
        task: &mut TaskMemcg,
    ) -> std::result::Result<(), MemcgId> {
        self.note(Op::Charge(memcg, pages));
        let tree = &mut self.engine.memcgs;
        tree.try_charge_fast(memcg, pages, CPU.into(), task)
    }

    /// Continues a refused charge, with reclaim.
    pub(crate) fn charge_on(
        &mut self,
        memcg: MemcgId,
        pages: u64,
        over: MemcgId,
    ) -> Stepped<ChargeTask> {
        let id = self.task_id();
        self.note(Op::ChargeOn(id, memcg, pages, over));
        let task = ChargeTask::refused(memcg, pages, ChargeFlags::USER, over);
        let fed = None;
        Stepped { id, task, fed }
    }

    pub(crate) fn charge_step(
        &mut self,
        c: &mut Stepped<ChargeTask>,
        high: &mut TaskMemcg,
    ) -> ChargeStep {
        let fed = c.fed.take();
        self.note(Op::ChargeStep(c.id, fed));
        match fed {
            None => {}
            Some(Fed::Reclaimed(n)) => c.task.reclaim_done(n),
            Some(Fed::Oom(again)) => c.task.oom_done(again),
        }
        c.task.step(&mut self.engine.memcgs, CPU.into(), high)
    }

    /// Begins what a charge above memory.high has to do.
    pub(crate) fn high(&mut self, memcg: MemcgId, over_high: u64) -> Stepped<HighTask> {
        let id = self.task_id();
        self.note(Op::High(id, memcg, over_high));
        let hz = u64::from(self.engine.config().hz);
        let task = HighTask::new(memcg, &mut TaskMemcg { over_high }, hz);
        let fed = None;
        Stepped { id, task, fed }
    }

    pub(crate) fn high_step(&mut self, h: &mut Stepped<HighTask>) -> HighStep {
        let fed = h.fed.take();
        self.note(Op::HighStep(h.id, fed));
        if let Some(Fed::Reclaimed(n)) = fed {
            h.task.reclaim_done(&self.engine.memcgs, n);
        }
        h.task.step(&mut self.engine.memcgs, false)
    }

    pub(crate) fn uncharge(&mut self, memcg: MemcgId, pages: u64) {
        self.note(Op::Uncharge(memcg, pages));
        self.engine.memcgs.uncharge(memcg, pages);
    }
}
