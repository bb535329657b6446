//! Memory for one new folio: the memcg's charge, then a page of a zone.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::memcg::{ChargeFlags, ChargeStep, ChargeTask, HighStep, HighTask};
use coldset_engine::reclaim::{ReclaimTask, ScanControl};
use coldset_engine::zone::alloc::{AllocFlags, AllocInput, AllocStep, AllocTask};
use coldset_engine::{MemcgId, NodeId};

/// Why memory could not be had at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The limit of this memcg.
    Limit(MemcgId),
    /// The zones: charged, but no page.
    Pages,
    /// Charged and allocated, but memory.high wants attention.
    High,
}

impl Machine {
    /// Charges and allocates `n` pages for `memcg`. Reclaims, waits or kills if need be.
    #[inline]
    pub(crate) async fn get_pages(&self, ctx: &Ctx, memcg: MemcgId, n: u64) -> Result<(), OpError> {
        let refused = self.w.borrow_mut().get_pages_now(ctx, memcg, n);
        match refused {
            None => Ok(()),
            Some(refused) => self.get_pages_refused(ctx, memcg, n, refused).await,
        }
    }

    /// Goes on where [`World::get_pages_now`] could not.
    pub(crate) async fn get_pages_refused(
        &self,
        ctx: &Ctx,
        memcg: MemcgId,
        n: u64,
        refused: Refused,
    ) -> Result<(), OpError> {
        match refused {
            Refused::Pages => return self.take_pages_slow(ctx, memcg, n).await,
            Refused::Limit(over) => {
                self.charge_slow(ctx, memcg, n, over).await?;
                let got = self.w.borrow_mut().take_pages_fast(ctx.node, n);
                if !got {
                    return self.take_pages_slow(ctx, memcg, n).await;
                }
            }
            Refused::High => {}
        }
        if ctx.over_high.borrow().over_high > 0 {
            self.handle_high(ctx, memcg).await;
        }
        Ok(())
    }

    /// The loop at the limit (`memcg.md` 3).
    async fn charge_slow(&self, ctx: &Ctx, memcg: MemcgId, n: u64, over: MemcgId) -> Result<(), OpError> {
        let mut task = ChargeTask::refused(memcg, n, ChargeFlags::USER, over);
        loop {
            task.set_dying(ctx.killed());
            let step = {
                let mut w = self.w.borrow_mut();
                let mut high = ctx.over_high.borrow_mut();
                task.step(&mut w.engine.memcgs, ctx.cpu().into(), &mut high)
            };
            match step {
                ChargeStep::Reclaim { over, nr } => {
                    let t = ReclaimTask::limit(over, nr, ctx.cpu(), ctx.node);
                    let out = self.reclaim(ctx, t).await;
                    task.reclaim_done(out.reclaimed);
                }
                ChargeStep::Oom { over, order } => {
                    let killed = self.memcg_oom(ctx, over, order);
                    if ctx.killed() {
                        return Err(OpError::NoMemory);
                    }
                    if killed {
                        self.w.borrow_mut().engine.meter.take();
                        let tick = self.sim.ticks_end(ctx.now(), 1);
                        ctx.sleep_until(TimeClass::AllocStall, tick).await;
                    }
                    task.oom_done(killed);
                }
                ChargeStep::Done(Ok(_)) => return Ok(()),
                ChargeStep::Done(Err(_)) => return Err(OpError::NoMemory),
            }
        }
    }

    /// memory.high: reclaim, then a penalty sleep (`memcg.md` 3.1).
    async fn handle_high(&self, ctx: &Ctx, memcg: MemcgId) {
        let hz = u64::from(self.w.borrow().engine.config().hz);
        let mut task = HighTask::new(memcg, &mut ctx.over_high.borrow_mut(), hz);
        loop {
            let step = task.step(&mut self.w.borrow_mut().engine.memcgs, ctx.killed());
            match step {
                HighStep::Reclaim { over, nr } => {
                    let t = ReclaimTask::limit(over, nr, ctx.cpu(), ctx.node);
                    let out = self.reclaim(ctx, t).await;
                    task.reclaim_done(&self.w.borrow().engine.memcgs, out.reclaimed);
                }
                HighStep::Sleep { jiffies } => {
                    let until = self.sim.ticks_end(ctx.now(), jiffies);
                    ctx.sleep_until(TimeClass::ThrottleHigh, until).await;
                }
                HighStep::Done => return,
            }
        }
    }

    /// The allocator's slow path (`reclaim-entry.md` 6). The charge is given back on failure.
    async fn take_pages_slow(&self, ctx: &Ctx, memcg: MemcgId, n: u64) -> Result<(), OpError> {
        for _ in 0..n {
            let mut task = AllocTask::new(0, AllocFlags::USER);
            let mut input = AllocInput::default();
            loop {
                let step = {
                    let mut w = self.w.borrow_mut();
                    w.update_reclaimable(ctx.node);
                    task.step(&mut w.engine.zones, std::mem::take(&mut input))
                };
                match step {
                    AllocStep::Got(_) => break,
                    AllocStep::WakeKswapd => self.w.borrow_mut().wake_kswapd(ctx.node, 0),
                    AllocStep::DirectReclaim => {
                        self.reserve_gate(ctx).await;
                        let sc = ScanControl::new(32, None);
                        let t = ReclaimTask::try_to_free(sc, ctx.cpu(), ctx.node);
                        input.progress = self.reclaim(ctx, t).await.reclaimed;
                    }
                    AllocStep::DrainPcp => {
                        for z in self.w.borrow_mut().engine.node_zones_mut(ctx.node) {
                            z.drain_pcp();
                        }
                    }
                    AllocStep::SleepTick => {
                        let tick = self.sim.ticks_end(ctx.now(), 1);
                        ctx.sleep_until(TimeClass::AllocStall, tick).await;
                    }
                    AllocStep::Oom => {
                        input.oom_progress = self.global_oom(ctx);
                        if ctx.killed() {
                            self.uncharge(memcg, n);
                            return Err(OpError::NoMemory);
                        }
                        let tick = self.sim.ticks_end(ctx.now(), 1);
                        ctx.sleep_until(TimeClass::AllocStall, tick).await;
                    }
                    AllocStep::Fail => {
                        self.uncharge(memcg, n);
                        return Err(OpError::NoMemory);
                    }
                }
            }
        }
        Ok(())
    }

