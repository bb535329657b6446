//! Operations of a pool that are under way, and moments without any.
//!
//! Everything that holds a charge, a task of the engine, or a page on its way, from one taking of
//! the lock to the next, is counted here. A caller that needs a moment in which the books are complete
//! (the beginning of a journal) keeps newcomers out, waits until all have left, and lets them in
//! again. Operations nest (a miss inside a call, a call inside a call): only the outermost of a
//! thread waits at the door, for the others are part of what is being waited for.

use crate::meanwhile::meanwhile;
use crate::sys::futex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Somebody waits for the last to leave: newcomers wait.
const WANTED: u32 = 1 << 30;
/// Nobody is inside and nobody may be.
const CLOSED: u32 = 1 << 31;
const INSIDE: u32 = WANTED - 1;

thread_local! {
    /// Operations this thread is in, of any pool.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The door and the count.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    word: AtomicU32,
}

/// One operation under way.
#[derive(Debug)]
pub(crate) struct Passage<'a> {
    traffic: &'a Traffic,
}

impl Traffic {
    /// Begins an operation.
    pub(crate) fn enter(&self) -> Passage<'_> {
        let outermost = DEPTH.get() == 0;
        loop {
            let w = self.word.load(Acquire);
            if w & CLOSED != 0 || (outermost && w & WANTED != 0) {
                futex::wait(&self.word, w, None);
                continue;
            }
            assert!(w & INSIDE < INSIDE, "more operations than threads can be");
            let entered = self.word.compare_exchange_weak(w, w + 1, AcqRel, Acquire);
            if entered.is_ok() {
                DEPTH.set(DEPTH.get() + 1);
                return Passage { traffic: self };
            }
        }
    }

    /// Does something while no operation is under way. One caller at a time, and not inside an
    /// operation.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        assert!(DEPTH.get() == 0, "an operation cannot wait for itself");
        let before = self.word.fetch_or(WANTED, AcqRel);
        assert!(before & WANTED == 0, "two callers want to be alone");
        loop {
            let w = self.word.load(Acquire);
            if w & INSIDE > 0 {
                futex::wait(&self.word, w, None);
                continue;
            }
            let closed = w | CLOSED;
            let done = self.word.compare_exchange(w, closed, AcqRel, Acquire);
            if done.is_ok() {
                break;
            }
        }
        // Opened again whatever happens: others would wait for ever.
        struct Open<'a>(&'a AtomicU32);
        impl Drop for Open<'_> {
            fn drop(&mut self) {
                self.0.store(0, Release);
                futex::wake_all(self.0);
            }
        }
        let _open = Open(&self.word);
        work()
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        let before = self.traffic.word.fetch_sub(1, AcqRel);
        meanwhile();
        if before & WANTED != 0 && before & INSIDE == 1 {
            futex::wake_all(&self.traffic.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Two words that operations change one after the other are equal whenever somebody is alone.
    #[test]
    fn alone_means_that_nothing_is_half_done() {
        let t = Traffic::default();
        let (a, b) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..20_000 {
                        let _outer = t.enter();
                        a.fetch_add(1, Relaxed);
                        // An inner one never waits for a caller that waits for the outer one.
                        let _inner = t.enter();
                        b.fetch_add(1, Relaxed);
                    }
                });
            }
            for _ in 0..300 {
                let (x, y) = t.alone(|| {
                    let x = a.load(Relaxed);
                    std::thread::yield_now();
                    (x, b.load(Relaxed))
                });
                assert_eq!(x, y);
            }
        });
        assert_eq!(t.word.load(Relaxed), 0);
        assert_eq!(a.load(Relaxed), 60_000);
    }
}
