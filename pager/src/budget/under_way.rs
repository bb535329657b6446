//! Writes of dirty pages that are under way.
//!
//! A page that is being written can be evicted only when the write has ended. Whoever needs room and finds nothing else
//! waits for that here, however slow the disk is, instead of giving up.

use crate::sys::futex;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;

/// Looks again after so long, if no write has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Counts them.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    now: AtomicU32,
    /// How many have ended, of all times.
    ended: AtomicU32,
}

/// From before the first page is claimed until the last is released.
#[derive(Debug)]
pub(crate) struct Writing<'a>(&'a UnderWay);

impl UnderWay {
    /// Pages are about to be claimed for a write.
    pub(crate) fn begin(&self) -> Writing<'_> {
        self.now.fetch_add(1, AcqRel);
        Writing(self)
    }

    /// How many writes have ended: for [`Self::wait_since`].
    pub(crate) fn ended(&self) -> u32 {
        self.ended.load(Acquire)
    }

    /// Waits until a write has ended since `before`. False: none has, and none is under way.
    pub(crate) fn wait_since(&self, before: u32) -> bool {
        while self.ended() == before {
            if self.now.load(Acquire) == 0 {
                // The last one may have ended in between.
                return self.ended() != before;
            }
            futex::wait(&self.ended, before, Some(LOOK));
        }
        true
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, AcqRel);
        self.0.now.fetch_sub(1, AcqRel);
        futex::wake_all(&self.0.ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_waits_is_there_when_a_write_has_ended_and_not_before() {
        let u = UnderWay::default();
        let before = u.ended();
        assert!(!u.wait_since(before), "none is under way");
        let (first, second) = (u.begin(), u.begin());
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                done.store(true, SeqCst);
                drop(first);
            });
            assert!(u.wait_since(before) && done.load(SeqCst));
        });
        // One that has ended already counts, although another is still under way.
        assert!(u.wait_since(before));
        drop(second);
        assert!(!u.wait_since(u.ended()));
    }
}
