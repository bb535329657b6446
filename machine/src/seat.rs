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
