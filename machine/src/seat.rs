//! A CPU for inline tasks (`docs/rules/machine.md#a-guests-cpu`): while one of them works, a companion on the executor
//! occupies the CPU in its place, and flushers wait for it as for any other task.

use crate::ctx::Ctx;
use crate::sim::{Affinity, Executor, Sim, TimeClass, WaitQueue};
use std::cell::Cell;
use std::rc::Rc;

/// What the companion is to do next, ns.
#[derive(Clone, Copy)]
enum Order {
    Work(u64),
    Wait(u64),
}

/// The companion of all inline tasks, of which one goes on at a time.
#[derive(Clone)]
pub(crate) struct Seat {
    order: Rc<Cell<Option<Order>>>,
    idle: WaitQueue,
}

impl Seat {
    pub fn new(sim: &Sim) -> Self {
        let seat = Self {
            order: Rc::default(),
            idle: WaitQueue::with_latency(sim, 0),
        };
        let (companion, here) = (seat.clone(), sim.clone());
        sim.spawn("inline", Affinity::Any, async move {
            companion.sit(here).await;
        });
        seat
    }

    async fn sit(self, sim: Sim) {
        let task = sim.current();
        loop {
            match self.order.get() {
                Some(Order::Work(ns)) => task.run_for(ns).await,
                Some(Order::Wait(ns)) => task.sleep_as(TimeClass::Idle, ns).await,
                None => {
                    self.idle.wait().await;
                    continue;
                }
            }
            self.order.set(None);
            sim.stop();
            task.stand_by().await;
        }
    }

    /// Lets the time pass that an inline task is ahead of the machine. What it has worked may take longer here.
    pub fn pass(&self, executor: &mut Executor, ctx: &Ctx) {
        let ns = ctx.now().saturating_sub(executor.now());
        let waited = ctx.take_waited().min(ns);
        self.do_order(executor, Order::Work(ns - waited));
        if waited > 0 {
            self.do_order(executor, Order::Wait(waited));
        }
        ctx.set_clock(executor.now());
    }

    fn do_order(&self, executor: &mut Executor, order: Order) {
        self.order.set(Some(order));
        self.idle.wake_one();
        while self.order.get().is_some() {
            executor.run();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sim::{Affinity, TimeClass};
    use crate::{Ctx, InlineClock, MachineConfig, MachineRun};
    use coldset_engine::presets::preset;
    use coldset_engine::MemcgId;
    use std::cell::Cell;
    use std::rc::Rc;

    const MS: u64 = 1_000_000;

    /// A machine with one CPU, an inline task, and a thread that wakes up after 1 ms, works 10 ms in steps of 100 us, and says
    /// when it begins and ends.
    fn beside(on_cpu: bool, inline: impl AsyncFnOnce(&Ctx)) -> (u64, u64, u64) {
        let mut cfg = MachineConfig::new(preset("v72").unwrap());
        cfg.inline_on_cpu = on_cpu;
        cfg.params.set("sched_slice_ns", 2 * MS).unwrap();
        let mut run = MachineRun::new(&cfg).unwrap();
        let times = Rc::new(Cell::new((0, 0)));
        let (told, sim) = (times.clone(), run.machine.sim.clone());
        run.machine.sim.spawn("thread", Affinity::Any, async move {
            sim.sleep(MS).await;
            for step in 0..100 {
                sim.cpu(MS / 10).await;
                let (begin, _) = told.get();
                let begin = if step == 0 {
                    sim.now() - MS / 10
                } else {
                    begin
                };
                told.set((begin, sim.now()));
            }
        });
        // The thread goes to sleep.
        run.run_until(0);
        let mm = run.machine.create_mm(MemcgId::ROOT);
        let ctx = Ctx::inline(mm, MemcgId::ROOT, InlineClock::Paced { reads: true });
        run.run_inline(&ctx, inline(&ctx));
        run.catch_up(&ctx);
        let end = ctx.now();
        run.run_until(100 * MS);
        let (begin, thread) = times.get();
        (end, begin, thread)
    }

    /// In pieces, so that the machine can catch up between them.
    async fn works(ctx: &Ctx) {
        for _ in 0..100 {
            ctx.charge(TimeClass::Fault, MS / 10);
            ctx.maybe_settle().await;
        }
    }

    #[test]
    fn who_works_shares_the_cpu() {
        // The thread waits until the slice is over, and what it works then is time that the inline task has not.
        let (end, begin, thread) = beside(true, works);
        assert!((2 * MS..2 * MS + MS / 10).contains(&begin), "{begin}");
        let both = 20 * MS;
        assert!(
            (both..both + MS / 10).contains(&end.max(thread)),
            "{end} {thread}"
        );
        assert!(end.min(thread) > 16 * MS, "{end} {thread}");
        // With CPUs of their own, neither waits for the other.
        let (end, begin, thread) = beside(false, works);
        assert_eq!((end, begin), (10 * MS, MS));
        assert_eq!(thread, 11 * MS);
    }

    #[test]
    fn who_waits_leaves_the_cpu() {
        let (end, begin, thread) = beside(true, async |ctx: &Ctx| {
            ctx.sleep_until(TimeClass::IoWait, 15 * MS).await;
        });
        assert!((15 * MS..15 * MS + MS / 100).contains(&end), "{end}");
        assert!((MS..MS + MS / 10).contains(&begin), "{begin}");
        assert!(thread < 11 * MS + MS / 10, "{thread}");
    }

    #[test]
    fn what_it_is_told_to_begin_at_is_work_until_then() {
        let (end, _, thread) = beside(true, async |ctx: &Ctx| ctx.set_clock(10 * MS));
        assert!(
            end.min(thread) > 16 * MS && end.max(thread) < 20 * MS + MS / 10,
            "{end} {thread}"
        );
    }
}
