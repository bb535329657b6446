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
/// Pages between two looks at whether the pool still is there.
const BATCH: usize = 64;

/// Starts the thread of a pool whose swap has a second tier. `crowded` is rung when the first is getting
/// full.
///
/// # Errors
/// No thread is to be had.
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
        // The pool is let go between batches: whoever drops it does not wait for this thread.
        let mut more = true;
        while more {
            if bell.stopped() {
                return;
            }
            let Some(res) = res.upgrade() else { return };
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
        let done = swap.recompress(age);
        if swap.bytes() != before {
            // What it takes counts to the budget: told at once, so that it never is more than a
            // chunk off.
            res.gone(&mut res.core(), 0);
        }
        if done != Recompressed::Page {
            return false;
        }
    }
    true
}
