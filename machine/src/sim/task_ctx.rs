//! What the executor knows of a task, and who waits for what.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::class::{TaskTimes, TimeClass, TIME_CLASSES};
use super::mask::CpuMask;

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
    /// It queues since it was woken, and not since its slice was over.
    pub newcomer: Cell<bool>,
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
    pub charged: Cell<u64>,
    /// The part of `charged` that has occupied a CPU, ns.
    pub settled: Cell<u64>,
    /// `charged` at which the next settle is due.
    pub settle_at: Cell<u64>,
    pub class: Cell<TimeClass>,
    /// `charged` when the present class was entered.
    pub class_mark: Cell<u64>,
    pub blocked_class: Cell<TimeClass>,
    /// When the task left the CPU, or became runnable.
    pub since: Cell<u64>,
    pub times: [Cell<u64>; TIME_CLASSES],
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
            newcomer: Cell::new(false),
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

/// One place in a queue.
pub(super) struct Place {
    ctx: Rc<TaskCtx>,
    /// Tells the places of one task apart.
    pub token: u64,
    pub woken: Cell<bool>,
}

/// Who waits, first come first.
#[derive(Default)]
pub(super) struct WaitList {
    places: VecDeque<Rc<Place>>,
}

impl WaitList {
    pub fn enter(&mut self, ctx: &Rc<TaskCtx>) -> Rc<Place> {
        let token = ctx.last_token.get() + 1;
        ctx.last_token.set(token);
        let place = Rc::new(Place {
            ctx: ctx.clone(),
            token,
            woken: Cell::new(false),
        });
        self.places.push_back(place.clone());
        place
    }

    pub fn leave(&mut self, place: &Rc<Place>) {
        if let Some(at) = self.places.iter().position(|p| Rc::ptr_eq(p, place)) {
            self.places.remove(at);
        }
    }

    /// Takes the first off the list and has its task woken by `wake`, unless it is blocked
    /// elsewhere: then it sleeps on. False if nobody waits.
    pub fn wake_one(&mut self, wake: impl FnOnce(&TaskCtx)) -> bool {
        let Some(place) = self.places.pop_front() else {
            return false;
        };
        place.woken.set(true);
        if place.ctx.blocked_on.get() == place.token {
            wake(&place.ctx);
        }
        true
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }
}
