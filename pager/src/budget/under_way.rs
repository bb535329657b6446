//! Transfers that are under way: writes of dirty pages, or reads of pages that come in.
//!
//! A page that is being written or read can be evicted only when that has ended. Whoever needs room and finds nothing else
//! waits for it here, however slow the disk is, instead of giving up.

use crate::meanwhile::meanwhile;
use crate::sys::futex;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;

/// Looks again after so long, if none has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Counts them.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    now: AtomicU32,
    /// How many have ended, of all times.
    ended: AtomicU32,
    /// Threads that wait for one to end: without them, ending is no system call.
    waiting: AtomicU32,
}

/// From when pages have been claimed, or have room, for it until they can be evicted. Whoever has one waits for nobody but
/// the disk.
#[derive(Debug)]
pub(crate) struct Transfer<'a>(&'a UnderWay);

impl UnderWay {
    /// One more.
    pub(crate) fn begin(&self) -> Transfer<'_> {
        self.now.fetch_add(1, AcqRel);
        Transfer(self)
    }

    /// Waits until one of those that are under way has ended, if there are any. The caller has none under way.
    pub(crate) fn wait(&self) {
        let before = self.ended.load(Acquire);
        self.waiting.fetch_add(1, SeqCst);
        while self.now.load(Acquire) > 0 && self.ended.load(SeqCst) == before {
            futex::wait(&self.ended, before, Some(LOOK));
        }
        self.waiting.fetch_sub(1, AcqRel);
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        // In this order: who has seen the new number does not sleep for a transfer that it counts.
        self.0.now.fetch_sub(1, AcqRel);
        meanwhile();
        self.0.ended.fetch_add(1, SeqCst);
        if self.0.waiting.load(SeqCst) > 0 {
            futex::wake_all(&self.0.ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_waits_is_there_when_one_has_ended_and_not_before() {
        let u = UnderWay::default();
        // None is under way.
        u.wait();
        let (first, second) = (u.begin(), u.begin());
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                done.store(true, SeqCst);
                drop(first);
            });
            // For one of the two.
            u.wait();
            assert!(done.load(SeqCst));
        });
        drop(second);
        u.wait();
    }
}
