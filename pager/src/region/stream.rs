//! Recognizes a reader who goes through a region in order.
//!
//! A miss right after the pages filled last continues a stream: it fills twice as many pages as the miss
//! before, up to the configured number. A stream at that number hands the pages that follow to a thread
//! (`miss/ahead.rs`), more each time.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::*};
use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// In place of the last miss: no page follows it.
const FORGOTTEN: u64 = u64::MAX << 8;

/// Where the last reader in order was.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The page after those filled last << 8 | pages the miss was to fill, or [`FORGOTTEN`].
    last: AtomicU64,
    /// First page handed to the thread last << 16 | how many.
    handed: AtomicU64,
    /// A [`Pattern`].
    pattern: AtomicU8,
    /// Held while the thread reads ahead; true once the region goes away.
    closed: Mutex<bool>,
    /// The same for handler threads, of which several may fill.
    gone: RwLock<bool>,
}

/// How a region is read, as far as its user has said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pattern {
    /// Nothing said: misses in order are recognized.
    Unknown = 0,
    /// No read-ahead.
    Random = 1,
    /// Full read-ahead at each miss, but for the first after pages were thrown away.
    Sequential = 2,
}

impl Stream {
    /// The user says how the region will be read.
    pub(crate) fn expect(&self, pattern: Pattern) {
        self.pattern.store(pattern as u8, Relaxed);
    }

    /// How many pages a miss of `page` should fill.
    pub(crate) fn window(&self, page: usize, most: usize) -> usize {
        let last = self.last.load(Relaxed);
        match self.pattern.load(Relaxed) {
            p if p == Pattern::Random as u8 => return 1,
            p if p == Pattern::Sequential as u8 && last != FORGOTTEN => return most,
            _ => {}
        }
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

    /// How many pages from `first` on the thread should fill now, `most` at once; none while it still has
    /// what it was given.
    pub(crate) fn hand_over(&self, first: usize, least: usize, most: usize) -> usize {
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

    /// Keeps the stream open while the thread reads ahead; true: the region goes away.
    pub(crate) fn reading(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().expect("a stream")
    }

    /// Keeps the region while a handler thread serves a miss; true: it goes away.
    pub(crate) fn serving(&self) -> RwLockReadGuard<'_, bool> {
        self.gone.read().expect("a stream")
    }

    /// Pages are about to be thrown away: waits for misses that are being served, and starts from nothing. A
    /// handler thread may have read the message of a miss that is over: when it comes to serve it, it fills
    /// one page, not what the reader was to have next, and hands nothing over.
    pub(crate) fn forget(&self) {
        let _none_served = self.gone.write().expect("a stream");
        self.last.store(FORGOTTEN, Relaxed);
        self.handed.store(0, Relaxed);
    }

    /// When this returns nothing is filled any more, neither ahead nor for a message that is late.
    pub(crate) fn close(&self) {
        *self.reading() = true;
        *self.gone.write().expect("a stream") = true;
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
    fn nothing_is_known_of_a_stream_that_was_forgotten() {
        for pattern in [Pattern::Unknown, Pattern::Sequential] {
            let s = Stream::default();
            s.expect(pattern);
            let mut page = 100;
            for _ in 0..8 {
                let (n, handed) = miss(&s, page);
                page += n + handed.unwrap_or(0);
            }
            assert_eq!(s.window(page, 32), 32);
            s.forget();
            assert_eq!(s.window(page, 32), 1, "{pattern:?}");
        }
    }

    #[test]
    fn a_window_of_one_stays_one() {
        let s = Stream::default();
        assert_eq!(s.window(7, 1), 1);
        s.filled(8, 1);
        assert_eq!(s.window(8, 1), 1);
    }
}
