//! Who is told of misses: one userfaultfd for all regions of a pool, and its threads.
//!
//! A full userfaultfd tells of every miss, that of a system call included, by a message; the
//! thread that missed sleeps until its page is there. States and fills are those of `fill.rs`. One of the SIGBUS
//! form needs no thread for that. Both have one that does nothing but hold them: if the program closes
//! the descriptor and nobody has the file behind it, the kernel takes its regions for ordinary memory
//! again, and evicted pages read as zeroes.

use super::registry::find;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::sys::exit::end;
use crate::sys::fd::Kept;
use crate::sys::fuse::pool_thread;
use crate::sys::userfaultfd::{MissMessage, Userfaultfd};
use crate::sys::PAGE;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A userfaultfd and its threads, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Handlers {
    uffd: Arc<Userfaultfd>,
    stop: Arc<Kept>,
}

impl Handlers {
    /// Misses are signals.
    pub(crate) fn sigbus() -> Result<Self> {
        let uffd = Userfaultfd::with_signals().map_err(Error::sys("opening a userfaultfd"))?;
        Self::hold(uffd, PollFlags::IN)
    }

    /// Misses are messages to so many threads.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let uffd =
            Userfaultfd::with_messages().map_err(Error::sys("opening a full userfaultfd"))?;
        let h = Self::hold(uffd, PollFlags::empty())?;
        for _ in 0..threads {
            let (uffd, stop) = (h.uffd.clone(), h.stop.clone());
            pool_thread("coldset-miss", move || serve(&uffd, &stop))
                .map_err(Error::io("starting a handler thread"))?;
        }
        Ok(h)
    }

    /// `messages`: those that its keeper reads.
    fn hold(uffd: Userfaultfd, messages: PollFlags) -> Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC).and_then(Kept::new);
        let h = Self {
            uffd: Arc::new(uffd),
            stop: Arc::new(stop.map_err(Error::sys("making an eventfd"))?),
        };
        let (uffd, stop) = (h.uffd.clone(), h.stop.clone());
        pool_thread("coldset-keep", move || keep(&uffd, messages, &stop)).map_err(Error::io(
            "starting the thread that holds the userfaultfd open",
        ))?;
        Ok(h)
    }

    /// Where regions are registered.
    pub(crate) fn uffd(&self) -> Arc<Userfaultfd> {
        self.uffd.clone()
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        if self.stop.is_ours() {
            let told = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
            debug_assert!(told.is_ok(), "{told:?}");
        }
    }
}

/// Holds the file behind a userfaultfd, whatever becomes of its descriptor: `poll` does, as long as it
/// waits. It is interrupted by nothing but a stop of the whole process, and looks again after that. Messages it
/// reads are about mappings that have been moved: whoever moved one waits for that, and they say nothing new.
fn keep(uffd: &Userfaultfd, messages: PollFlags, stop: &Kept) {
    loop {
        let mut fds = [
            PollFd::new(uffd, messages),
            PollFd::new(stop, PollFlags::IN),
        ];
        // An error is an interruption.
        let ready = poll(&mut fds, None).unwrap_or(0) > 0;
        if ready && fds[1].revents().contains(PollFlags::IN) {
            return;
        }
        if ready {
            uffd.check();
            stop.check();
        }
        if ready && fds[0].revents().contains(PollFlags::IN) {
            let _moved = uffd.next_message();
        }
    }
}

/// How long a page that could not be brought in fails at once, before it is tried again.
const FAILED: Duration = Duration::from_millis(50);

/// One thread: a message, a miss, until told to stop.
fn serve(uffd: &Userfaultfd, stop: &Kept) {
    let mut failed: Vec<(usize, Instant)> = Vec::new();
    loop {
        let mut fds = [
            PollFd::new(uffd, PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        let timeout = (!failed.is_empty()).then_some(Timespec {
            tv_sec: 0,
            tv_nsec: FAILED.as_nanos() as _,
        });
        let polled = poll(&mut fds, timeout.as_ref());
        if fds[1].revents().contains(PollFlags::IN) {
            return;
        }
        forgive(&mut failed);
        if polled.is_err() {
            continue;
        }
        // One at a time: the others are there for the rest.
        match uffd.next_message() {
            Ok(Some(miss)) => {
                if !handle(miss) {
                    failed.push((miss.addr & !(PAGE - 1), Instant::now()));
                }
            }
            Ok(None) => {}
            Err(e) => {
                uffd.check();
                // Threads that have missed would sleep for ever.
                end(&format!("misses cannot be read from the userfaultfd: {e}"));
            }
        }
    }
}

/// Brings a page in. False: it has been made to fail.
fn handle(miss: MissMessage) -> bool {
    let Some(mapped) = find(miss.addr) else {
        // Its region is going away, and a thread that still uses it is the program's own mistake.
        return true;
    };
    let page = mapped.page(miss.addr);
    meanwhile();
    // Read-ahead may have brought it in since: the program has continued, and may have dropped the region.
    let _passage = mapped.misses.res.traffic.enter();
    let gone = mapped.area.stream().serving();
    if *gone {
        return true;
    }
    let done = mapped.bring_in(page, miss.write);
    let memory = mapped.area.memory();
    meanwhile();
    if done.is_ok() {
        // If somebody else brought it in, nobody has been woken for this message.
        let woken = memory.wake(page);
        debug_assert!(woken.is_ok(), "{woken:?}");
    } else {
        memory.fail(page);
    }
    done.is_ok()
}

/// Pages that have failed for a while may be tried again.
fn forgive(failed: &mut Vec<(usize, Instant)>) {
    failed.retain(|&(addr, since)| {
        if since.elapsed() < FAILED {
            return true;
        }
        if let Some(r) = find(addr) {
            // Drops the mark. A page that is there by now stays, only its use is seen late.
            r.area.memory().zap(r.page(addr) * PAGE, PAGE);
        }
        false
    });
}
