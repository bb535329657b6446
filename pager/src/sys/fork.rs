//! Forks: noticed without a system call, and without memory of the parent's in the child.
//!
//! A child has no region of its parent's. Were their addresses free there, its next mapping would lie where its parent's
//! pointers still point to: it would read as zeroes, and stores would go into memory of others. So they are taken, by nothing
//! that can be read or written.
//!
//! Nor does a child have its parent's threads: what one of them had locked stays locked. So a child has lists of the process
//! anew ([`OfProcess`]), and leaves alone what it has inherited ([`OfMaker`]).

use super::signals::Shield;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use std::sync::Once;

/// Times that this process and those it comes from have been forked, since they began to count.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Ends of the ranges that children do not have, by their first address. The lock is one of the C library's because a fork
/// takes it in one function and gives it back in another.
struct Ranges {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    ends: UnsafeCell<BTreeMap<usize, usize>>,
}

// SAFETY: the lock is used by its functions only, and the map by those who hold it.
unsafe impl Sync for Ranges {}

static RANGES: Ranges = Ranges {
    lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    ends: UnsafeCell::new(BTreeMap::new()),
};

impl Ranges {
    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<usize, usize>) -> T) -> T {
        // A handler of the program's may fork.
        let _shield = Shield::new();
        // SAFETY: initialized, and given back below by this thread; `f` neither forks nor panics.
        unsafe {
            libc::pthread_mutex_lock(self.lock.get());
            let done = f(&mut *self.ends.get());
            libc::pthread_mutex_unlock(self.lock.get());
            done
        }
    }
}

extern "C" fn before() {
    // SAFETY: given back by `in_parent` and `in_child`, which run in this thread or its copy.
    unsafe { libc::pthread_mutex_lock(RANGES.lock.get()) };
}

extern "C" fn in_parent() {
    // SAFETY: taken by `before`.
    unsafe { libc::pthread_mutex_unlock(RANGES.lock.get()) };
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the lock was taken by `before`, so nobody was in the map. Where something is mapped, nothing is done; and what
    // fails leaves the addresses free, as they were.
    unsafe {
        for (&from, &end) in &*RANGES.ends.get() {
            libc::mmap(from as *mut _, end - from, libc::PROT_NONE, flags, -1, 0);
        }
        libc::pthread_mutex_unlock(RANGES.lock.get());
    }
}

/// From the first call on, children are told.
fn begin() {
    static HOOK: Once = Once::new();
    // SAFETY: the functions are static, and do nothing that a child may not do.
    HOOK.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}

/// Does something that no child is to see a half of. It neither forks nor panics.
pub(crate) fn between_forks<T>(f: impl FnOnce() -> T) -> T {
    begin();
    RANGES.with(|_| f())
}

/// A process, as far as its C library's `fork` tells it from its children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Generation(u32);

impl Generation {
    /// This process. Where the C library has no room for more functions, children look the same.
    pub(crate) fn this() -> Self {
        begin();
        Self(FORKS.load(Relaxed))
    }

    /// Is this a child, by fork, of that process?
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        FORKS.load(Relaxed) != self.0
    }
}

/// Addresses that children of fork do not have, and that nothing else comes to lie at in them.
#[derive(Debug)]
pub(crate) struct Withheld(Range<usize>);

impl Withheld {
    /// Those of a mapping with `MADV_DONTFORK`, as long as self.
    pub(crate) fn new(range: Range<usize>) -> Self {
        begin();
        RANGES.with(|ends| ends.insert(range.start, range.end));
        Self(range)
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        RANGES.with(|ends| ends.remove(&self.0.start));
    }
}

/// What each process has for itself, as lists of what is in it, and their locks.
pub(crate) struct OfProcess<T: 'static>(AtomicPtr<Made<T>>);

struct Made<T> {
    by: (Generation, u32),
    value: T,
}

impl<T: Default> OfProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// This process's.
    pub(crate) fn get(&self) -> &'static T {
        let by = (Generation::this(), std::process::id());
        loop {
            let found = self.0.load(Acquire);
            // SAFETY: null, or from the box below, which is never given back.
            if let Some(made) = unsafe { found.as_ref() }.filter(|m| m.by == by) {
                return &made.value;
            }
            let value = T::default();
            let new = Box::into_raw(Box::new(Made { by, value }));
            // The parent's is left as it is.
            match self.0.compare_exchange(found, new, AcqRel, Acquire) {
                // SAFETY: as above.
                Ok(_) => return unsafe { &(*new).value },
                // SAFETY: from the box, and nobody has seen it.
                Err(_) => drop(unsafe { Box::from_raw(new) }),
            }
        }
    }

    /// This process's, if there is one: without a system call, and without memory.
    #[inline]
    pub(crate) fn known(&self) -> Option<&'static T> {
        // SAFETY: as in `get`.
        let made = unsafe { self.0.load(Acquire).as_ref() }?;
        (!made.by.0.is_over()).then_some(&made.value)
    }
}

/// What only the process that has made it takes apart: threads, descriptors and locks are its own. A child of fork forgets it.
pub(crate) struct OfMaker<T> {
    value: ManuallyDrop<T>,
    pid: u32,
}

impl<T> OfMaker<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            pid: std::process::id(),
        }
    }
}

impl<T> Deref for OfMaker<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for OfMaker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for OfMaker<T> {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // SAFETY: not used after this, because it is going away.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// What a child finds.
    fn in_child(look: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child looks and ends.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::_exit(look().into());
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1
        }
    }

    #[test]
    fn what_is_locked_at_a_fork_is_not_in_the_child() {
        static LIST: OfProcess<Mutex<Vec<u32>>> = OfProcess::new();
        assert!(LIST.known().is_none());
        let mut list = LIST.get().lock().unwrap();
        list.push(1);
        assert!(in_child(|| {
            let unknown = LIST.known().is_none();
            let empty = LIST.get().try_lock().is_ok_and(|l| l.is_empty());
            unknown && empty && LIST.known().is_some()
        }));
        drop(list);
        assert_eq!(*LIST.known().unwrap().lock().unwrap(), [1]);
        assert!(std::ptr::eq(LIST.known().unwrap(), LIST.get()));
    }

    #[test]
    fn only_the_maker_takes_apart() {
        struct Counts<'a>(&'a AtomicU32);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let dropped = AtomicU32::new(0);
        let made = OfMaker::new(Counts(&dropped));
        // SAFETY: of the child's memory, which this process does not see.
        let child = || drop(unsafe { std::ptr::read(&made) });
        assert!(in_child(|| {
            child();
            dropped.load(Relaxed) == 0
        }));
        drop(made);
        assert_eq!(dropped.load(Relaxed), 1);
    }
}
