//! The end of the process.

/// Calls `f` when the process ends normally.
pub fn at_exit(f: extern "C" fn()) {
    // SAFETY: a function without arguments that lives as long as the program. Refused only for want
    // of memory; then there is no hook.
    unsafe { libc::atexit(f) };
}
