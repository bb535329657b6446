//! Tasks: identity, state, accumulated time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::class::{TaskTimes, TimeClass, TIME_CLASSES};
use super::handle::Sim;
use super::lock::{Grant, TicketLock};
use super::mask::CpuMask;
use super::wait::WaitList;

/// Names a task for as long as it lives; a later task in the same slot has another generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl TaskId {
    /// The slot of the task: small and reused, good as an index of tables per live task.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }
}

/// Where a task may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Affinity {
    /// On every CPU.
    Any,
    /// On the CPUs of this set only; those that do not exist are ignored.
    Mask(CpuMask),
    /// On none: a timer, a device, an observer. Its CPU time passes without occupying a CPU.
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RunState {
    /// Waits for a wake-up, a timer, or both.
    Blocked,
    /// Woken; the wake latency is passing.
    Waking,
    /// Runnable, on the run queue of its CPU.
    Queued,
    /// Has its CPU (or needs none).
    Running,
    /// Finished or killed.
    Done,
}

/// Everything the executor knows of a task, but its future.
pub(super) struct TaskCtx {
    pub id: TaskId,
    pub name: Box<str>,
    pub off_cpu: bool,
    pub affinity: Cell<CpuMask>,
    pub state: Cell<RunState>,
    /// Changes whenever the task's pending event changes, so that old events are recognised.
    pub epoch: Cell<u32>,
    /// An event of the present epoch is in the queue.
    pub has_event: Cell<bool>,
    /// The CPU it has, is queued on, or had last.
    pub cpu: Cell<u16>,
    /// CPU time still to be had of the run that a preemption cut, ns.
    pub run_left: Cell<u64>,
    /// It is not preempted, though its slice may be used up.
    pub holds_cpu: Cell<bool>,
    /// A primitive has suspended the task during this poll.
    pub parked: Cell<bool>,
    /// The token of the newest place in a wait queue.
    pub last_token: Cell<u64>,
    /// The token of the place whose wake-up ends the present block.
    pub blocked_on: Cell<u64>,
    pub joiners: RefCell<WaitList>,
    pub tag: Cell<u32>,

    /// CPU time charged since the start, ns.
    charged: Cell<u64>,
    /// The part of `charged` that has occupied a CPU, ns.
    settled: Cell<u64>,
    /// `charged` at which the next settle is due.
    settle_at: Cell<u64>,
    class: Cell<TimeClass>,
    /// `charged` when the present class was entered.
    class_mark: Cell<u64>,
    pub blocked_class: Cell<TimeClass>,
    /// When the task left the CPU, or became runnable.
    pub since: Cell<u64>,
    times: [Cell<u64>; TIME_CLASSES],
}

impl TaskCtx {
    pub fn new(id: TaskId, name: &str, off_cpu: bool, mask: CpuMask, epoch: u32) -> Self {
        Self {
            id,
            name: name.into(),
            off_cpu,
            affinity: Cell::new(mask),
            state: Cell::new(RunState::Waking),
            epoch: Cell::new(epoch),
            has_event: Cell::new(false),
            cpu: Cell::new(0),
            run_left: Cell::new(0),
            holds_cpu: Cell::new(false),
            parked: Cell::new(false),
            last_token: Cell::new(0),
            blocked_on: Cell::new(0),
            joiners: RefCell::default(),
            tag: Cell::new(0),
            charged: Cell::new(0),
            settled: Cell::new(0),
            settle_at: Cell::new(0),
            class: Cell::new(TimeClass::User),
            class_mark: Cell::new(0),
            blocked_class: Cell::new(TimeClass::Idle),
            since: Cell::new(0),
            times: [const { Cell::new(0) }; TIME_CLASSES],
        }
    }

    #[inline]
    pub fn account(&self, class: TimeClass, ns: u64) {
        let cell = &self.times[class as usize];
        cell.set(cell.get() + ns);
    }

    #[inline]
    pub fn charge(&self, ns: u64) {
        self.charged.set(self.charged.get() + ns);
    }

    #[inline]
    pub fn pending(&self) -> u64 {
        self.charged.get() - self.settled.get()
    }

    /// Marks all pending time as taken and returns it, ns.
    pub fn take_pending(&self, quantum_ns: u64) -> u64 {
        let pending = self.pending();
        self.settled.set(self.charged.get());
        self.settle_at
            .set(self.charged.get().saturating_add(quantum_ns));
        pending
    }

    /// Adds the time by class so far, what has been charged to the present class included.
    pub fn add_times(&self, sum: &mut TaskTimes) {
        for (sum, own) in sum.0.iter_mut().zip(&self.times) {
            *sum += own.get();
        }
        sum.0[self.class.get() as usize] += self.charged.get() - self.class_mark.get();
    }

