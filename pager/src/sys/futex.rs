//! Waiting for a 32-bit word to change.

use crate::meanwhile::meanwhile;
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `seen`; at most `timeout`. May return early for no reason.
pub fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|d| futex::Timespec {
        tv_sec: d.as_secs() as _,
        tv_nsec: d.subsec_nanos().into(),
    });
    meanwhile();
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, timeout.as_ref());
}

/// Wakes everyone who waits for `word`.
pub fn wake_all(word: &AtomicU32) {
    meanwhile();
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}
