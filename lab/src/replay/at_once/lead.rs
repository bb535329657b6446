//! When tasks that play at once begin, and how far they may be ahead of each other.

use crate::traces::BEGINNING;
use coldset_machine::sim::{Sim, TimeClass, WaitQueue};
use std::cell::{Cell, RefCell};

/// The next access of each task, and those who wait for others.
pub(super) struct Lead {
    /// How many accesses of the trace somebody may be ahead; none: any number.
    most: Option<u64>,
    /// By task: the number of its next access in the trace; the greatest number at its end.
    next: RefCell<Vec<u64>>,
    /// The least of them.
    last: Cell<u64>,
    waiting: WaitQueue,
    /// Accesses done, of all tasks.
    done: Cell<u64>,
    /// Somebody begins when so many have been done.
    begins: Cell<u64>,
    unborn: WaitQueue,
}

impl Lead {
    /// Of tasks whose first accesses are these.
    pub fn new(most: Option<u64>, first: Vec<u64>, sim: &Sim) -> Self {
        Self {
            most,
            last: Cell::new(first.iter().copied().min().unwrap_or(u64::MAX)),
            next: RefCell::new(first),
            waiting: WaitQueue::new(sim),
            done: Cell::new(0),
            begins: Cell::new(u64::MAX),
            unborn: WaitQueue::new(sim),
        }
    }

    /// A task begins with this access, when the accesses before it have been done ([`BEGINNING`]). They are all of tasks
    /// that began before, so that nobody waits for ever.
    pub async fn begin(&self, first: u64) {
        let at = first.saturating_sub(BEGINNING);
        while self.done.get() < at {
            self.begins.set(self.begins.get().min(at));
            self.unborn.wait_as(TimeClass::Idle).await;
        }
    }

    /// So many more accesses have been done. Returns how many that makes.
    pub fn did(&self, accesses: u64) -> u64 {
        let done = self.done.get() + accesses;
        self.done.set(done);
        if done >= self.begins.get() {
            self.begins.set(u64::MAX);
            self.unborn.wake_all();
        }
        done
    }

    /// Accesses done.
    pub fn done(&self) -> u64 {
        self.done.get()
    }

    /// A task comes to this access, and waits while it is too far ahead.
    pub async fn reach(&self, task: usize, access: u64) {
        let Some(most) = self.most else { return };
        self.arrive(task, access);
        while access > self.last.get().saturating_add(most) {
            self.waiting.wait_as(TimeClass::Idle).await;
        }
    }

    /// A task has ended.
    pub fn leave(&self, task: usize) {
        if self.most.is_some() {
            self.arrive(task, u64::MAX);
        }
    }

    fn arrive(&self, task: usize, access: u64) {
        let mut next = self.next.borrow_mut();
        let before = std::mem::replace(&mut next[task], access);
        if before == self.last.get() && access != before {
            let last = next.iter().copied().min().unwrap_or(u64::MAX);
            self.last.set(last);
            self.waiting.wake_all();
        }
    }
}
