//! Reading ahead of whoever goes through a region in order.
//!
//! A miss right after the pages filled last is a stream: it fills twice as many pages as the miss
//! before, up to the configured number. A stream at that number hands the pages that follow to a
//! thread, more each time, and goes on without a miss until it comes to their end. There it fills some
//! pages itself again, so that it has something to do until the thread is ahead of it.

use crate::error::{Error, Result};
use crate::miss::fill::MOST_FILLED;
use crate::pool::inner::PoolInner;
use crate::region::area::RegionInner;
use crate::sys::fuse::pool_thread;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, RwLock, Weak};

/// Most pages handed to the thread together: what one leaf table maps.
const MOST: usize = 512;
/// Of a small budget, the share that one stream may fill ahead.
const SHARE: u64 = 8;
/// Parts of the budget of which the thread may fill one at once.
const CHUNKS: u64 = 256;
/// Orders that wait; more are not worth keeping.
const WAITING: usize = 16;

/// Where the last reader in order was.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The page after those filled last << 8 | pages the miss was to fill.
    last: AtomicU64,
    /// First page handed to the thread last << 16 | how many.
    handed: AtomicU64,
    /// Held while the thread fills; true once the region goes away.
    closed: Mutex<bool>,
    /// The same for handler threads, of which several may fill.
    pub(crate) gone: RwLock<bool>,
}

impl Stream {
    /// How many pages a miss of `page` should fill.
    pub(crate) fn window(&self, page: usize, most: usize) -> usize {
        let last = self.last.load(Relaxed);
        let (next, window) = ((last >> 8) as usize, (last & 0xFF) as usize);
        let (from, handed) = self.handed();
        if handed > 0 && (from..=from + handed).contains(&page) {
            // It has come to the end of what was handed over, or caught up with the thread.
            return most;
        }
        // Pages between that are in memory already do not end it.
        if page > 0 && (next..next + most).contains(&page) {
            (window * 2).max(2).min(most)
        } else {
            self.handed.store(0, Relaxed);
            1
        }
    }

    fn handed(&self) -> (usize, usize) {
        let h = self.handed.load(Relaxed);
        ((h >> 16) as usize, (h & 0xFFFF) as usize)
    }

    /// A miss that was to fill `window` pages has filled those up to `next`.
    pub(crate) fn filled(&self, next: usize, window: usize) {
        self.last.store((next as u64) << 8 | window as u64, Relaxed);
    }

    /// How many pages from `first` on the thread should fill now, `most` at once; none while it is at
    /// what it has been given.
    fn hand_over(&self, first: usize, least: usize, most: usize) -> usize {
        let (from, handed) = self.handed();
        if (from..from + handed).contains(&first) {
            return 0;
        }
        let end = from + handed;
        let follows = handed > 0 && (end..=end + least).contains(&first);
        let pages = if follows { handed * 2 } else { 2 * least };
        let pages = pages.clamp(least, most);
        self.handed
            .store((first as u64) << 16 | pages as u64, Relaxed);
        pages
    }
}

#[derive(Clone, Debug)]
struct Order {
    region: Weak<RegionInner>,
    first: usize,
    pages: usize,
}

impl Order {
    fn wants(&self, region: &RegionInner, pages: &Range<usize>) -> bool {
        std::ptr::eq(self.region.as_ptr(), region)
            && self.first < pages.end
            && pages.start < self.first + self.pages
    }
}

#[derive(Debug)]
struct Queue {
    orders: VecDeque<Order>,
    /// What the thread works on, unless that has been cancelled.
    current: Option<Order>,
    stop: bool,
}

/// The thread's mail box.
#[derive(Debug)]
pub(crate) struct Ahead {
    shared: Arc<(Mutex<Queue>, Condvar)>,
    started: AtomicBool,
}

impl Default for Ahead {
    fn default() -> Self {
        let queue = Queue {
            // Never grows: orders come from misses.
            orders: VecDeque::with_capacity(WAITING),
            current: None,
            stop: false,
        };
        Self {
            shared: Arc::new((Mutex::new(queue), Condvar::new())),
            started: AtomicBool::new(false),
        }
    }
}

impl Ahead {
    /// Starts the thread, once.
    pub(crate) fn start(&self) -> Result<()> {
        if self.started.swap(true, AcqRel) {
            return Ok(());
        }
        let shared = self.shared.clone();
        let thread = pool_thread("coldset-ahead", move || run(&shared));
        match thread {
            Ok(_) => Ok(()),
            Err(e) => {
                self.started.store(false, Release);
                Err(Error::io("starting read-ahead")(e))
            }
        }
    }

    fn order(&self, order: Order) -> bool {
        let (queue, changed) = &*self.shared;
        let mut q = queue.lock().expect("read-ahead");
        if q.orders.len() >= WAITING {
            return false;
        }
        q.orders.push_back(order);
        changed.notify_one();
        true
    }

    /// Pages of a region are thrown away: no order from before brings them back.
    fn cancel(&self, region: &RegionInner, pages: &Range<usize>) {
        let mut q = self.shared.0.lock().expect("read-ahead");
        q.orders.retain(|o| !o.wants(region, pages));
        q.current.take_if(|o| o.wants(region, pages));
    }

