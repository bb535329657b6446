//! The handle through which tasks and the machine use the simulation.

use std::future::Future;
use std::rc::Rc;

use super::class::{TaskTimes, TimeClass};
use super::config::SimConfig;
use super::cpus::CpuStats;
use super::event::Action;
use super::mask::CpuMask;
use super::sched::{ContextSwitch, SimState, TaskSlot};
use super::task::{Affinity, Task};
use super::task_ctx::{RunState, TaskCtx, TaskId};

/// Waits of fewer ticks than this end at any tick; of fewer than eight times as many, at every eighth; and so on.
const WHEEL_LEVEL: u64 = 63;
/// Longest distance of the ticks at which waits end.
const WHEEL_COARSEST: u64 = 1 << 24;

/// A cheap handle on the simulation: clock, tasks, CPUs. Clones refer to the same simulation.
///
/// The handle does not keep the tasks alive: they belong to the [`Executor`](super::Executor).
#[derive(Clone)]
pub struct Sim {
    pub(super) inner: Rc<SimState>,
}

impl Sim {
    /// Virtual time since the start, ns.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.inner.now.get()
    }

    /// The configuration the executor was made with.
    #[must_use]
    pub fn config(&self) -> &SimConfig {
        &self.inner.config
    }

    /// A task queues for the CPU.
    #[must_use]
    pub fn anyone_queues_on(&self, cpu: u16) -> bool {
        self.inner.queues_on(cpu, |_| true)
    }

    /// A task queues for the CPU that was woken and has not had it since.
    #[must_use]
    pub fn newcomer_queues_on(&self, cpu: u16) -> bool {
        self.inner.queues_on(cpu, |task| task.newcomer.get())
    }

    /// Starts a task. It is polled first when it has got a CPU, at the present time at the
    /// earliest. A mask without any CPU that exists means all CPUs.
    pub fn spawn(
        &self,
        name: &str,
        affinity: Affinity,
        future: impl Future<Output = ()> + 'static,
    ) -> TaskId {
        let inner = &self.inner;
        let off_cpu = affinity == Affinity::Off;
        let mask = match affinity {
            Affinity::Any | Affinity::Off => inner.all_cpus,
            Affinity::Mask(mask) => self.usable(mask),
        };
        let slot = inner.free_slots.borrow_mut().pop().unwrap_or_else(|| {
            let mut slots = inner.slots.borrow_mut();
            slots.push(TaskSlot {
                task: None,
                generation: 0,
                epoch: 0,
            });
            u32::try_from(slots.len() - 1).expect("fewer than 2^32 live tasks")
        });
        let ctx = {
            let mut slots = inner.slots.borrow_mut();
            let entry = &mut slots[slot as usize];
            let id = TaskId {
                slot,
                generation: entry.generation,
            };
            let ctx = Rc::new(TaskCtx::new(id, name, off_cpu, mask, entry.epoch));
            entry.task = Some(ctx.clone());
            ctx
        };
        if !off_cpu {
            ctx.cpu.set(inner.start_cpu(&mask));
        }
        ctx.since.set(self.now());
        ctx.take_pending(inner.config.quantum_ns);
        let task = Task {
            sim: self.clone(),
            ctx: ctx.clone(),
        };
        let whole = async move {
            future.await;
            task.settle().await;
        };
        inner.live.set(inner.live.get() + 1);
        inner.spawned.borrow_mut().push((slot, Box::pin(whole)));
        inner.attention.set(true);
        inner.schedule(&ctx, self.now());
        ctx.id
    }

    /// Ends a task: its future is dropped before the next event, or, if the task kills itself,
    /// where it suspends next. Killing a task that is gone does nothing.
    pub fn kill(&self, id: TaskId) {
        if let Some(task) = self.task(id) {
            self.inner.doomed.borrow_mut().push(task.ctx);
            self.inner.attention.set(true);
        }
    }

    /// Makes [`Executor::run`](super::Executor::run) return before the next event.
    pub fn stop(&self) {
        self.inner.stop.set(true);
    }

    /// The task that is being polled.
    ///
    /// # Panics
    /// Outside of a task, which is a mistake of the caller.
    #[inline]
    #[must_use]
    pub fn current(&self) -> Task {
        self.try_current()
            .expect("Sim::current is for code that runs inside a task")
    }

    /// The task that is being polled, if any.
    #[inline]
    #[must_use]
    pub fn try_current(&self) -> Option<Task> {
        let ctx = self.inner.current.borrow().clone()?;
        Some(Task {
            sim: self.clone(),
            ctx,
        })
    }

    /// A handle on a task that has not ended.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<Task> {
        let slots = self.inner.slots.borrow();
        let ctx = slots.get(id.slot as usize)?.task.clone()?;
        (ctx.id == id && ctx.state.get() != RunState::Done).then(|| Task {
            sim: self.clone(),
            ctx,
        })
    }

    /// All tasks that have not ended, in the order of their slots.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let slots = self.inner.slots.borrow();
        let alive = slots.iter().filter_map(|slot| slot.task.clone());
        alive
            .map(|ctx| Task {
                sim: self.clone(),
                ctx,
            })
            .collect()
    }

    /// How many tasks have not ended.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        self.inner.live.get()
    }

    /// Calls a closure at a time (now, if it has passed), outside of any task. Cheaper than a
    /// task for completions.
    pub fn call_at(&self, time: u64, call: impl FnOnce() + 'static) {
        let inner = &self.inner;
        let mut calls = inner.calls.borrow_mut();
        let slot = inner.free_calls.borrow_mut().pop().unwrap_or_else(|| {
            calls.push(None);
            u32::try_from(calls.len() - 1).expect("fewer than 2^32 pending calls")
        });
        calls[slot as usize] = Some(Box::new(call));
        let time = time.max(self.now());
        inner.events.borrow_mut().push(time, Action::Call { slot });
    }

    /// An interrupt takes `ns` from whatever runs on the CPU, or keeps an idle CPU busy that
    /// long. A CPU that does not exist is ignored.
    pub fn steal(&self, cpu: u16, ns: u64) {
        self.inner.steal(cpu, ns);
    }

    /// The task that has the CPU.
    #[must_use]
    pub fn running_on(&self, cpu: u16) -> Option<Task> {
        let ctx = self.inner.running_on(cpu)?;
        Some(Task {
            sim: self.clone(),
            ctx,
        })
    }

    /// The CPUs without a task.
    #[must_use]
    pub fn idle_cpus(&self) -> CpuMask {
        self.inner.idle_cpus()
    }

    /// The totals of a CPU so far; zeros for one that does not exist.
    #[must_use]
    pub fn cpu_stats(&self, cpu: u16) -> CpuStats {
        self.inner.cpu_stats(cpu)
    }

    /// Installs the hook that sees every context switch (for TLB state) and says how much longer
    /// the switch takes, ns. It may read the simulation and must not start, wake or kill tasks.
    pub fn set_switch_hook(&self, hook: impl Fn(ContextSwitch) -> u64 + 'static) {
        *self.inner.hook.borrow_mut() = Some(Rc::new(hook));
    }

    /// Installs what looks at the simulation from now on: it is called with the time and says when
    /// it is due next. It must change nothing.
    pub fn set_sampler(&self, sampler: impl Fn(u64) -> u64 + 'static) {
        *self.inner.sampler.borrow_mut() = Some(Rc::new(sampler));
        self.inner.sample_at.set(self.now());
    }

    /// Time of all tasks by class, ns, those that have ended included. A wait or a run that is still
    /// going on is added when it ends.
    #[must_use]
    pub fn times(&self) -> TaskTimes {
        let mut sum = *self.inner.ended.borrow();
        for slot in self.inner.slots.borrow().iter() {
            if let Some(task) = &slot.task {
                task.add_times(&mut sum);
            }
        }
        sum
    }

    /// Charges CPU time to the current task; see [`Task::charge`]. Code that has the [`Task`] at
    /// hand should charge there.
    ///
    /// # Panics
    /// Outside of a task.
    pub fn charge(&self, ns: u64) {
        let current = self.inner.current.borrow();
        let ctx = current
            .as_ref()
            .expect("Sim::charge is for code that runs inside a task");
        ctx.charge(ns);
    }

    /// Adds to a class of the current task without any time passing; see [`Task::account`].
    ///
    /// # Panics
    /// Outside of a task.
    pub fn account(&self, class: TimeClass, ns: u64) {
        self.current().account(class, ns);
    }

    /// The length of a timer tick, ns.
    #[must_use]
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / self.inner.config.hz
    }

    /// The first tick boundary after `now`, ns.
    #[must_use]
    pub fn tick_end(&self, now: u64) -> u64 {
        let tick = self.tick_ns();
        (now / tick + 1) * tick
    }

    /// The tick boundary at which a wait of `ticks` jiffies that begins at `now` ends, ns. A wait of none ends at once.
    ///
    /// Never early, so a wait of one tick ends at the second boundary. Long waits end at a multiple of 8, 64, ... ticks
    /// (`docs/rules/machine.md`).
    #[must_use]
    pub fn ticks_end(&self, now: u64, ticks: u64) -> u64 {
        if ticks == 0 {
            return now;
        }
        let tick = self.tick_ns();
        let mut unit = 1;
        while ticks >= WHEEL_LEVEL * unit && unit < WHEEL_COARSEST {
            unit *= 8;
        }
        let due = (now / tick).saturating_add(ticks);
        (due / unit + 1).saturating_mul(unit).saturating_mul(tick)
    }

    /// The CPUs of the mask that exist, or all if there are none.
    pub(super) fn usable(&self, mask: CpuMask) -> CpuMask {
        let usable = mask.and(&self.inner.all_cpus);
        if usable.is_empty() {
            self.inner.all_cpus
        } else {
            usable
        }
    }
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim")
            .field("now", &self.now())
            .field("tasks", &self.live_tasks())
            .finish()
    }
}
