//! A CPU for inline tasks (`docs/rules/machine.md#a-guests-cpu`): while one of them works, a companion on the executor
//! occupies the CPU in its place, and flushers wait for it as for any other task. It gives way when its slice is over, at
//! a tick that finds it used up, and to a task that was woken where the program goes on after an operation.

use crate::ctx::Ctx;
use crate::sim::{Affinity, Executor, Sim, TimeClass, WaitQueue};
use std::cell::Cell;
use std::rc::Rc;

/// Of one; the machine has no other.
const CPU: u16 = 0;

/// What the companion is to do next, ns.
#[derive(Clone, Copy)]
enum Order {
    Work(u64),
    Wait(u64),
    GiveWay,
}

/// The companion of all inline tasks, of which one goes on at a time.
#[derive(Clone)]
pub(crate) struct Seat {
    order: Rc<Cell<Option<Order>>>,
    idle: WaitQueue,
    /// Who else wants the CPU, and when ticks are.
    sim: Sim,
    /// When it last gave way or waited.
    begun: Rc<Cell<u64>>,
}

impl Seat {
    pub fn new(sim: &Sim) -> Self {
        let seat = Self {
            order: Rc::default(),
            idle: WaitQueue::with_latency(sim, 0),
            sim: sim.clone(),
            begun: Rc::default(),
        };
        let companion = seat.clone();
        sim.spawn("inline", Affinity::Any, async move {
            companion.sit().await;
        });
        seat
    }

    async fn sit(self) {
        let task = self.sim.current();
        loop {
            match self.order.get() {
                Some(Order::Work(ns)) => task.run_for(ns).await,
                Some(Order::Wait(ns)) => task.sleep_as(TimeClass::Idle, ns).await,
                Some(Order::GiveWay) => task.yield_now().await,
                None => {
                    self.idle.wait().await;
                    continue;
                }
            }
            self.order.set(None);
            self.sim.stop();
            task.stand_by().await;
        }
    }

    /// Lets the time pass that an inline task is ahead of the machine. What it has worked may take longer here.
    pub fn pass(&self, executor: &mut Executor, ctx: &Ctx) {
        let ns = ctx.now().saturating_sub(executor.now());
        let waited = ctx.take_waited().min(ns);
        self.work(executor, ns - waited);
        if waited > 0 {
            self.do_order(executor, Order::Wait(waited));
            self.begun.set(executor.now());
        }
        ctx.set_clock(executor.now());
    }

    /// Works from tick to tick. A tick that finds its slice used up takes the CPU from it, if no timer has done so before.
    fn work(&self, executor: &mut Executor, ns: u64) {
        let tick = 1_000_000_000 / self.sim.config().hz;
        let slice = self.sim.config().slice_ns;
        let mut left = ns;
        loop {
            let until_tick = tick - executor.now() % tick;
            let part = left.min(until_tick);
            self.do_order(executor, Order::Work(part));
            left -= part;
            let used_up = executor.now() - self.begun.get() >= slice;
            if part == until_tick && used_up && self.sim.anyone_queues_on(CPU) {
                self.give_way(executor);
            }
            if left == 0 {
                return;
            }
        }
    }

    /// The inline task is between two operations: a task that was woken has the CPU first.
    pub fn returns(&self, executor: &mut Executor) {
        if self.sim.newcomer_queues_on(CPU) {
            self.give_way(executor);
        }
    }

    fn give_way(&self, executor: &mut Executor) {
        self.do_order(executor, Order::GiveWay);
        self.begun.set(executor.now());
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
        let timed = |run: &mut MachineRun, ctx: &Ctx| run.run_inline(ctx, inline(ctx));
        let mut cfg = config();
        cfg.inline_on_cpu = on_cpu;
        beside_in(&cfg, timed)
    }

    /// Slices are 2 ms, and ticks come every 4.
    fn config() -> MachineConfig {
        let mut cfg = MachineConfig::new(preset("v72").unwrap());
        cfg.inline_on_cpu = true;
        for (name, value) in [("sched_slice_ns", 2 * MS), ("timer_hz", 250)] {
            cfg.params.set(name, value).unwrap();
        }
        cfg
    }

    fn beside_in(
        cfg: &MachineConfig,
        inline: impl FnOnce(&mut MachineRun, &Ctx),
    ) -> (u64, u64, u64) {
        let mut run = MachineRun::new(cfg).unwrap();
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
        inline(&mut run, &ctx);
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

    /// The program goes back to itself after each operation, and whoever waits has the CPU then.
    #[test]
    fn who_goes_on_after_an_operation_gives_way() {
        let (_, begin, _) = beside_in(&config(), |run, ctx| {
            for _ in 0..4 {
                run.run_inline(ctx, async {
                    for _ in 0..15 {
                        ctx.charge(TimeClass::Fault, MS / 10);
                        ctx.maybe_settle().await;
                    }
                });
            }
        });
        assert!((15 * MS / 10..16 * MS / 10).contains(&begin), "{begin}");
    }

    /// Without a timer, a tick ends the slice of a program, and nothing that of a thread.
    #[test]
    fn a_thread_keeps_the_cpu_where_no_timer_ends_its_slice() {
        let mut cfg = config();
        cfg.params.set("sched_hrtick_enabled", 0).unwrap();
        let (end, begin, thread) = beside_in(&cfg, |run, ctx| run.run_inline(ctx, works(ctx)));
        assert!((4 * MS..4 * MS + MS / 10).contains(&begin), "{begin}");
        assert!((14 * MS..14 * MS + MS / 10).contains(&thread), "{thread}");
        assert!((20 * MS..20 * MS + MS / 10).contains(&end), "{end}");
    }

    /// Ticks come every 1.6 ms, and the first finds the slice not used up.
    #[test]
    fn a_tick_ends_no_slice_that_is_not_used_up() {
        let mut cfg = config();
        for (name, value) in [("sched_hrtick_enabled", 0), ("timer_hz", 625)] {
            cfg.params.set(name, value).unwrap();
        }
        let (_, begin, _) = beside_in(&cfg, |run, ctx| run.run_inline(ctx, works(ctx)));
        let second = 32 * MS / 10;
        assert!((second..second + MS / 10).contains(&begin), "{begin}");
    }

    /// A thread whose slice is over takes turns with the program, however often that goes back to itself.
    #[test]
    fn only_who_was_woken_is_let_in_between_operations() {
        let (_, begin, thread) = beside_in(&config(), |run, ctx| {
            for _ in 0..100 {
                run.run_inline(ctx, async {
                    ctx.charge(TimeClass::Fault, MS / 10);
                    ctx.maybe_settle().await;
                });
            }
        });
        assert!((MS..12 * MS / 10).contains(&begin), "{begin}");
        assert!(thread > 16 * MS, "{thread}");
    }
}