    /// Enters a class and returns the one that was left.
    pub fn enter(&self, class: TimeClass) -> TimeClass {
        let left = self.class.replace(class);
        self.account(left, self.charged.get() - self.class_mark.get());
        self.class_mark.set(self.charged.get());
        left
    }
}

/// A handle on a task: its time accounts, and the ways to spend CPU time.
///
/// The methods that suspend (`settle` and its relatives) are for the task itself only.
#[derive(Clone)]
pub struct Task {
    pub(super) sim: Sim,
    pub(super) ctx: Rc<TaskCtx>,
}

impl Task {
    /// The task's name.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.ctx.id
    }

    /// The name given at [`Sim::spawn`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.ctx.name
    }

    /// The simulation the task belongs to.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// True once the task has finished or was killed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ctx.state.get() == RunState::Done
    }

    /// The CPU the task has, is queued on, or had last. Meaningless for [`Affinity::Off`].
    #[must_use]
    pub fn cpu(&self) -> u16 {
        self.ctx.cpu.get()
    }

    /// Restricts the task to other CPUs, from its next wake-up or preemption on. CPUs that do not
    /// exist are ignored; an empty set means all.
    pub fn set_affinity(&self, mask: CpuMask) {
        self.ctx.affinity.set(self.sim.usable(mask));
    }

    /// A number of the owner's choice, reported at context switches (e.g. the address space).
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.ctx.tag.get()
    }

    /// Sets the number that [`Task::tag`] returns. A new task has 0.
    pub fn set_tag(&self, tag: u32) {
        self.ctx.tag.set(tag);
    }

    /// Adds CPU time to the task's account without suspending it. It occupies the CPU at the next
    /// settle, and every suspension settles first.
    #[inline]
    pub fn charge(&self, ns: u64) {
        self.ctx.charge(ns);
    }

    /// As [`Task::charge`], for a class other than the present one.
    #[inline]
    pub fn charge_as(&self, class: TimeClass, ns: u64) {
        let outer = self.ctx.enter(class);
        self.ctx.charge(ns);
        self.ctx.enter(outer);
    }

    /// Adds to a class without any time passing: for time that the executor cannot see.
    pub fn account(&self, class: TimeClass, ns: u64) {
        self.ctx.account(class, ns);
    }

    /// Charges go to `class` from now on. Returns the class before, to be restored by the caller.
    #[inline]
    pub fn enter(&self, class: TimeClass) -> TimeClass {
        self.ctx.enter(class)
    }

    /// The class that charges go to.
    #[must_use]
    pub fn class(&self) -> TimeClass {
        self.ctx.class.get()
    }

    /// Charged time that has not occupied a CPU yet, ns.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.ctx.pending()
    }

    /// The task's own time: the clock plus what it has charged ahead of it, ns.
    #[inline]
    #[must_use]
    pub fn local_now(&self) -> u64 {
        self.sim.now() + self.ctx.pending()
    }

    /// True if at least a quantum of charged time is pending. The cheapest check there is.
    #[inline]
    #[must_use]
    pub fn settle_due(&self) -> bool {
        self.ctx.charged.get() >= self.ctx.settle_at.get()
    }

    /// Turns preemption of the task off or on again. It may still block.
    pub fn hold_cpu(&self, held: bool) {
        self.ctx.holds_cpu.set(held);
    }

    /// Goes through a critical section of `hold_ns`: charges the wait to
    /// [`TimeClass::LockWait`] and the section to the present class.
    pub fn lock(&self, lock: &mut TicketLock, hold_ns: u64) -> Grant {
        let grant = self.take_lock(lock, hold_ns);
        self.charge(hold_ns);
        grant
    }

    /// As [`Self::lock`], the section being charged to `class`.
    pub fn lock_as(&self, class: TimeClass, lock: &mut TicketLock, hold_ns: u64) -> Grant {
        let grant = self.take_lock(lock, hold_ns);
        self.charge_as(class, hold_ns);
        grant
    }

    fn take_lock(&self, lock: &mut TicketLock, hold_ns: u64) -> Grant {
        lock.forget_before(self.sim.now());
        let grant = lock.acquire(
            self.local_now(),
            hold_ns,
            self.sim.config().node_of(self.cpu()),
        );
        if grant.wait > 0 {
            self.charge_as(TimeClass::LockWait, grant.wait);
        }
        grant
    }

    /// Time by class so far, ns. It adds up to the life of the task, but for a wait or a run that
    /// is still going on, which is added when it ends.
    #[must_use]
    pub fn times(&self) -> TaskTimes {
        self.ctx.enter(self.ctx.class.get());
        TaskTimes(std::array::from_fn(|i| self.ctx.times[i].get()))
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.ctx.id)
            .field("name", &self.ctx.name)
            .field("state", &self.ctx.state.get())
            .finish()
    }
}
