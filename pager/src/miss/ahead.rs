//! Reading ahead of a thread that goes through a region in order.
//!
//! A stream (`region/stream.rs`) at the largest number of pages a miss may fill hands the pages that follow
//! to a thread, and has no more misses until it comes to their end. There it fills some pages itself again,
//! so that it has something to do until the thread is ahead of it.

use super::fill::{claim_evicted, Misses, MOST_FILLED};
use super::orders::Orders;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::region::area::Area;
use crate::sys::fuse::pool_thread;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Parts of the budget of which the thread may fill one at once.
const CHUNKS: u64 = 64;

/// Starts the thread that reads ahead for these misses, once.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start(misses: &Arc<Misses>) -> Result<()> {
    let orders = &misses.ahead;
    orders.start_once(|| {
        let (weak, orders) = (Arc::downgrade(misses), orders.clone());
        let thread = pool_thread("coldset-ahead", move || run(&weak, &orders));
        thread.map(drop).map_err(Error::io("starting read-ahead"))
    })
}

fn run(misses: &Weak<Misses>, orders: &Orders) {
    while let Some(order) = orders.next() {
        let Some(misses) = misses.upgrade() else {
            return;
        };
        meanwhile();
        if let Some(area) = order.area() {
            misses.read_on(&area, order.pages());
        }
    }
}

impl Misses {
    /// Fills what is not in memory of a range, as far as there is room.
    fn read_on(&self, area: &Area, pages: Range<usize>) {
        let (mut at, end) = (pages.start, pages.end);
        let least = self.res.config.read_ahead;
        // Large transfers where the budget is large.
        let mut most = ((self.res.gate.budget() / CHUNKS) as usize).clamp(least, MOST_FILLED);
        while at < end {
            // Before the lock: a call that closes the stream is an operation, and wants it.
            let _passage = self.res.traffic.enter();
            let closed = area.stream().reading();
            if *closed || !self.ahead.wanted() {
                return;
            }
            meanwhile();
            let n = claim_evicted(area, at, end.min(at + most));
            if n == 0 {
                at += 1;
                continue;
            }
            if self.fill_or_leave(area, at, n) {
                at += n;
            } else if n > least {
                most = least;
            } else {
                return;
            }
        }
    }
}
