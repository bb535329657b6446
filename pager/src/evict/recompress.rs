//! The second tier of compressed memory, in the background: pages that have been in the first for
//! long, and the oldest when it gets full.

use crate::budget::resources::Resources;
use crate::error::{Error, Result};
use crate::store::compressed::Recompressed;
use crate::sys::bell::Bell;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often it looks for old pages.
const INTERVAL: Duration = Duration::from_secs(1);
/// Pages of a chunk of compressed memory.
const CHUNK: u64 = (crate::store::slab::CHUNK / crate::sys::PAGE) as u64;
/// Pages between two looks at whether the pool still is there.
const BATCH: usize = 64;

/// Starts the thread of a pool whose swap has a second tier. `crowded` is rung when the first is getting
/// full.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start(res: &Arc<Resources>, crowded: &Arc<Bell>) -> Result<()> {
    let Some(cold) = res.swap.as_ref().and_then(|s| s.cold_after()) else {
        return Ok(());
    };
    let weak = Arc::downgrade(res);
    crowded
        .start("coldset-zstd", move |bell| work(&weak, bell, cold))
        .map_err(Error::io("starting the recompressor"))
}

fn work(res: &Weak<Resources>, bell: &Bell, cold: Duration) {
    while let Some(rung) = bell.wait(INTERVAL) {
        // The pool is let go between batches: dropping it does not wait for this thread.
        let mut more = true;
        while more {
            if bell.stopped() {
                return;
            }
            let Some(res) = res.upgrade() else { return };
            // It has room for a chunk before the books say what for.
            let _passage = res.traffic.enter();
            more = batch(&res, rung, cold);
        }
    }
}

/// Recompresses some pages: old ones, and if `crowded`, any until it is not. False: enough.
fn batch(res: &Resources, crowded: bool, cold: Duration) -> bool {
    let Some(swap) = &res.swap else { return false };
    for _ in 0..BATCH {
        let age = match crowded && swap.crowded() {
            true => Duration::ZERO,
            false => cold,
        };
        let before = swap.bytes();
        // What it takes counts to the budget: room comes first, and is the store's at once.
        let mut entered = 0;
        let done = swap.recompress(age, &mut || {
            let room = res.gate.try_enter(CHUNK);
            entered += if room { CHUNK } else { 0 };
            room
        });
        if entered > 0 || swap.bytes() != before {
            res.gone(&mut res.core(), entered);
        }
        if entered > 0 {
            res.gate.left(entered);
        }
        if done != Recompressed::Page {
            return false;
        }
    }
    true
}
