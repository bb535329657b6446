//! The host side of reclaim: doing what a [`ReclaimTask`] asks for, at what it costs.

use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::mem::Slot;
use crate::sim::{TicketLock, TimeClass};
use crate::world::World;
use coldset_engine::node::ThrottleReason;
use coldset_engine::reclaim::{Answer, Outcome, ReclaimTask, Work};
use coldset_engine::writeback::FlushReason;
use coldset_engine::{FolioId, NodeId};

/// What the task must wait for.
enum Pause {
    Throttle(ThrottleReason, NodeId, u32),
    Writeback(FolioId),
    Yield,
    Spin,
    OomKill,
    Done,
}

/// Lets the engine's task go if the simulated one is killed in a wait.
struct Running<'a> {
    machine: &'a Machine,
    ctx: &'a Ctx,
    task: Option<ReclaimTask>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Some(mut t) = self.task.take() {
            if let Ok(mut w) = self.machine.w.try_borrow_mut() {
                w.flush_deferred(self.ctx, false);
                t.abandon(&mut w.engine);
            }
        }
    }
}

impl Machine {
    /// Runs a reclaim task to its end. The CPU time goes to the one who reclaims.
    pub(crate) async fn reclaim(&self, ctx: &Ctx, task: ReclaimTask) -> Outcome {
        let mut run = Running {
            machine: self,
            ctx,
            task: Some(task),
        };
        loop {
            let task = run.task.as_mut().expect("running");
            let pause = {
                let mut w = self.w.borrow_mut();
                task.set_cpu(ctx.cpu());
                w.step_reclaim(ctx, task)
            };
            match pause {
                Pause::Done => break,
                Pause::Yield => {
                    ctx.maybe_settle().await;
                    let full = self.w.borrow_mut().swap_queue_full(ctx.now());
                    if let Some(until) = full {
                        ctx.io_until(until).await;
                    }
                }
                Pause::Spin => ctx.maybe_settle_held().await,
                Pause::Throttle(reason, node, ticks) => {
                    self.throttle(ctx, reason, node, ticks).await
                }
                Pause::Writeback(folio) => self.wait_folio(ctx, folio).await,
                Pause::OomKill => {
                    self.global_oom(ctx);
                }
            }
        }
        let task = run.task.take().expect("running");
        let out = task.outcome();
        {
            let mut w = self.w.borrow_mut();
            w.release_dead();
            if w.check {
                w.check();
            }
        }
        ctx.maybe_settle().await;
        out
    }

    async fn throttle(&self, ctx: &Ctx, reason: ThrottleReason, node: NodeId, ticks: u32) {
        let class = match reason {
            ThrottleReason::Writeback => TimeClass::ThrottleWriteback,
            ThrottleReason::Isolated => TimeClass::ThrottleIsolated,
            ThrottleReason::NoProgress => TimeClass::ThrottleNoProgress,
            ThrottleReason::Congested => TimeClass::ThrottleCongested,
        };
        let until = self.sim.ticks_end(ctx.now(), u64::from(ticks));
        if ctx.task().is_none() {
            ctx.sleep_until(class, until).await;
            return;
        }
        let queue = self.w.borrow().throttled[node.idx()][reason as usize].clone();
        queue.wait_until_as(class, until).await;
    }
}

impl World {
    /// Steps a task as far as it needs no wait, and answers what it asks for.
    fn step_reclaim(&mut self, ctx: &Ctx, task: &mut ReclaimTask) -> Pause {
        self.report_switches();
        loop {
            self.engine.set_now(ctx.now());
            let work = self.step_lists(task);
            self.pay(ctx);
            if self.engine.has_dropped_shadow_nodes() {
                self.empty_dropped_nodes();
            }
            if self.engine.has_newly_dirty() {
                // Folios that must be written once more.
                self.note_dirty(ctx);
            }
            match work {
                Work::Test {
                    folio,
                    target,
                    look_around,
                } => {
                    self.prefetch_victims(task.begun());
                    if let Some(&victim) = task.coming().first() {
                        self.prefetch_shared(victim);
                        if look_around.is_some() {
                            self.prefetch_neighbours(victim);
                        }
                    }
                    let r = self.test_references(ctx, folio, target, look_around);
                    task.answer(Answer::References(r));
                }
                Work::Walk(walk) => {
                    let walked = self.walk_mm(ctx, &walk);
                    task.answer(walked);
                    if matches!(walked, Answer::Stretch { next: Some(_), .. }) {
                        return Pause::Yield;
                    }
                }
                Work::Unmap { folio } => {
                    let (deferred, writable) = self.unmap_folio(ctx, folio);
                    task.answer(Answer::Unmapped { deferred, writable });
                }
                Work::Victim { .. } => unreachable!("answered at once"),
                Work::FlushTlb { for_write } => self.flush_deferred(ctx, for_write),
                Work::AllocSwap { folio } => {
                    let slot = self.alloc_swap(ctx, folio);
                    task.answer(Answer::Slot(slot));
                }
                Work::Split { folio } => {
                    self.move_to_pieces(folio, task.pieces());
                    task.answer(Answer::Split(true));
                }
                Work::FreeSwap { slot, .. } => self.free_swap_of(ctx, slot),
                Work::Write { folio } => {
                    let written = self.write_for_reclaim(ctx, folio);
                    task.answer(Answer::Written(written));
                }
                Work::Detach | Work::Free => self.drop_freed(ctx, task),
                Work::WakeFlushers => {
                    let now = ctx.now();
                    let wake = self.wb.wake(FlushReason::Vmscan, now);
                    self.run_flushers(&wake);
                }
                Work::WakeThrottled { reason, node } => self.wake_throttled(node, reason),
                Work::Balance { node } => self.open_reserve_gate(node),
                Work::Throttle {
                    reason,
                    node,
                    ticks,
                } => return Pause::Throttle(reason, node, ticks),
                Work::WaitWriteback { folio } => return Pause::Writeback(folio),
                Work::OomKill => return Pause::OomKill,
                Work::Yield => return Pause::Yield,
                Work::Spin => return Pause::Spin,
                Work::Done => return Pause::Done,
            }
        }
    }

