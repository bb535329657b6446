//! Reclaim ahead of need, as kswapd does: a thread that keeps a little of the budget free, so that
//! misses rarely have to make room for themselves.
//!
//! It only moves work off the path of a miss. The budget is a bound without it, and a miss that finds no
//! room reclaims, whether it runs or not.

use super::reclaim::Reclaimer;
use crate::budget::resources::Resources;
use crate::error::{Error, Result};
use crate::sys::fuse::pool_thread;
use crate::sys::futex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Arc, Weak};
use std::time::Duration;

const ASLEEP: u32 = 0;
const AWAKE: u32 = 1;
const STOP: u32 = 2;

/// After a round that found nothing to take.
const PAUSE: Duration = Duration::from_millis(10);

/// The thread, and how it is woken.
#[derive(Debug)]
pub(crate) struct Background {
    res: Arc<Resources>,
    reclaimer: Arc<Reclaimer>,
    state: Arc<AtomicU32>,
    started: AtomicBool,
}

/// Free pages below which the thread is woken, and at which it goes back to sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Watermarks {
    low: u64,
    high: u64,
}

impl Watermarks {
    /// One batch, and three; of a small budget a share.
    fn new(budget: u64, batch: u64) -> Self {
        Self {
            low: batch.min(budget / 64),
            high: (3 * batch).min(budget / 32),
        }
    }
}

impl Background {
    pub(crate) fn new(res: Arc<Resources>, reclaimer: Arc<Reclaimer>) -> Self {
        Self {
            res,
            reclaimer,
            state: Arc::new(AtomicU32::new(ASLEEP)),
            started: AtomicBool::new(false),
        }
    }

    /// Starts the thread, once.
    pub(crate) fn start(self: &Arc<Self>) -> Result<()> {
        if self.started.swap(true, AcqRel) {
            return Ok(());
        }
        let (weak, state) = (Arc::downgrade(self), self.state.clone());
        match pool_thread("coldset-reclaim", move || run(&weak, &state)) {
            Ok(_) => Ok(()),
            Err(e) => {
                self.started.store(false, Release);
                Err(Error::io("starting background reclaim")(e))
            }
        }
    }

    fn watermarks(&self) -> Watermarks {
        Watermarks::new(self.res.gate.budget(), self.res.config.batch as u64)
    }

    /// Wakes the thread if there is little room. Called by misses: no lock, no allocation.
    pub(crate) fn keep_ahead(&self) {
        if self.res.config.background
            && self.res.gate.free() < self.watermarks().low
            && self.state.compare_exchange(ASLEEP, AWAKE, AcqRel, Relaxed) == Ok(ASLEEP)
        {
            futex::wake_all(&self.state);
        }
    }

    /// The pool goes away.
    pub(crate) fn stop(&self) {
        self.state.store(STOP, Release);
        futex::wake_all(&self.state);
    }

    /// False if nothing could be taken. Failed stores have been noted; misses will meet them.
    fn reclaim_to_watermark(&self) -> bool {
        let res = &self.res;
        {
            let _passage = res.traffic.enter();
            res.end_loans_of_all(true);
        }
        while res.gate.free() < self.watermarks().high && self.state.load(Relaxed) == AWAKE {
            let _passage = res.traffic.enter();
            let freed = self
                .reclaimer
                .reclaim(res.top, res.config.batch as u64, false);
            // Errors of a policy from outside end nothing here: pools that have one have no background thread.
            if freed.unwrap_or(0) == 0 {
                return false;
            }
        }
        true
    }
}

fn run(background: &Weak<Background>, state: &AtomicU32) {
    loop {
        match state.load(Acquire) {
            STOP => return,
            ASLEEP => {
                futex::wait(state, ASLEEP, None);
                continue;
            }
            _ => {}
        }
        let Some(b) = background.upgrade() else {
            return;
        };
        if !b.reclaim_to_watermark() {
            std::thread::sleep(PAUSE);
        }
        let _ = state.compare_exchange(AWAKE, ASLEEP, AcqRel, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_budget_keeps_a_small_share_free() {
        let w = |budget, batch| Watermarks::new(budget, batch);
        assert_eq!(w(65536, 64), Watermarks { low: 64, high: 192 });
        assert_eq!(w(256, 64), Watermarks { low: 4, high: 8 });
    }
}
