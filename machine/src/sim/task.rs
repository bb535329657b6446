//! The handle on a task: its time accounts, and the ways to spend CPU time.

use std::rc::Rc;

use super::class::{TaskTimes, TimeClass};
use super::handle::Sim;
use super::lock::{Grant, TicketLock};
use super::mask::CpuMask;
use super::task_ctx::{RunState, TaskCtx, TaskId};

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

    /// The node of that CPU.
    #[inline]
    #[must_use]
    pub fn node(&self) -> u16 {
        self.sim.config().node_of(self.cpu())
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
        let grant = lock.acquire(self.local_now(), hold_ns, self.node());
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
