//! The end of the process.

/// Calls `f` when the process returns from `main` or calls `exit`. False if the C library has no room
/// for one more.
pub fn at_exit(f: extern "C" fn()) -> bool {
    // SAFETY: the function is static, takes nothing and returns nothing.
    unsafe { libc::atexit(f) == 0 }
}
