//! Wakes a thread of the pool that works now and then, and tells it to end.

use super::fuse::pool_thread;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

#[derive(Debug, Default)]
struct Calls {
    rung: bool,
    stop: bool,
    started: bool,
}

/// One thread waits for it, any may ring.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    calls: Mutex<Calls>,
    changed: Condvar,
}

impl Bell {
    /// Starts the thread, unless it has been started before.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Bell) + Send + 'static,
    ) -> io::Result<()> {
        let mut calls = self.calls.lock().expect("bell");
        if !calls.started {
            let bell = self.clone();
            pool_thread(name, move || work(&bell))?;
            calls.started = true;
        }
        Ok(())
    }

    /// There is work.
    pub(crate) fn ring(&self) {
        let mut calls = self.calls.lock().expect("bell");
        if !calls.rung {
            calls.rung = true;
            self.changed.notify_one();
        }
    }

    /// The thread is to end.
    pub(crate) fn stop(&self) {
        self.calls.lock().expect("bell").stop = true;
        self.changed.notify_one();
    }

    /// Is the thread to end?
    pub(crate) fn stopped(&self) -> bool {
        self.calls.lock().expect("bell").stop
    }

    /// Sleeps until somebody rings, `most` at the longest. True if somebody has; none: the thread is to end.
    pub(crate) fn wait(&self, most: Duration) -> Option<bool> {
        let calls = self.calls.lock().expect("bell");
        let (mut calls, _) = self
            .changed
            .wait_timeout_while(calls, most, |c| !c.rung && !c.stop)
            .expect("bell");
        (!calls.stop).then(|| std::mem::take(&mut calls.rung))
    }
}
