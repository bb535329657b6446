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

/// From when pages have been claimed for it until they are released. Whoever has one waits for nobody but the disk.
#[derive(Debug)]
pub(crate) struct Writing<'a>(&'a UnderWay);

impl UnderWay {
    /// Pages have been claimed for a write.
    pub(crate) fn begin(&self) -> Writing<'_> {
        self.now.fetch_add(1, AcqRel);
        Writing(self)
    }

    /// Waits until one of the writes that are under way has ended, if there are any. The caller has none under way.
    pub(crate) fn wait(&self) {
        let before = self.ended.load(Acquire);
        while self.now.load(Acquire) > 0 && self.ended.load(Acquire) == before {
            futex::wait(&self.ended, before, Some(LOOK));
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // In this order: who has seen the new number does not sleep for a write that it counts.
        self.0.now.fetch_sub(1, AcqRel);
        self.0.ended.fetch_add(1, AcqRel);
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
