//! Reclaim ahead of need, as kswapd does: a thread that keeps a little of the budget free, so that
//! misses rarely have to make room for themselves.
//!
//! It only moves work off the path of a miss. The budget is a bound without it, and whoever finds no
//! room reclaims, whether it runs or not.

use crate::error::{Error, Result};
use crate::pool::inner::PoolInner;
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

/// How the thread is woken.
#[derive(Debug, Default)]
pub(crate) struct Background {
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
    /// Starts the thread, once.
    pub(crate) fn start(&self, pool: &Arc<PoolInner>) -> Result<()> {
        if self.started.swap(true, AcqRel) {
            return Ok(());
        }
        let (weak, state) = (Arc::downgrade(pool), self.state.clone());
        let thread = pool_thread("coldset-reclaim", move || run(&weak, &state));
        match thread {
            Ok(_) => Ok(()),
            Err(e) => {
                self.started.store(false, Release);
                Err(Error::io("starting background reclaim")(e))
            }
        }
    }

    /// There is little room. Called by misses: no lock, no allocation.
    fn wake(&self) {
        if self.state.compare_exchange(ASLEEP, AWAKE, AcqRel, Relaxed) == Ok(ASLEEP) {
            futex::wake_all(&self.state);
        }
    }

    /// The pool goes away.
    pub(crate) fn stop(&self) {
        self.state.store(STOP, Release);
        futex::wake_all(&self.state);
    }
}

fn run(pool: &Weak<PoolInner>, state: &AtomicU32) {
    loop {
        match state.load(Acquire) {
            STOP => return,
            ASLEEP => {
                futex::wait(state, ASLEEP, None);
                continue;
            }
            _ => {}
        }
        let Some(pool) = pool.upgrade() else { return };
        if !pool.reclaim_to_watermark(state) {
            std::thread::sleep(PAUSE);
        }
        let _ = state.compare_exchange(AWAKE, ASLEEP, AcqRel, Relaxed);
    }
}

impl PoolInner {
    fn watermarks(&self) -> Watermarks {
        Watermarks::new(self.gate.budget(), self.config.batch as u64)
    }

    /// Wakes the thread if there is little room.
    pub(crate) fn keep_ahead(&self) {
        if self.config.background && self.gate.free() < self.watermarks().low {
            self.background.wake();
        }
    }

    /// False if nothing could be taken. Failed stores have been noted; misses will meet them.
    fn reclaim_to_watermark(&self, state: &AtomicU32) -> bool {
        while self.gate.free() < self.watermarks().high && state.load(Relaxed) == AWAKE {
            let _passage = self.traffic.enter();
            let done = self.reclaim(self.top, self.config.batch as u64, false);
            if done.map_or(0, |o| o.reclaimed) == 0 {
                return false;
            }
        }
        true
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
