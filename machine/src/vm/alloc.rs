//! Memory for one new folio: the memcg's charge, then a block of a zone.

use crate::config::OpError;
use crate::ctx::{Ctx, Reach};
use crate::machine::Machine;
use crate::sim::TimeClass;
use crate::vm::held::Charge;
use crate::vm::wanted::Wanted;
use crate::world::World;
use coldset_engine::memcg::{ChargeFlags, ChargeStep, ChargeTask, HighStep, HighTask};
use coldset_engine::reclaim::{ReclaimTask, ScanControl};
use coldset_engine::zone::{AllocFlags, AllocInput, AllocStep, AllocTask, ZoneList};
use coldset_engine::{Counter, MemcgId, NodeId};

/// Why memory could not be had at once.
pub(crate) enum Shortage {
    /// The limit of this memcg.
    Limit(MemcgId),
    /// The zones: charged, but no page.
    Zones,
    /// Charged and allocated, but so far above memory.high that the task reclaims before it goes on.
    High,
}

impl Machine {
    /// Charges and allocates a block of `n` pages, a power of two, for `memcg`. Reclaims, waits or kills
    /// if need be. The pages are given back unless they are kept.
    #[inline]
    pub(crate) async fn get_pages(
        &self,
        ctx: &Ctx,
        memcg: MemcgId,
        n: u64,
    ) -> Result<Charge<'_>, OpError> {
        self.get_wanted(ctx, Wanted::new(memcg, n)).await
    }

    /// The same.
    #[inline]
    pub(crate) async fn get_wanted(
        &self,
        ctx: &Ctx,
        wanted: Wanted,
    ) -> Result<Charge<'_>, OpError> {
        let shortage = self.w.borrow_mut().try_get_pages(ctx, wanted).err();
        self.get_lacking(ctx, wanted, shortage, false).await
    }

    /// Continues after [`World::try_get_pages`]. For pages that are wanted `ahead`, as read-ahead takes
    /// them, it gives up after the first fruitless reclaim, and nothing is killed.
    #[inline]
    pub(crate) async fn get_lacking(
        &self,
        ctx: &Ctx,
        wanted: Wanted,
        shortage: Option<Shortage>,
        ahead: bool,
    ) -> Result<Charge<'_>, OpError> {
        match shortage {
            None => Ok(Charge::complete(
                self,
                wanted.memcg,
                ctx.reach(),
                wanted.pages,
            )),
            // Rare and large: boxed, so that futures that need no wait stay small.
            Some(s) => Box::pin(self.get_pages_slow(ctx, wanted, s, ahead)).await,
        }
    }

    async fn get_pages_slow(
        &self,
        ctx: &Ctx,
        wanted: Wanted,
        shortage: Shortage,
        noretry: bool,
    ) -> Result<Charge<'_>, OpError> {
        let (memcg, n) = (wanted.memcg, wanted.pages);
        let mut charge = match shortage {
            Shortage::Limit(over) => {
                let mut flags = ChargeFlags::USER;
                flags.set(ChargeFlags::NORETRY, noretry);
                self.charge_slow(ctx, memcg, n, over, flags).await?;
                let mut charge = Charge::new(self, memcg, ctx.reach(), n);
                if self.w.borrow_mut().take_wanted(ctx.reach(), wanted) {
                    charge.taken = n;
                }
                charge
            }
            Shortage::Zones => Charge::new(self, memcg, ctx.reach(), n),
            Shortage::High => Charge::complete(self, memcg, ctx.reach(), n),
        };
        if charge.taken < n {
            self.take_pages_slow(ctx, &mut charge, n, noretry).await?;
        }
        if ctx.over_high.borrow().far_above() {
            self.handle_high(ctx).await;
        }
        Ok(charge)
    }

    /// The loop at the limit (`docs/rules/memcg.md`).
    async fn charge_slow(
        &self,
        ctx: &Ctx,
        memcg: MemcgId,
        n: u64,
        over: MemcgId,
        flags: ChargeFlags,
    ) -> Result<(), OpError> {
        let mut task = ChargeTask::refused(memcg, n, flags, over);
        loop {
            task.set_dying(ctx.killed());
            let step = {
                let mut w = self.w.borrow_mut();
                let mut high = ctx.over_high.borrow_mut();
                task.step(&mut w.engine.memcgs, ctx.cpu().into(), &mut high)
            };
            match step {
                ChargeStep::Reclaim { over, nr } => {
                    let t = ReclaimTask::limit(over, nr, ctx.cpu(), ctx.node());
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

    /// The end of a system call or of a fault. What a whole call has charged above memory.high is made up for once: each
    /// attempt in the middle of a read would take what it has just brought in.
    #[inline]
    pub(crate) async fn return_to_user(&self, ctx: &Ctx) {
        if ctx.is_above_high() {
            // Rare and large.
            Box::pin(self.handle_high(ctx)).await;
        }
    }

    /// memory.high: reclaim, then a penalty sleep (`docs/rules/memcg.md`).
    pub(super) async fn handle_high(&self, ctx: &Ctx) {
        let hz = u64::from(self.w.borrow().engine.config().hz);
        let mut task = HighTask::new(ctx.memcg, &mut ctx.over_high.borrow_mut(), hz);
        loop {
            let step = task.step(&mut self.w.borrow_mut().engine.memcgs, ctx.killed());
            match step {
                HighStep::Reclaim { over, nr } => {
                    let t = ReclaimTask::limit(over, nr, ctx.cpu(), ctx.node());
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

    /// The allocator's slow path (`docs/rules/zones.md`). It tries once for more than a page: there are
    /// smaller folios.
    async fn take_pages_slow(
        &self,
        ctx: &Ctx,
        charge: &mut Charge<'_>,
        n: u64,
        noretry: bool,
    ) -> Result<(), OpError> {
        let order = n.ilog2();
        let flags = AllocFlags {
            noretry: noretry || order > 0,
            ..AllocFlags::USER
        };
        while charge.taken < n {
            let mut task = AllocTask::refused(order, flags);
            let mut input = AllocInput::default();
            loop {
                let step = {
                    let w = &mut *self.w.borrow_mut();
                    w.update_reclaimable();
                    let order = w.zone_orders.of(ctx.reach());
                    let mut zones = ZoneList::new(w.engine.zones.all_mut(), order);
                    task.step(&mut zones, std::mem::take(&mut input))
                };
                match step {
                    AllocStep::Got(zone) => {
                        self.w.borrow_mut().took(zone, n);
                        charge.taken += n;
                        break;
                    }
                    AllocStep::WakeKswapd => self.w.borrow_mut().wake_kswapds(ctx.reach()),
                    AllocStep::DirectReclaim => {
                        self.reserve_gate(ctx).await;
                        let mut sc = ScanControl::new(32, None);
                        let Reach { node, bound } = ctx.reach();
                        sc.node = bound.then_some(node);
                        let t = ReclaimTask::try_to_free(sc, ctx.cpu(), node);
                        let began = ctx.now();
                        input.progress = self.reclaim(ctx, t).await.reclaimed;
                        let ns = (ctx.now() - began) as i64;
                        let engine = &mut self.w.borrow_mut().engine;
                        engine.count(ctx.memcg, Counter::DirectReclaimNs, ns);
                    }
                    AllocStep::DrainPcp => {
                        for z in self.w.borrow_mut().engine.zones.all_mut() {
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
                            return Err(OpError::NoMemory);
                        }
                        let tick = self.sim.ticks_end(ctx.now(), 1);
                        ctx.sleep_until(TimeClass::AllocStall, tick).await;
                    }
                    AllocStep::Fail => return Err(OpError::NoMemory),
                }
            }
        }
        Ok(())
    }
}

impl World {
    /// Charges and allocates a block of pages without any wait. It takes the time of a page.
    #[inline]
    pub(crate) fn try_get_pages(&mut self, ctx: &Ctx, wanted: Wanted) -> Result<(), Shortage> {
        ctx.charge(TimeClass::Fault, self.params.page_alloc_ns);
        self.page_lists.take(ctx, &self.params, ctx.node(), 1);
        let high = &mut ctx.over_high.borrow_mut();
        let memcgs = &mut self.engine.memcgs;
        memcgs
            .try_charge_fast(wanted.memcg, wanted.pages, ctx.cpu().into(), high)
            .map_err(Shortage::Limit)?;
        if !self.take_wanted(ctx.reach(), wanted) {
            return Err(Shortage::Zones);
        }
        match high.far_above() {
            false => Ok(()),
            true => Err(Shortage::High),
        }
    }

    /// Gives back pages that have been charged, and those of them that were taken from the zones.
    pub(crate) fn give_pages(&mut self, memcg: MemcgId, reach: Reach, charged: u64, taken: u64) {
        if memcg != MemcgId::ROOT {
            self.engine.memcgs.uncharge(memcg, charged);
        }
        self.give_loose(reach, taken);
    }

    /// Tells the zones what reclaim could free.
    fn update_reclaimable(&mut self) {
        for node in (0..self.engine.config().nr_nodes).map(NodeId) {
            let pages = self.engine.node_reclaimable(node);
            let zones = self.engine.zones.of_mut(node);
            let managed: u64 = zones.iter().map(|z| z.managed).sum();
            for z in zones {
                z.reclaimable = pages * z.managed / managed.max(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;
    use crate::ctx::InlineClock;
    use crate::io::read::OpenFile;
    use crate::machine::MachineRun;
    use crate::mem::{MappingFlags, MappingId};
    use coldset_engine::memcg::CounterKind;
    use coldset_engine::switches::presets::preset;

    const SECOND: u64 = 1_000_000_000;

    /// A memcg whose 70 pages of anonymous memory, which cannot leave, are above its memory.high. Near its limit pages are
    /// charged one by one.
    struct Above {
        run: MachineRun,
        ctx: Ctx,
        memcg: MemcgId,
        map: MappingId,
    }

    impl Above {
        fn new() -> Self {
            let mut run = MachineRun::new(&MachineConfig::new(preset("v73").unwrap())).unwrap();
            let m = run.machine.clone();
            let memcg = m.limited_memcg(130);
            let mm = m.create_mm(memcg);
            let ctx = Ctx::inline(mm, memcg, InlineClock::Running);
            let map = m.mmap(mm, m.create_anon(100), 0, 100, MappingFlags::empty());
            for page in 0..70 {
                run.run_inline(&ctx, m.access(&ctx, map, page, true))
                    .unwrap();
            }
            m.world_mut().engine.memcgs.drain_stocks(memcg);
            m.world_mut()
                .engine
                .memcgs
                .set_high(memcg, CounterKind::Memory, 20)
                .unwrap();
            Self {
                run,
                ctx,
                memcg,
                map,
            }
        }

        /// The seconds that an operation takes, and the pages that it reads.
        fn spent(&mut self, operation: impl FnOnce(&mut MachineRun, &Ctx)) -> (f64, i64) {
            let machine = self.run.machine.clone();
            let read = || {
                machine
                    .world()
                    .engine
                    .memcgs
                    .live(self.memcg, Counter::Pgpgin)
            };
            let before = (self.ctx.now(), read());
            operation(&mut self.run, &self.ctx);
            let ns = self.ctx.now() - before.0;
            assert_eq!(self.ctx.over_high.borrow().over_high, 0);
            (ns as f64 / SECOND as f64, (read() - before.1) / 4)
        }
    }

    /// Each page of a read that was above memory.high made the task reclaim, which took the pages before it, and sleep.
    #[test]
    fn a_system_call_makes_up_for_memory_high_once() {
        let mut above = Above::new();
        let m = above.run.machine.clone();
        let file = m.create_file(0, 100);
        let (seconds, read) = above.spent(|run, ctx| {
            run.run_inline(ctx, m.read(ctx, &OpenFile::new(file), 0, 40))
                .unwrap();
        });
        assert_eq!(read, 40);
        assert!((1.9..2.5).contains(&seconds), "{seconds} s");
        let (seconds, _) = above.spent(|run, ctx| {
            run.run_inline(ctx, m.write(ctx, file, 50, 40, true))
                .unwrap();
        });
        assert!((1.9..2.5).contains(&seconds), "{seconds} s");
    }

    /// Whoever has charged more than a batch above it does not go on before it has made up for it.
    #[test]
    fn far_above_memory_high_a_call_is_interrupted() {
        let mut above = Above::new();
        let m = above.run.machine.clone();
        let file = OpenFile::new(m.create_file(0, 400));
        let (seconds, _) = above.spent(|run, ctx| {
            run.run_inline(ctx, m.read(ctx, &file, 0, 150)).unwrap();
        });
        assert!((3.9..6.5).contains(&seconds), "{seconds} s");
    }

    /// Faults, and what takes no future.
    #[test]
    fn every_return_to_user_space_makes_up_for_memory_high() {
        let mut above = Above::new();
        let m = above.run.machine.clone();
        let file = m.create_file(0, 100);
        let mapped = m.mmap(above.ctx.mm, file, 0, 100, MappingFlags::empty());
        let open = OpenFile::new(file);
        let anon = above.map;
        type Operation<'a> = Box<dyn FnOnce(&mut MachineRun, &Ctx) -> Result<(), OpError> + 'a>;
        let operations: [Operation<'_>; 4] = [
            Box::new(|run, ctx| run.run_inline(ctx, m.access(ctx, anon, 80, true))),
            Box::new(|run, ctx| run.run_inline(ctx, m.access(ctx, mapped, 0, false))),
            Box::new(|run, ctx| run.load(ctx, mapped, 1)),
            Box::new(|run, ctx| run.read(ctx, &open, 2)),
        ];
        for (i, operation) in operations.into_iter().enumerate() {
            let (seconds, _) = above.spent(|run, ctx| operation(run, ctx).unwrap());
            assert!(seconds > 0.01, "operation {i} took {seconds} s");
        }
    }
}
