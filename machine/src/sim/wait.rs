//! The ways a task suspends: settle, sleep, wait queue, join, yield.
//!
//! Charged time is settled before every sleep. A waiter is on its queue from the moment it calls,
//! so a wake-up while it still settles is not lost.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::class::TimeClass;
use super::handle::Sim;
use super::task::Task;
use super::task_ctx::{Place, TaskId, WaitList};

/// A FIFO queue of waiting tasks. Clones refer to the same queue.
#[derive(Clone)]
pub struct WaitQueue {
    sim: Sim,
    list: Rc<RefCell<WaitList>>,
    latency_ns: u64,
}

impl WaitQueue {
    /// An empty queue with the simulation's wake latency.
    #[must_use]
    pub fn new(sim: &Sim) -> Self {
        Self::with_latency(sim, sim.config().wake_latency_ns)
    }

    /// An empty queue; a task woken from it is runnable after `latency_ns`.
    #[must_use]
    pub fn with_latency(sim: &Sim, latency_ns: u64) -> Self {
        Self {
            sim: sim.clone(),
            list: Rc::default(),
            latency_ns,
        }
    }

    /// Waits until woken. The time counts as [`TimeClass::Idle`].
    pub async fn wait(&self) {
        self.enter(TimeClass::Idle, None).await;
    }

    /// Waits until woken. The time counts as `class`.
    pub async fn wait_as(&self, class: TimeClass) {
        self.enter(class, None).await;
    }

    /// Waits until woken or until `ns` have passed on the task's own clock. True if woken.
    pub async fn wait_timeout(&self, ns: u64) -> bool {
        self.wait_timeout_as(TimeClass::Idle, ns).await
    }

    /// As [`WaitQueue::wait_timeout`]; the time counts as `class`.
    pub async fn wait_timeout_as(&self, class: TimeClass, ns: u64) -> bool {
        let deadline = self.sim.current().local_now().saturating_add(ns);
        self.enter(class, Some(deadline)).await
    }

    /// Waits until woken or until a time. True if woken.
    pub async fn wait_until_as(&self, class: TimeClass, deadline: u64) -> bool {
        self.enter(class, Some(deadline)).await
    }

    /// Puts the current task on the queue at once; the returned future waits. For the pattern
    /// "queue, check the condition, wait". Dropping the future leaves the queue.
    pub fn enter(&self, class: TimeClass, deadline: Option<u64>) -> Wait {
        let task = self.sim.current();
        let place = self.list.borrow_mut().enter(&task.ctx);
        Wait {
            task,
            list: self.list.clone(),
            place,
            class,
            deadline,
            step: WaitStep::Settle,
        }
    }

    /// Wakes the task that has waited longest. False if nobody waits.
    pub fn wake_one(&self) -> bool {
        let wake = |task: &_| self.sim.inner.wake(task, self.latency_ns);
        self.list.borrow_mut().wake_one(wake)
    }

    /// Wakes everybody, in the order they came. Returns how many.
    pub fn wake_all(&self) -> usize {
        let mut woken = 0;
        while self.wake_one() {
            woken += 1;
        }
        woken
    }

    /// How many tasks wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.borrow().len()
    }

    /// True if nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitQueue")
            .field("waiting", &self.len())
            .finish()
    }
}

/// The token of a sleep, which is on no queue.
const NOTHING: u64 = 0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitStep {
    Settle,
    Settled,
    Blocked,
}

/// A place in a wait queue; resolves to true if woken, to false at the deadline.
#[must_use = "a wait does nothing unless awaited"]
pub struct Wait {
    task: Task,
    list: Rc<RefCell<WaitList>>,
    place: Rc<Place>,
    class: TimeClass,
    deadline: Option<u64>,
    step: WaitStep,
}

impl Future for Wait {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<bool> {
        if self.step == WaitStep::Settle {
            self.step = WaitStep::Settled;
            if !self.task.start_settle() {
                return Poll::Pending;
            }
        }
        let late = self
            .deadline
            .is_some_and(|deadline| deadline <= self.task.sim.now());
        let woken = self.place.woken.get();
        if self.step == WaitStep::Blocked || woken || late {
            return Poll::Ready(woken);
        }
        self.step = WaitStep::Blocked;
        let task = &self.task;
        task.ctx.blocked_on.set(self.place.token);
        task.sim.inner.block(&task.ctx, self.deadline, self.class);
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if !self.place.woken.get() {
            self.list.borrow_mut().leave(&self.place);
        }
    }
}

/// Occupies the CPU for the charged time; see [`Task::settle`].
#[must_use = "futures do nothing unless awaited"]
pub struct Settle<'a> {
    task: &'a Task,
    started: bool,
}

impl Future for Settle<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.started || self.task.start_settle() {
            return Poll::Ready(());
        }
        self.started = true;
        Poll::Pending
    }
}

