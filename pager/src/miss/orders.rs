//! What is to be read ahead: a queue from misses to the thread that does it.

use crate::region::area::Area;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

/// Orders that wait; more are not worth keeping.
const WAITING: usize = 16;

/// Pages of a region to be read ahead.
#[derive(Clone, Debug)]
pub(super) struct Order {
    area: Weak<Area>,
    first: usize,
    pages: usize,
}

impl Order {
    pub(super) fn new(area: &Arc<Area>, first: usize, pages: usize) -> Self {
        Self {
            area: Arc::downgrade(area),
            first,
            pages,
        }
    }

    /// The region, if it still exists.
    pub(super) fn area(&self) -> Option<Arc<Area>> {
        self.area.upgrade()
    }

    pub(super) fn pages(&self) -> Range<usize> {
        self.first..self.first + self.pages
    }

    fn touches(&self, area: &Area, pages: &Range<usize>) -> bool {
        std::ptr::eq(self.area.as_ptr(), area)
            && self.first < pages.end
            && pages.start < self.first + self.pages
    }
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Order>,
    /// What the thread works on, unless that has been cancelled.
    current: Option<Order>,
    started: bool,
    stop: bool,
}

/// Orders from misses, and the one that is being carried out.
#[derive(Debug)]
pub(crate) struct Orders {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Default for Orders {
    fn default() -> Self {
        let queue = Queue {
            // Never grows: orders come from misses.
            waiting: VecDeque::with_capacity(WAITING),
            current: None,
            started: false,
            stop: false,
        };
        Self {
            queue: Mutex::new(queue),
            changed: Condvar::new(),
        }
    }
}

impl Orders {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("read-ahead")
    }

    /// Runs `start` unless it has succeeded before.
    pub(super) fn start_once<E>(&self, start: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut q = self.queue();
        if !q.started {
            start()?;
            q.started = true;
        }
        Ok(())
    }

    /// False: there are enough already.
    pub(super) fn add(&self, order: Order) -> bool {
        let mut q = self.queue();
        if q.waiting.len() >= WAITING {
            return false;
        }
        q.waiting.push_back(order);
        self.changed.notify_one();
        true
    }

    /// Waits for the next one. None: the pool goes away.
    pub(super) fn next(&self) -> Option<Order> {
        let mut q = self.queue();
        loop {
            if q.stop {
                return None;
            }
            q.current = q.waiting.pop_front();
            if q.current.is_some() {
                return q.current.clone();
            }
            q = self.changed.wait(q).expect("read-ahead");
        }
    }

    /// Pages of a region are about to be thrown away: nothing ordered before brings them back once this
    /// returns, nor does what a miss from before would have ordered.
    pub(crate) fn cancel(&self, area: &Area, pages: &Range<usize>) {
        // First: a miss that is being served may still order something.
        area.stream().forget();
        {
            let mut q = self.queue();
            q.waiting.retain(|o| !o.touches(area, pages));
            q.current.take_if(|o| o.touches(area, pages));
        }
        // The thread looks under this lock whether to continue.
        drop(area.stream().reading());
    }

    /// Is what the thread works on still wanted?
    pub(super) fn wanted(&self) -> bool {
        self.queue().current.is_some()
    }

    /// The pool goes away.
    pub(crate) fn stop(&self) {
        self.queue().stop = true;
        self.changed.notify_one();
    }
}
