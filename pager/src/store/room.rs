//! Waiting for room on a full disk.

use super::storage::{write_all, Storage, Write};
use crate::sys::clock;
use crate::sys::exit::say;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Between two looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// How long evictions to one file wait for room. All that wait do so until the same moment; when it has passed in
/// vain, nobody waits for six times as long, so that a disk that stays full is told about soon.
#[derive(Debug)]
pub(crate) struct Room {
    /// What is to be written: `swap`, `the file PATH`.
    what: String,
    most: Duration,
    /// When the wait under way ends, or when the last one ended in vain; nanoseconds, 0 = none.
    until: AtomicU64,
    /// When it was said last.
    told: AtomicU64,
}

/// A disk that is full now and then is told about this often at most.
const TELL_NS: u64 = 60_000_000_000;

/// No room, and it may come.
fn is_full(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

impl Room {
    pub(crate) fn new(what: impl Into<String>, most: Duration) -> Self {
        Self {
            what: what.into(),
            most,
            until: AtomicU64::new(0),
            told: AtomicU64::new(0),
        }
    }

    /// What is to be written, for messages.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Writes again what did not fit, as long as that is worth waiting for.
    pub(crate) fn write_again(&self, storage: &dyn Storage, writes: &mut [Write<'_>]) {
        let full = |w: &Write<'_>| w.done.as_ref().is_err_and(is_full);
        if !writes.iter().any(full) {
            return;
        }
        self.wait(|| {
            for w in writes.iter_mut().filter(|w| full(w)) {
                write_all(storage, std::slice::from_mut(w));
            }
            !writes.iter().any(full)
        });
    }

    /// Tries again until there is room, or the time is over: true if `done` said so. Nothing of the
    /// pool's may be locked. It ends by itself, also if the pool is given up meanwhile.
    fn wait(&self, mut done: impl FnMut() -> bool) -> bool {
        let most = self.most.as_nanos() as u64;
        let now = clock::now();
        let until = self.until.load(Relaxed);
        if most == 0 || (until != 0 && (until..until + 6 * most).contains(&now)) {
            return false;
        }
        let mut end = until;
        if until <= now {
            end = now + most;
            let first = self.until.compare_exchange(until, end, Relaxed, Relaxed);
            match first {
                Ok(_) => self.tell(now),
                Err(others) => end = others,
            }
        }
        let mut pause = PAUSES[0];
        while clock::now() < end {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES[1]);
            if done() {
                // The next time somebody finds it full is another one.
                self.until.store(0, Relaxed);
                return true;
            }
        }
        false
    }

    fn tell(&self, now: u64) {
        let last = self.told.load(Relaxed);
        if last == 0 || now > last + TELL_NS {
            self.told.store(now, Relaxed);
            let s = self.most.as_secs_f64();
            say(&format!(
                "coldset: the disk has no room for {}; waiting up to {s} s for it\n",
                self.what
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_once_and_then_not_for_a_while() {
        let room = Room::new("swap", Duration::from_millis(60));
        let mut looks = 0;
        assert!(!room.wait(|| {
            looks += 1;
            false
        }));
        assert!(looks > 0);
        assert!(!room.wait(|| unreachable!("nobody waits now")));
        std::thread::sleep(Duration::from_millis(400));
        assert!(room.wait(|| true));
        assert!(room.wait(|| true), "room came, so the next is another wait");
        assert!(!Room::new("swap", Duration::ZERO).wait(|| unreachable!("not wanted")));
    }
}