struct Sleep<'a> {
    task: &'a Task,
    until: u64,
    class: TimeClass,
    step: WaitStep,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.step == WaitStep::Settle {
            self.step = WaitStep::Settled;
            if !self.task.start_settle() {
                return Poll::Pending;
            }
        }
        if self.step == WaitStep::Blocked || self.until <= self.task.sim.now() {
            return Poll::Ready(());
        }
        self.step = WaitStep::Blocked;
        let task = self.task;
        task.ctx.blocked_on.set(NOTHING);
        let until = Some(self.until);
        task.sim.inner.block(&task.ctx, until, self.class);
        Poll::Pending
    }
}

struct Yield<'a> {
    task: &'a Task,
    yielded: bool,
}

struct StandBy<'a> {
    task: &'a Task,
    stood: bool,
}

impl Future for StandBy<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.stood, true) {
            return Poll::Ready(());
        }
        self.task.ctx.parked.set(true);
        self.task.sim.inner.begin_run(&self.task.ctx, 0);
        Poll::Pending
    }
}

impl Future for Yield<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        self.task.sim.inner.yield_cpu(&self.task.ctx);
        Poll::Pending
    }
}

impl Task {
    /// Begins to occupy the CPU for the pending time. True if there is nothing to wait for.
    fn start_settle(&self) -> bool {
        debug_assert!(
            self.sim
                .try_current()
                .is_some_and(|task| task.id() == self.id()),
            "a task suspends only itself"
        );
        let inner = &self.sim.inner;
        let ns = self.ctx.take_pending(inner.config.quantum_ns);
        if ns == 0 || inner.try_pass(&self.ctx, ns) {
            return true;
        }
        self.ctx.parked.set(true);
        inner.begin_run(&self.ctx, ns);
        false
    }

    /// Occupies the CPU for all time charged so far.
    pub fn settle(&self) -> Settle<'_> {
        Settle {
            task: self,
            started: false,
        }
    }

    /// Settles if at least a quantum is pending; below that it is one comparison.
    #[inline]
    pub fn maybe_settle(&self) -> Settle<'_> {
        Settle {
            task: self,
            started: !self.settle_due(),
        }
    }

    /// Occupies the CPU for `ns`, with what was charged before.
    pub fn run_for(&self, ns: u64) -> Settle<'_> {
        self.charge(ns);
        self.settle()
    }

    /// Sleeps until a time, at which the task is runnable. The time counts as `class`.
    pub async fn sleep_until_as(&self, class: TimeClass, until: u64) {
        let task = self;
        let step = WaitStep::Settle;
        Sleep {
            task,
            until,
            class,
            step,
        }
        .await;
    }

    /// Sleeps for `ns` on the task's own clock. The time counts as `class`.
    pub async fn sleep_as(&self, class: TimeClass, ns: u64) {
        let until = self.local_now().saturating_add(ns);
        self.sleep_until_as(class, until).await;
    }

    /// Lets other events of this moment go first. Unlike with [`Self::yield_now`], the task keeps its CPU.
    pub async fn stand_by(&self) {
        self.settle().await;
        StandBy {
            task: self,
            stood: false,
        }
        .await;
    }

    /// Settles, then lets other tasks of this CPU and other events of this moment go first.
    pub async fn yield_now(&self) {
        self.settle().await;
        let yielded = false;
        Yield {
            task: self,
            yielded,
        }
        .await;
    }
}

impl Sim {
    /// Occupies a CPU for `ns`, with what the current task charged before.
    pub async fn cpu(&self, ns: u64) {
        self.current().run_for(ns).await;
    }

    /// Occupies the CPU for what the current task has charged; see [`Task::settle`].
    pub async fn settle(&self) {
        self.current().settle().await;
    }

    /// See [`Task::maybe_settle`].
    pub async fn maybe_settle(&self) {
        self.current().maybe_settle().await;
    }

    /// The current task sleeps until a time, [idle](TimeClass::Idle).
    pub async fn sleep_until(&self, until: u64) {
        self.current().sleep_until_as(TimeClass::Idle, until).await;
    }

    /// The current task sleeps for `ns`, [idle](TimeClass::Idle).
    pub async fn sleep(&self, ns: u64) {
        self.current().sleep_as(TimeClass::Idle, ns).await;
    }

    /// See [`Task::yield_now`].
    pub async fn yield_now(&self) {
        self.current().yield_now().await;
    }

    /// Waits until a task has ended, by itself or by a kill. Returns at once if it is gone.
    pub async fn join(&self, id: TaskId) {
        let Some(other) = self.task(id) else {
            return;
        };
        let task = self.current();
        task.settle().await;
        if other.is_done() {
            return;
        }
        let place = other.ctx.joiners.borrow_mut().enter(&task.ctx);
        Join { task, other, place }.await;
    }
}

struct Join {
    task: Task,
    other: Task,
    place: Rc<Place>,
}

impl Future for Join {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.place.woken.get() {
            return Poll::Ready(());
        }
        self.task.ctx.blocked_on.set(self.place.token);
        let inner = &self.task.sim.inner;
        inner.block(&self.task.ctx, None, TimeClass::Idle);
        Poll::Pending
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        let mut joiners = self.other.ctx.joiners.borrow_mut();
        joiners.leave(&self.place);
    }
}
