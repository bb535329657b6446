//! Calls that are worth another try.

use rustix::io::{Errno, Result};
use std::time::Duration;

/// How often, and how long apart, a call is made again for which the kernel has no means at the moment.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// Makes a call again that was interrupted, or that the kernel asks to make again (`EAGAIN`): the pager holds pages in the
/// meantime that others wait for, and has nobody to hand the error to.
pub(crate) fn again<T>(call: impl FnMut() -> Result<T>) -> Result<T> {
    again_after(&[Errno::AGAIN], call)
}

/// The same, also of a call for which the kernel has no memory at the moment: the process ends if it fails.
pub(crate) fn patiently<T>(call: impl FnMut() -> Result<T>) -> Result<T> {
    again_after(&[Errno::AGAIN, Errno::NOMEM], call)
}

fn again_after<T>(passing: &[Errno], mut call: impl FnMut() -> Result<T>) -> Result<T> {
    let mut tries = 0;
    loop {
        match call() {
            Err(Errno::INTR) => {}
            Err(e) if passing.contains(&e) && tries < TRIES => {
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that fails so often before it succeeds, and how often it was made.
    fn fails(with: Errno, times: u32) -> (Result<u32>, u32) {
        let made = std::cell::Cell::new(0);
        let call = || {
            made.set(made.get() + 1);
            if made.get() > times {
                Ok(7)
            } else {
                Err(with)
            }
        };
        let done = match with {
            Errno::NOMEM => patiently(call),
            _ => again(call),
        };
        (done, made.get())
    }

    #[test]
    fn what_passes_is_tried_again_and_nothing_else() {
        assert_eq!(fails(Errno::INTR, 1000), (Ok(7), 1001));
        assert_eq!(fails(Errno::AGAIN, 3), (Ok(7), 4));
        assert_eq!(fails(Errno::AGAIN, 1000), (Err(Errno::AGAIN), TRIES + 1));
        assert_eq!(fails(Errno::NOMEM, 3), (Ok(7), 4));
        assert_eq!(fails(Errno::IO, 1), (Err(Errno::IO), 1));
        assert_eq!(again(|| Err::<(), _>(Errno::NOMEM)), Err(Errno::NOMEM));
    }
}
