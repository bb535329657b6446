//! A process that does not outlive us, even if we are killed.

#![allow(unsafe_code)]

use rustix::process::{getpid, getppid, set_parent_process_death_signal, Signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A process that ends with this value, or with the thread that has started it.
pub(crate) struct Bound(pub Child);

impl Bound {
    /// Starts it.
    ///
    /// # Errors
    /// As of any process.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let us = getpid();
        let ends_with_us = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If we have been killed before that, nobody would send it.
            match getppid() == Some(us) {
                true => Ok(()),
                false => Err(io::ErrorKind::BrokenPipe.into()),
            }
        };
        // SAFETY: between fork and exec a child may do what a signal handler may: this makes two system calls, and
        // takes neither locks nor memory.
        unsafe { command.pre_exec(ends_with_us) };
        command.spawn().map(Self)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, Instant};

    /// The death signal is that of the thread, whose end stands for that of a process.
    #[test]
    fn it_ends_with_who_started_it() {
        let started = || {
            let child = Bound::spawn(Command::new("sleep").arg("60")).unwrap();
            let id = child.0.id();
            std::mem::forget(child);
            id
        };
        let id = std::thread::spawn(started).join().unwrap();
        let ended = || {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // Nobody has waited for it.
            stat.is_empty() || stat.contains(") Z ")
        };
        let begun = Instant::now();
        while !ended() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "it is still there"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        let error = Bound::spawn(&mut Command::new("no-such-program")).err();
        assert_eq!(error.map(|e| e.kind()), Some(io::ErrorKind::NotFound));
    }
}
