//! A panic inside the pager ends the process.
//!
//! A thread that panics may own pages that others wait for, or leave the engine in an unknown state: to
//! continue would be a hang or a lie. The process ends, with one line behind the panic's own message,
//! wherever the panic was: in a thread of the pool, in a program's call, or in a storage that the program brought.

use crate::sys::exit::say;
use crate::sys::signals::shielded_thread;
use std::io;
use std::thread::JoinHandle;

/// Ends the process if a panic that begins while it lives passes it.
#[derive(Debug)]
pub(crate) struct Fuse {
    /// A panic is under way outside: a destructor has called the pager, which is as good as any call.
    outside: bool,
}

impl Fuse {
    pub(crate) fn new() -> Self {
        Self {
            outside: std::thread::panicking(),
        }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.outside {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("without a name");
            say(&format!(
                "coldset: a panic inside the pager, in thread {name}: pages that others wait for may have \
                 nobody to bring them in, so the process ends here\n"
            ));
            std::process::abort();
        }
    }
}

/// Starts a thread of the pool's own: a panic of it ends the process, too.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn pool_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let started = shielded_thread(name, move || {
        let _fuse = Fuse::new();
        work()
    });
    started.map_err(|e| {
        let text = format!("no thread for it: {e} (ulimit -u, pids.max of the cgroup, or memory)");
        io::Error::new(e.kind(), text)
    })
}
