//! Writes to a memcg's control files, which reclaim in the writer's context (`docs/rules/memcg.md`).

use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::sim::TimeClass;
use crate::vm::offline::MemcgHold;
use coldset_engine::memcg::{
    HighWrite, MaxWrite, MemcgError, ReclaimRequest, ReclaimWrite, WriteStep,
};
use coldset_engine::reclaim::{
    DebugCommand, DebugError, Outcome, ReclaimKind, ReclaimTask, ScanControl,
};
use coldset_engine::{MemcgId, NodeId};

impl Machine {
    /// memory.max: the limit holds at once; the usage is brought below it, by killing in the end.
    ///
    /// # Errors
    /// The root, or a memcg that does not exist.
    pub async fn write_max(&self, ctx: &Ctx, memcg: MemcgId, pages: u64) -> Result<(), MemcgError> {
        let mut write = MaxWrite::new(&mut self.w.borrow_mut().engine.memcgs, memcg, pages)?;
        let _hold = MemcgHold::new(self, memcg);
        loop {
            let step = write.step(&mut self.w.borrow_mut().engine.memcgs, ctx.killed());
            match step {
                WriteStep::Oom { memcg } => {
                    let killed = self.memcg_oom(ctx, memcg, 0);
                    if killed {
                        let tick = self.sim.ticks_end(ctx.now(), 1);
                        ctx.sleep_until(TimeClass::AllocStall, tick).await;
                    }
                    write.oom_done(killed);
                }
                WriteStep::Done(_) => return Ok(()),
                other => {
                    if let Some(out) = self.write_step(ctx, other).await {
                        write.reclaim_done(out.reclaimed);
                    }
                }
            }
        }
    }

    /// memory.high: reclaims down to the mark, without killing.
    ///
    /// # Errors
    /// The root, or a memcg that does not exist.
    pub async fn write_high(
        &self,
        ctx: &Ctx,
        memcg: MemcgId,
        pages: u64,
    ) -> Result<(), MemcgError> {
        let mut write = HighWrite::new(&mut self.w.borrow_mut().engine.memcgs, memcg, pages)?;
        let _hold = MemcgHold::new(self, memcg);
        loop {
            let step = write.step(&mut self.w.borrow_mut().engine.memcgs, ctx.killed());
            if let WriteStep::Done(_) = step {
                return Ok(());
            }
            if let Some(out) = self.write_step(ctx, step).await {
                write.reclaim_done(out.reclaimed);
            }
        }
    }

    /// memory.reclaim: frees `pages` pages of a memcg if it can. Returns pages freed.
    ///
    /// # Errors
    /// A memcg that does not exist.
    pub async fn write_reclaim(
        &self,
        ctx: &Ctx,
        memcg: MemcgId,
        pages: u64,
        swappiness: Option<u8>,
    ) -> Result<u64, MemcgError> {
        let request = ReclaimRequest { pages, swappiness };
        let mut write = ReclaimWrite::new(&self.w.borrow().engine.memcgs, memcg, request)?;
        let _hold = MemcgHold::new(self, memcg);
        loop {
            let step = write.step(ctx.killed());
            if let WriteStep::Done(_) = step {
                return Ok(write.reclaimed());
            }
            if let Some(out) = self.write_step(ctx, step).await {
                write.reclaim_done(out.reclaimed);
            }
        }
    }

    /// lru_gen: ages or evicts generations by command (`docs/rules/aging.md`). Returns pages freed.
    ///
    /// # Errors
    /// A memcg without generations, or a generation that the command does not take.
    pub async fn lru_gen(
        &self,
        ctx: &Ctx,
        memcg: MemcgId,
        node: NodeId,
        command: DebugCommand,
    ) -> Result<u64, DebugError> {
        let task = {
            let w = self.w.borrow();
            ReclaimTask::debug(&w.engine, memcg, node, command, None, ctx.cpu())?
        };
        Ok(self.reclaim(ctx, task).await.reclaimed)
    }

    /// Does what a write asks for; the outcome if it was a reclaim.
    async fn write_step(&self, ctx: &Ctx, step: WriteStep) -> Option<Outcome> {
        match step {
            WriteStep::Reclaim {
                memcg,
                nr,
                proactive,
                swappiness,
            } => {
                let mut sc = ScanControl::new(nr, Some(memcg));
                if proactive {
                    sc.kind = ReclaimKind::Proactive;
                    sc.swappiness = swappiness.map(u16::from);
                }
                let task = ReclaimTask::try_to_free(sc, ctx.cpu(), ctx.node());
                Some(self.reclaim(ctx, task).await)
            }
            WriteStep::DrainLruBatches => {
                self.w.borrow_mut().engine.lru_add_drain_all();
                None
            }
            WriteStep::Oom { .. } | WriteStep::Done(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
