//! The second tier of compressed memory, in the background: pages that have been in the first for
//! long, and the oldest when it gets full.

use crate::error::{Error, Result};
use crate::pool::inner::PoolInner;
use crate::store::compressed::Recompressed;
use crate::sys::fuse::pool_thread;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

/// How often it looks for old pages.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Orders {
    wake: bool,
    stop: bool,
}

#[derive(Debug, Default)]
struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// The thread's mail box. There is none for pools without a second tier.
#[derive(Debug, Default)]
pub(crate) struct Recompressor(Arc<Shared>);

impl Recompressor {
    /// Starts the thread of a pool whose swap has a second tier.
    pub(crate) fn start(pool: &Arc<PoolInner>) -> Result<()> {
        let Some(cold) = pool.swap.as_ref().and_then(|s| s.cold_after()) else {
            return Ok(());
        };
        let (weak, shared) = (Arc::downgrade(pool), pool.recompressor.0.clone());
        pool_thread("coldset-zstd", move || work(&weak, &shared, cold))
            .map_err(Error::io("starting the recompressor"))?;
        Ok(())
    }

    /// The first tier is getting full.
    pub(crate) fn wake(&self) {
        let mut o = self.0.orders.lock().expect("recompressor");
        if !o.wake {
            o.wake = true;
            self.0.changed.notify_one();
        }
    }

    /// The pool goes away.
    pub(crate) fn stop(&self) {
        self.0.orders.lock().expect("recompressor").stop = true;
        self.0.changed.notify_one();
    }

    fn stopped(shared: &Shared) -> bool {
        shared.orders.lock().expect("recompressor").stop
    }
}

fn work(pool: &Weak<PoolInner>, shared: &Shared, cold: Duration) {
    loop {
        let woken = {
            let o = shared.orders.lock().expect("recompressor");
            let (mut o, _) = shared
                .changed
                .wait_timeout_while(o, INTERVAL, |o| !o.wake && !o.stop)
                .expect("recompressor");
            std::mem::take(&mut o.wake)
        };
        // The pool is let go between batches: whoever drops it does not wait for this thread.
        let mut more = true;
        while more {
            if Recompressor::stopped(shared) {
                return;
            }
            let Some(p) = pool.upgrade() else { return };
            more = p.recompress_batch(woken, cold);
        }
    }
}

/// Pages between two looks at whether the pool still is there.
const BATCH: usize = 64;

impl PoolInner {
    /// Recompresses some pages: old ones, and if `crowded`, any until it is not. False: enough.
    fn recompress_batch(&self, crowded: bool, cold: Duration) -> bool {
        let Some(swap) = &self.swap else { return false };
        for _ in 0..BATCH {
            let age = match crowded && swap.crowded() {
                true => Duration::ZERO,
                false => cold,
            };
            let before = swap.bytes();
            let done = swap.recompress(age);
            if swap.bytes() != before {
                // What it takes counts to the budget: told at once, so that it never is more than a
                // chunk off.
                self.gone(&mut self.core(), 0);
            }
            if done != Recompressed::Page {
                return false;
            }
        }
        true
    }
}