    fn uncharge(&self, memcg: MemcgId, n: u64) {
        if memcg != MemcgId::ROOT {
            self.w.borrow_mut().engine.memcgs.uncharge(memcg, n);
        }
    }

    /// Charges kernel memory that a first touch needs: `nodes` index nodes and `tables` leaf tables.
    #[inline]
    pub(crate) async fn charge_kernel(&self, ctx: &Ctx, memcg: MemcgId, nodes: u64, tables: u64) -> Result<(), OpError> {
        if nodes == 0 && tables == 0 {
            return Ok(());
        }
        let pages = self.w.borrow_mut().kernel_pages_owed(memcg, nodes, tables, 0);
        for _ in 0..pages {
            self.get_pages(ctx, memcg, 1).await?;
        }
        Ok(())
    }
}

impl World {
    /// Charges and allocates `n` pages for `memcg` without any wait. What is left to do on a refusal
    /// is done by [`Machine::get_pages_refused`].
    #[inline]
    pub(crate) fn get_pages_now(&mut self, ctx: &Ctx, memcg: MemcgId, n: u64) -> Option<Refused> {
        ctx.charge(TimeClass::Fault, self.params.page_alloc_ns * n);
        let mut high = ctx.over_high.borrow_mut();
        let charged = self
            .engine
            .memcgs
            .try_charge_fast(memcg, n, ctx.cpu().into(), &mut high);
        match charged {
            Err(over) => Some(Refused::Limit(over)),
            Ok(()) if !self.take_pages_fast(ctx.node, n) => Some(Refused::Pages),
            Ok(()) => (high.over_high > 0).then_some(Refused::High),
        }
    }

    /// Takes pages from the node's zones without any wait. Without zones memory is unlimited.
    #[inline]
    fn take_pages_fast(&mut self, node: NodeId, n: u64) -> bool {
        if self.engine.zones.is_empty() {
            return true;
        }
        for taken in 0..n {
            let ok = self.engine.node_zones_mut(node).iter_mut().rev().any(|z| {
                use coldset_engine::zone::{Mark, ReserveRights};
                z.ok(0, Mark::Low, ReserveRights::default(), z.class) && z.take(0)
            });
            if !ok {
                for z in self.engine.node_zones_mut(node).iter_mut().take(1) {
                    z.give(taken);
                }
                return false;
            }
        }
        true
    }

    /// Tells the zones of a node what reclaim could free.
    fn update_reclaimable(&mut self, node: NodeId) {
        let pages = self.engine.node_reclaimable(node);
        let zones = self.engine.node_zones_mut(node);
        let managed: u64 = zones.iter().map(|z| z.managed).sum();
        for z in zones {
            z.reclaimable = pages * z.managed / managed.max(1);
        }
    }

    /// A written page has left the cache: what the file system kept for it is given back.
    pub(crate) fn kernel_pages_released(&mut self, memcg: MemcgId) {
        let each = self.params.written_page_kernel_ppm;
        let Some(k) = &mut self.kernel else { return };
        let Some((owed, charged)) = k.owed.get_mut(memcg.idx()) else {
            return;
        };
        *owed = owed.saturating_sub(each);
        let keep = *owed / 1_000_000;
        if *charged > keep {
            let back = *charged - keep;
            *charged = keep;
            self.engine.memcgs.count(
                memcg,
                coldset_engine::Counter::KernelPages,
                -(back as i64),
            );
            if memcg != MemcgId::ROOT {
                self.engine.memcgs.uncharge(memcg, back);
            }
        }
    }

    /// Pages of kernel memory that become due: `nodes` index nodes, `tables` leaf tables and
    /// `written` newly written pages.
    pub(crate) fn kernel_pages_owed(&mut self, memcg: MemcgId, nodes: u64, tables: u64, written: u64) -> u64 {
        let p = &self.params;
        let owed_new = nodes * p.index_node_page_ppm
            + tables * 1_000_000
            + written * p.written_page_kernel_ppm;
        let base = p.kernel_base_page_ppm;
        let Some(k) = &mut self.kernel else { return 0 };
        if k.owed.len() <= memcg.idx() {
            k.owed.resize(memcg.idx() + 1, (0, 0));
        }
        let (owed, charged) = &mut k.owed[memcg.idx()];
        if *owed == 0 {
            *owed = base;
        }
        *owed += owed_new;
        let due = *owed / 1_000_000 - *charged;
        *charged += due;
        if due > 0 {
            self.engine.memcgs.count(memcg, coldset_engine::Counter::KernelPages, due as i64);
        }
        due
    }
}
