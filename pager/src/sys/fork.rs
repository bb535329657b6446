//! Forks, noticed without a system call.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Once;

/// Times that this process and those it comes from have been forked, since they began to count.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
}

/// A process, as far as its C library's `fork` tells it from its children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Generation(u32);

impl Generation {
    /// This process. Where the C library has no room for one more function, children look the same.
    pub(crate) fn this() -> Self {
        static HOOK: Once = Once::new();
        // SAFETY: the function is static, and does nothing that a child may not do.
        HOOK.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        Self(FORKS.load(Relaxed))
    }

    /// Is this a child, by fork, of that process?
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        FORKS.load(Relaxed) != self.0
    }
}
