//! The end of the process.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Calls `f` when the process returns from `main` or calls `exit`. False if the C library has no room
/// for one more.
pub fn at_exit(f: extern "C" fn()) -> bool {
    // SAFETY: the function is static, takes nothing and returns nothing.
    unsafe { libc::atexit(f) == 0 }
}

/// Ends the process, which cannot continue: what it needs is lost, or threads would wait for ever.
pub(crate) fn end(why: &str) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if ENDING.swap(true, Relaxed) {
        // One line is enough. The other thread is about to end the process.
        std::thread::sleep(std::time::Duration::from_secs(1));
    } else {
        say(&format!("coldset: the process ends: {why}\n"));
    }
    std::process::abort()
}

/// To standard error by its descriptor: the thread that missed may hold the lock of Rust's.
pub(crate) fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
