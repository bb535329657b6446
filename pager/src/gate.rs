//! The budget of real pages.
//!
//! The engine's charges say who may have a page; the gate says when the page is there to be had.
//! Between the engine's decision to free a page and the page's end lies an eviction; whoever has been
//! charged meanwhile waits here for it. So pages in memory never exceed the budget, not even by the
//! pages in flight.

use crate::sys::futex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

/// Counts pages in memory against the budget.
#[derive(Debug)]
pub(crate) struct Gate {
    budget: u64,
    resident: AtomicU64,
    /// Highest value of resident pages and pages of the store so far.
    peak: AtomicU64,
    /// Pages of the compressed store, if it counts.
    store: AtomicU64,
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
            budget,
            resident: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            store: AtomicU64::new(0),
            leaving: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            waits: AtomicU64::new(0),
        }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Relaxed)
    }

    pub(crate) fn store(&self) -> u64 {
        self.store.load(Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }

    /// Room for pages that the engine has charged.
    pub(crate) fn enter(&self, pages: u64) -> Result<(), Full> {
        let mut last_look = false;
        loop {
            let epoch = self.epoch.load(Acquire);
            let now = self.resident.load(Acquire);
            let all = now + pages + self.store.load(Acquire);
            if all <= self.budget {
                if self
                    .resident
                    .compare_exchange(now, now + pages, AcqRel, Acquire)
                    .is_ok()
                {
                    self.peak.fetch_max(all, Relaxed);
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
            self.waits.fetch_add(1, Relaxed);
            self.waiting.fetch_add(1, AcqRel);
            futex::wait(&self.epoch, epoch, Some(Duration::from_millis(100)));
            self.waiting.fetch_sub(1, AcqRel);
        }
    }

    /// Pages are in memory no more.
    pub(crate) fn leave(&self, pages: u64) {
        self.resident.fetch_sub(pages, AcqRel);
        self.changed();
    }

    /// The engine has given pages up; they will leave, or stay after all.
    pub(crate) fn leaving(&self, pages: u64) {
        self.leaving.fetch_add(pages, AcqRel);
    }

    /// They have left or stayed. After [`Self::leave`].
    pub(crate) fn left(&self, pages: u64) {
        self.leaving.fetch_sub(pages, AcqRel);
        self.changed();
    }

    /// The store takes so many pages now.
    pub(crate) fn set_store(&self, pages: u64) {
        self.store.store(pages, Release);
        self.peak
            .fetch_max(pages + self.resident.load(Relaxed), Relaxed);
    }

    fn changed(&self) {
        self.epoch.fetch_add(1, AcqRel);
        if self.waiting.load(Acquire) > 0 {
            futex::wake_all(&self.epoch);
        }
    }
}
