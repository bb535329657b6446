//! The budget of real pages.
//!
//! The engine's charges say who may have a page; the gate says when there is one.
//! Between the engine's decision to free a page and the page's end lies an eviction; a miss that has
//! been charged meanwhile waits here for it. So pages in memory never exceed the budget, not even by the
//! pages in flight. Compressed memory grows in chunks of 64 KiB as pages leave: by that much, for
//! each thread that evicts, the sum may be above the budget until the next page leaves.

use crate::meanwhile::meanwhile;
use crate::sys::futex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

/// Counts pages in memory against the budget.
#[derive(Debug)]
pub(crate) struct Gate {
    budget: AtomicU64,
    /// Pages in memory, and pages of the compressed store and of tables, as far as they count.
    used: AtomicU64,
    /// Of the store alone, and of tables. Changed under the core lock.
    store: AtomicU64,
    extra: AtomicU64,
    /// Highest value of `used` so far.
    peak: AtomicU64,
    /// Pages that the engine has given up and that still are in memory.
    leaving: AtomicU64,
    /// Changes whenever something has left.
    epoch: AtomicU32,
    waiting: AtomicU32,
    waits: AtomicU64,
}

/// There is no room and none is about to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

impl Gate {
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget: AtomicU64::new(budget),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            store: AtomicU64::new(0),
            extra: AtomicU64::new(0),
            leaving: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            waits: AtomicU64::new(0),
        }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget.load(Acquire)
    }

    /// Another budget. Threads that wait for room look again; none enters above it.
    pub(crate) fn set_budget(&self, pages: u64) {
        self.budget.store(pages, Release);
        self.changed();
    }

    /// Pages that count, of whatever.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    pub(crate) fn resident(&self) -> u64 {
        let others = self.store.load(Relaxed) + self.extra.load(Relaxed);
        self.used.load(Relaxed).saturating_sub(others)
    }

    /// Pages that may still come in.
    pub(crate) fn free(&self) -> u64 {
        self.budget().saturating_sub(self.used.load(Relaxed))
    }

    pub(crate) fn store(&self) -> u64 {
        self.store.load(Relaxed)
    }

    /// Pages of tables that count.
    pub(crate) fn extra(&self) -> u64 {
        self.extra.load(Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }

    /// Somebody is evicting at this moment.
    pub(crate) fn any_leaving(&self) -> bool {
        self.leaving.load(Acquire) > 0
    }

    /// Room for pages that the engine has charged.
    pub(crate) fn enter(&self, pages: u64) -> Result<(), Full> {
        let mut last_look = false;
        loop {
            let epoch = self.epoch.load(Acquire);
            let now = self.used.load(Acquire);
            let then = now + pages;
            meanwhile();
            if then <= self.budget() {
                if self
                    .used
                    .compare_exchange(now, then, AcqRel, Acquire)
                    .is_ok()
                {
                    self.peak.fetch_max(then, Relaxed);
                    return Ok(());
                }
                continue;
            }
            if self.leaving.load(Acquire) == 0 {
                // What was leaving may have left between the two looks.
                if last_look {
                    return Err(Full);
                }
                last_look = true;
                continue;
            }
            last_look = false;
            meanwhile();
            self.waits.fetch_add(1, Relaxed);
            self.waiting.fetch_add(1, AcqRel);
            futex::wait(&self.epoch, epoch, Some(Duration::from_millis(100)));
            self.waiting.fetch_sub(1, AcqRel);
        }
    }

    /// Room for `pages`, if there is at this moment. Whoever finds none meanwhile waits for them, so they must
    /// soon be given back or become something else: by [`Self::exchange`], and [`Self::left`] after it.
    pub(crate) fn try_enter(&self, pages: u64) -> bool {
        self.leaving(pages);
        meanwhile();
        let room = |now: u64| (now + pages <= self.budget()).then_some(now + pages);
        let entered = self.used.fetch_update(AcqRel, Acquire, room).is_ok();
        if !entered {
            self.left(pages);
        }
        entered
    }

    /// Pages are in memory no more.
    pub(crate) fn leave(&self, pages: u64) {
        self.used.fetch_sub(pages, AcqRel);
        meanwhile();
        self.changed();
    }

    /// Pages are in memory no more, and the store takes `store` pages now, and tables `extra`. Under the
    /// core lock. Tables are counted somewhat before they are used: where the budget has no room for more of them, what is
    /// missing is counted as pages leave.
    pub(crate) fn exchange(&self, pages: u64, store: u64, extra: u64) {
        let had = self.extra.load(Relaxed);
        let store_before = self.store.swap(store, AcqRel);
        let (mut counted, mut then) = (extra, 0);
        let changed = self.used.fetch_update(AcqRel, Acquire, |used| {
            let others = used - had - store_before - pages + store;
            let room = self.budget().saturating_sub(others);
            counted = extra.min(room.max(had));
            then = others + counted;
            Some(then)
        });
        debug_assert!(changed.is_ok());
        self.extra.store(counted, Release);
        self.peak.fetch_max(then, Relaxed);
        self.changed();
    }

    /// The engine has given pages up; they will leave, or stay after all.
    pub(crate) fn leaving(&self, pages: u64) {
        self.leaving.fetch_add(pages, AcqRel);
    }

    /// They have left or stayed. After [`Self::leave`] or [`Self::exchange`].
    pub(crate) fn left(&self, pages: u64) {
        meanwhile();
        self.leaving.fetch_sub(pages, AcqRel);
        meanwhile();
        self.changed();
    }

    fn changed(&self) {
        self.epoch.fetch_add(1, AcqRel);
        if self.waiting.load(Acquire) > 0 {
            futex::wake_all(&self.epoch);
        }
    }
}
