//! The event loop and the owner of the tasks' futures.

use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::config::SimConfig;
use super::event::Action;
use super::handle::Sim;
use super::sched::{LocalFuture, SimState};
use super::task_ctx::{RunState, TaskCtx};

/// Why a run returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// No event is pending. Tasks that are left wait for something that will never come.
    Drained {
        /// Tasks that have not ended.
        waiting: usize,
    },
    /// The time limit was reached; later events are pending.
    TimeReached,
    /// [`Sim::stop`] was called.
    Stopped,
}

/// Runs the simulated tasks in virtual time. Dropping it drops all of them.
///
/// Dereferences to [`Sim`], the handle that tasks clone.
pub struct Executor {
    sim: Sim,
    futures: Vec<Option<LocalFuture>>,
}

impl Executor {
    /// An executor at time 0 without tasks.
    ///
    /// # Panics
    /// If the configuration has no CPUs, more than [`MAX_CPUS`](super::MAX_CPUS), or a `hz` of 0
    /// or above 10^9; [`SimConfig::from_params`] never gives such values.
    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        assert!(
            (1..=super::MAX_CPUS).contains(&config.cpus),
            "cpus must be 1 to 256, is {}",
            config.cpus
        );
        assert!(
            (1..=1_000_000_000).contains(&config.hz),
            "hz must be 1 to 1000000000, is {}",
            config.hz
        );
        let inner = Rc::new(SimState::new(config));
        Self {
            sim: Sim { inner },
            futures: Vec::new(),
        }
    }

    /// A handle for tasks and devices.
    #[must_use]
    pub fn handle(&self) -> Sim {
        self.sim.clone()
    }

    /// Runs until no event is pending or [`Sim::stop`] is called.
    pub fn run(&mut self) -> RunEnd {
        self.run_events(u64::MAX)
    }

    /// Runs all events up to and including time `t`; the clock is at `t` afterwards, unless
    /// stopped before.
    pub fn run_until(&mut self, t: u64) -> RunEnd {
        let end = self.run_events(t);
        if end != RunEnd::Stopped {
            let now = &self.sim.inner.now;
            now.set(now.get().max(t));
        }
        end
    }

    fn run_events(&mut self, limit: u64) -> RunEnd {
        let inner = self.sim.inner.clone();
        inner.limit.set(limit);
        inner.stop.set(false);
        loop {
            if inner.attention.take() {
                self.attend();
            }
            if inner.stop.get() {
                return RunEnd::Stopped;
            }
            let event = {
                let mut events = inner.events.borrow_mut();
                match events.next_time() {
                    None => {
                        let waiting = inner.live.get();
                        return RunEnd::Drained { waiting };
                    }
                    Some(time) if time > limit => return RunEnd::TimeReached,
                    Some(_) => events.pop().expect("peeked"),
                }
            };
            debug_assert!(event.time >= inner.now.get(), "time runs backwards");
            if event.time > inner.sample_at.get() {
                inner.sample(event.time);
            }
            match event.action {
                Action::Task { slot, epoch } => {
                    let Some(ctx) = inner.expected_by(slot, epoch) else {
                        continue;
                    };
                    inner.now.set(event.time);
                    if inner.fire(&ctx) {
                        self.poll(&inner, ctx);
                    }
                }
                Action::Call { slot } => {
                    inner.now.set(event.time);
                    let call = inner.calls.borrow_mut()[slot as usize].take();
                    inner.free_calls.borrow_mut().push(slot);
                    call.expect("a call happens once")();
                }
            }
        }
    }

    /// Takes in new futures and drops those of killed tasks.
    fn attend(&mut self) {
        let inner = self.sim.inner.clone();
        loop {
            let spawned = std::mem::take(&mut *inner.spawned.borrow_mut());
            let doomed = std::mem::take(&mut *inner.doomed.borrow_mut());
            if spawned.is_empty() && doomed.is_empty() {
                inner.attention.set(false);
                return;
            }
            for (slot, future) in spawned {
                let slot = slot as usize;
                if self.futures.len() <= slot {
                    self.futures.resize_with(slot + 1, || None);
                }
                debug_assert!(self.futures[slot].is_none(), "slot in use");
                self.futures[slot] = Some(future);
            }
            for ctx in doomed {
                if ctx.state.get() != RunState::Done {
                    self.end(&inner, &ctx);
                }
            }
        }
    }

    fn poll(&mut self, inner: &Rc<SimState>, ctx: Rc<TaskCtx>) {
        ctx.parked.set(false);
        *inner.current.borrow_mut() = Some(ctx.clone());
        let future = self.futures[ctx.id.slot as usize]
            .as_mut()
            .expect("a live task has a future");
        let poll = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        *inner.current.borrow_mut() = None;
        match poll {
            Poll::Ready(()) => self.end(inner, &ctx),
            Poll::Pending => assert!(
                ctx.parked.get(),
                "task {} awaits something that is not of this simulation",
                ctx.name
            ),
        }
    }

    /// The task is over: frees its CPU and slot, drops its future, wakes those who join it.
    fn end(&mut self, inner: &Rc<SimState>, ctx: &Rc<TaskCtx>) {
        inner.detach(ctx);
        ctx.add_times(&mut inner.ended.borrow_mut());
        let slot = ctx.id.slot as usize;
        // Drop code of the future may use the handle, so nothing is borrowed here.
        drop(self.futures[slot].take());
        {
            let mut slots = inner.slots.borrow_mut();
            let entry = &mut slots[slot];
            entry.task = None;
            entry.generation = entry.generation.wrapping_add(1);
            entry.epoch = ctx.epoch.get().wrapping_add(1);
        }
        inner.free_slots.borrow_mut().push(ctx.id.slot);
        inner.live.set(inner.live.get() - 1);
        while ctx
            .joiners
            .borrow_mut()
            .wake_one(|task| inner.wake(task, 0))
        {}
    }
}

impl Deref for Executor {
    type Target = Sim;

    fn deref(&self) -> &Sim {
        &self.sim
    }
}

impl Drop for Executor {
    /// Breaks the cycles between the shared state and the futures and closures that hold handles.
    fn drop(&mut self) {
        let inner = &self.sim.inner;
        drop(std::mem::take(&mut self.futures));
        let spawned = std::mem::take(&mut *inner.spawned.borrow_mut());
        let calls = std::mem::take(&mut *inner.calls.borrow_mut());
        let hook = inner.hook.borrow_mut().take();
        let sampler = inner.sampler.borrow_mut().take();
        inner.events.borrow_mut().clear();
        drop((spawned, calls, hook, sampler));
    }
}
