//! Keeping other signal handlers away.
//!
//! A handler of the application that touches managed memory while its thread holds a lock of the
//! pager would wait for itself. So asynchronous signals stay blocked while the pager works.

use std::io;
use std::mem::MaybeUninit;
use std::thread::JoinHandle;

/// Signals a program causes itself by what it executes; blocking them would only kill it.
const SYNCHRONOUS: [i32; 7] = [
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// All signals but those that a thread raises by what it executes.
pub fn asynchronous() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set it is given; sigdelset gets an initialised one.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for s in SYNCHRONOUS {
            libc::sigdelset(set.as_mut_ptr(), s);
        }
        set.assume_init()
    }
}

/// Blocks asynchronous signals on this thread until dropped.
#[derive(Debug)]
pub struct Shield {
    old: libc::sigset_t,
}

impl Shield {
    /// Raises the shield.
    pub fn new() -> Self {
        let mut old = MaybeUninit::uninit();
        // SAFETY: both pointers are valid; pthread_sigmask writes the old mask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &asynchronous(), old.as_mut_ptr());
            Self {
                old: old.assume_init(),
            }
        }
    }
}

/// Starts a thread of the pager's own: handlers of the application run elsewhere, and threads that it
/// starts inherit that.
///
/// # Errors
/// The thread cannot be started.
pub fn shielded_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.into()).spawn(|| {
        let _shield = Shield::new();
        work()
    })
}

impl Default for Shield {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // SAFETY: `old` came from pthread_sigmask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.old, std::ptr::null_mut());
        }
    }
}

/// Does this thread block SIGBUS?
pub fn blocks_sigbus() -> bool {
    let mut set = MaybeUninit::uninit();
    // SAFETY: without a new mask the call only writes the present one.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr());
        libc::sigismember(set.as_ptr(), libc::SIGBUS) == 1
    }
}

/// Lets SIGBUS through on this thread. A thread that blocks it is killed by its first miss.
pub fn unblock_sigbus() {
    // SAFETY: the set is initialised by sigemptyset before use.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}
