//! What a miss needs and must not have to ask the system for: made with the pool, and lent out.
//!
//! A thread that finds none waits until one is given back. A thread that holds one never asks for
//! another one of the same stock, or waits for a page that somebody else has to bring in or out: so
//! every holder comes to an end.

use crate::meanwhile::meanwhile;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard};

/// Things of one kind.
#[derive(Debug)]
pub(crate) struct Stock<T> {
    shelf: Mutex<Shelf<T>>,
    back: Condvar,
}

#[derive(Debug)]
struct Shelf<T> {
    idle: Vec<T>,
    /// Threads that wait for one to be given back: without them, giving back is no system call.
    waiting: usize,
}

/// One of them. Goes back when dropped.
#[derive(Debug)]
pub(crate) struct Lent<'a, T> {
    stock: &'a Stock<T>,
    /// Until it is dropped.
    thing: Option<T>,
}

impl<T> Stock<T> {
    /// As many as `make` makes.
    pub(crate) fn new<E>(count: usize, make: impl FnMut(usize) -> Result<T, E>) -> Result<Self, E> {
        let shelf = Shelf {
            idle: (0..count).map(make).collect::<Result<_, E>>()?,
            waiting: 0,
        };
        Ok(Self {
            shelf: Mutex::new(shelf),
            back: Condvar::new(),
        })
    }

    /// One of them; waits for it.
    pub(crate) fn take(&self) -> Lent<'_, T> {
        let mut shelf = self.shelf();
        loop {
            if let Some(thing) = shelf.idle.pop() {
                return self.lend(thing);
            }
            shelf.waiting += 1;
            shelf = self.back.wait(shelf).unwrap_or_else(|e| e.into_inner());
            shelf.waiting -= 1;
        }
    }

    /// One of them, or one more; waits only if no more can be made.
    pub(crate) fn take_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Lent<'_, T> {
        let kept = self.shelf().idle.pop();
        match kept.map_or_else(make, Ok) {
            Ok(thing) => self.lend(thing),
            Err(_) => self.take(),
        }
    }

    fn lend(&self, thing: T) -> Lent<'_, T> {
        Lent {
            stock: self,
            thing: Some(thing),
        }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf<T>> {
        self.shelf.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.thing.as_ref().expect("lent until dropped")
    }
}

impl<T> DerefMut for Lent<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect("lent until dropped")
    }
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        if let Some(thing) = self.thing.take() {
            let mut shelf = self.stock.shelf();
            shelf.idle.push(thing);
            let wanted = shelf.waiting > 0;
            drop(shelf);
            meanwhile();
            if wanted {
                self.stock.back.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::*};

    #[test]
    fn whoever_finds_none_waits_for_one() {
        let stock = Stock::new(2, Ok::<_, ()>).unwrap();
        let (out, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for t in 0..6 {
                let (stock, out, most) = (&stock, &out, &most);
                s.spawn(move || {
                    for i in 0..500 {
                        let _one = match (t + i) % 2 {
                            0 => stock.take(),
                            _ => stock.take_or_make(|| Err(())),
                        };
                        most.fetch_max(out.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        out.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!((out.load(SeqCst), most.load(SeqCst)), (0, 2));
        let mut all = stock.shelf.into_inner().unwrap().idle;
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
    }
}
