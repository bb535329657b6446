//! Forks: noticed without a system call, and without memory of the parent's in the child.
//!
//! A child has no region of its parent's. Were their addresses free there, its next mapping would lie where its parent's
//! pointers still point to: it would read as zeroes, and stores would go into memory of others. So they are taken, by nothing
//! that can be read or written.

use super::signals::Shield;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
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

/// Does something during which no thread forks, by the C library's `fork`: a child would have for good what it changes for a
/// moment. It neither forks nor panics.
pub(crate) fn without_forks<T>(f: impl FnOnce() -> T) -> T {
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