    /// Whether what the thread works on is still wanted.
    fn wanted(&self) -> bool {
        self.shared.0.lock().expect("read-ahead").current.is_some()
    }

    /// The pool goes away.
    pub(crate) fn stop(&self) {
        let (queue, changed) = &*self.shared;
        queue.lock().expect("read-ahead").stop = true;
        changed.notify_one();
    }
}

fn run((queue, changed): &(Mutex<Queue>, Condvar)) {
    loop {
        let order = {
            let mut q = queue.lock().expect("read-ahead");
            loop {
                if q.stop {
                    return;
                }
                q.current = q.orders.pop_front();
                if let Some(o) = &q.current {
                    break o.clone();
                }
                q = changed.wait(q).expect("read-ahead");
            }
        };
        if let Some(r) = order.region.upgrade() {
            r.read_on(order.first, order.pages);
        }
    }
}

impl PoolInner {
    /// Pages that a stream may hand over at once; 0: none.
    fn most_ahead(&self) -> usize {
        let most = MOST.min((self.gate.budget() / SHARE) as usize);
        let worth_it = self.config.background && most >= self.config.read_ahead;
        if worth_it {
            most
        } else {
            0
        }
    }
}

impl RegionInner {
    /// A miss in order was to fill as many pages as it may: the thread takes those from `first` on.
    pub(crate) fn hand_over(self: &Arc<Self>, first: usize) {
        let (least, most) = (self.pool.config.read_ahead, self.pool.most_ahead());
        let left = self.pages() - first;
        if most == 0 || left == 0 || least < 2 {
            return;
        }
        let pages = self.stream.hand_over(first, least, most).min(left);
        if pages == 0 {
            return;
        }
        let order = Order {
            region: Arc::downgrade(self),
            first,
            pages,
        };
        if self.pool.ahead.order(order) {
            self.stream.filled(first + pages, least);
        }
    }

    /// Fills what is not in memory of a range, as far as there is room.
    fn read_on(&self, first: usize, pages: usize) {
        let (mut at, end) = (first, first + pages);
        let least = self.pool.config.read_ahead;
        // Large transfers where the budget is large.
        let mut most = ((self.pool.gate.budget() / CHUNKS) as usize).clamp(least, MOST_FILLED);
        while at < end {
            // Before the lock: whoever closes the stream is inside an operation and wants it.
            let _passage = self.pool.traffic.enter();
            let closed = self.stream.closed.lock().expect("a stream");
            if *closed || !self.pool.ahead.wanted() {
                return;
            }
            let n = self.claim_evicted(at, end.min(at + most));
            if n == 0 {
                at += 1;
                continue;
            }
            if self.fill_or_leave(at, n) {
                at += n;
            } else if n > least {
                most = least;
            } else {
                return;
            }
        }
    }

    /// The pages are about to be thrown away: nothing that was handed over before fills them again.
    pub(crate) fn cancel_ahead(&self, pages: &Range<usize>) {
        self.pool.ahead.cancel(self, pages);
        // The thread looks under this lock whether it goes on.
        drop(self.stream.closed.lock().expect("a stream"));
    }

    /// Nothing is filled ahead, or for a message that is late, any more when this returns.
    pub(crate) fn close_stream(&self) {
        *self.stream.closed.lock().expect("a stream") = true;
        *self.stream.gone.write().expect("a stream") = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Misses at `page`: fills, and hands over when it may.
    fn miss(s: &Stream, page: usize) -> (usize, Option<usize>) {
        let n = s.window(page, 32);
        s.filled(page + n, n);
        let handed = (n == 32).then(|| {
            let h = s.hand_over(page + n, 32, 512);
            s.filled(page + n + h, 32);
            h
        });
        (n, handed)
    }

    #[test]
    fn a_stream_grows_and_then_hands_over_more_and_more() {
        let s = Stream::default();
        let mut page = 100;
        let mut seen = Vec::new();
        for _ in 0..10 {
            let (n, handed) = miss(&s, page);
            seen.push((n, handed));
            page += n + handed.unwrap_or(0);
        }
        let grows = [1, 2, 4, 8, 16].map(|n| (n, None));
        assert_eq!(&seen[..5], &grows);
        let hands = [64, 128, 256, 512, 512].map(|h| (32, Some(h)));
        assert_eq!(&seen[5..], &hands);
    }

    #[test]
    fn a_jump_ends_the_stream_and_catching_up_does_not() {
        let s = Stream::default();
        let mut page = 0x100;
        for _ in 0..6 {
            let (n, handed) = miss(&s, page);
            page += n + handed.unwrap_or(0);
        }
        // 64 pages were handed over last; the reader is faster than the thread.
        assert_eq!(s.window(page - 10, 32), 32);
        assert_eq!(s.window(page + 1000, 32), 1);
        assert_eq!(s.window(page, 32), 32);
    }

    #[test]
    fn a_window_of_one_stays_one() {
        let s = Stream::default();
        assert_eq!(s.window(7, 1), 1);
        s.filled(8, 1);
        assert_eq!(s.window(8, 1), 1);
    }
}