    /// Steps a task. Victims are named on the way, for they are taken under one lock.
    fn step_lists(&mut self, task: &mut ReclaimTask) -> Work {
        loop {
            let work = task.step(&mut self.engine);
            let Work::Victim { lruvec, lru_type } = work else {
                return work;
            };
            let engine = &mut self.engine;
            let named = self.desk.as_mut();
            let named = named.and_then(|desk| desk.victim(engine, lruvec, lru_type));
            task.answer(Answer::Victim(named));
        }
    }

    /// Charges the work that the engine has done since the last call.
    pub(crate) fn pay(&mut self, ctx: &Ctx) {
        if self.engine.meter.is_zero() {
            return;
        }
        let m = self.engine.meter.take();
        let p = &self.params;
        let hold = m.locks * p.lru_lock_ns + m.list_ops * p.list_op_ns;
        let class = TimeClass::AllocStall;
        let looks = m.scanned * p.scan_page_ns + m.kept * p.kept_page_ns;
        ctx.charge(class, m.freed * p.page_free_ns + looks);
        if m.freed > 0 {
            let node = match m.lruvec.is_some() {
                true => self.engine.lruvec(m.lruvec).node,
                false => ctx.node(),
            };
            self.page_lists.give(ctx, p, node, m.freed);
        }
        // One shrinker is always there, that of the shadows.
        ctx.charge(class, m.visits * (p.shrinker_call_ns + p.shrinker_each_ns));
        match ctx.task() {
            Some(task) if m.lruvec.is_some() => {
                if self.locks.len() <= m.lruvec.idx() {
                    let (near, far) = (p.lock_handoff_local_ns, p.lock_handoff_remote_ns);
                    self.locks
                        .resize_with(m.lruvec.idx() + 1, || TicketLock::new(near, far));
                }
                let grant = task.lock(&mut self.locks[m.lruvec.idx()], hold);
                // The lock is waited for and held with interrupts off.
                let from = grant.start - grant.wait;
                self.tlb
                    .interrupts_off(task.cpu(), from, grant.start + hold);
            }
            _ => ctx.charge(class, hold),
        }
    }

    /// Empties the slots of reclaimed folios and leaves their shadows.
    fn drop_freed(&mut self, ctx: &Ctx, task: &ReclaimTask) {
        for f in task.freed().iter().filter(|f| f.owned) {
            self.objects[f.object.idx()].prefetch(f.index);
        }
        let mut unwanted = Vec::new();
        for f in task.freed() {
            if !f.owned {
                continue;
            }
            let object = &mut self.objects[f.object.idx()];
            let mut written = 0;
            for (i, page) in (f.index..f.index + (1 << f.order)).enumerate() {
                let slot = f.swap.map(|first| first + i as u32);
                let held = object.word(page).folio();
                let is_it = |id: FolioId| {
                    let held = self.engine.folio(id);
                    held.refcount() == 0 && held.order() == f.order && held.owner().1 == f.index
                };
                if f.order > 0 && !held.is_some_and(is_it) {
                    // Dropped while the folio was on its way out.
                    unwanted.extend(slot);
                    continue;
                }
                match slot {
                    Some(slot) => {
                        object.set_slot(page, Slot::Swap(slot));
                        let shadow = f.shadow.map_or(0, |s| s.0 << 1 | 1);
                        self.swap
                            .as_mut()
                            .expect("swapped out")
                            .set_shadow(slot, shadow);
                    }
                    None => object.set_slot(page, f.shadow.map_or(Slot::Empty, Slot::Shadow)),
                }
                written += u64::from(object.detach_buffer(page));
                if let Some(c) = &mut object.contents {
                    // The copy in memory is gone: what comes back is what was written.
                    c.memory[page as usize] = c.disk[page as usize];
                }
            }
            for slot in unwanted.drain(..) {
                self.release_swap(ctx, slot);
            }
            if written > 0 {
                let l = self.engine.lruvec(f.lruvec);
                let (memcg, node) = (l.memcg, l.node);
                self.kernel_pages_released(memcg, node, written);
            }
            if f.shadow.is_some() && f.swap.is_none() {
                self.note_shadow_node(f.object, f.index, f.lruvec);
            }
        }
        self.pay(ctx);
    }
}
