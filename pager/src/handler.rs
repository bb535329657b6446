//! Misses handled by threads of the pool.
//!
//! A full userfaultfd tells of every miss, that of a system call included, by a message; whoever
//! missed sleeps until its page is there. States and fills are those of `fault.rs`. One descriptor
//! serves all such regions of a pool.

use crate::error::{Error, Result};
use crate::fault::{find, say};
use crate::fuse::pool_thread;
use crate::region::{Memory, RegionInner};
use crate::sys::userfaultfd::{Told, Userfaultfd};
use crate::sys::PAGE;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The threads of a pool. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Handlers {
    uffd: Arc<Userfaultfd>,
    stop: Arc<OwnedFd>,
}

impl Handlers {
    /// Starts `threads` of them.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let uffd =
            Userfaultfd::with_messages().map_err(Error::sys("opening a full userfaultfd"))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(Error::sys("making an eventfd"))?;
        let h = Self {
            uffd: Arc::new(uffd),
            stop: Arc::new(stop),
        };
        for _ in 0..threads {
            let (uffd, stop) = (h.uffd.clone(), h.stop.clone());
            pool_thread("coldset-miss", move || serve(&uffd, &stop))
                .map_err(Error::io("starting a handler thread"))?;
        }
        Ok(h)
    }

    /// Where regions are registered.
    pub(crate) fn uffd(&self) -> Arc<Userfaultfd> {
        self.uffd.clone()
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
    }
}

/// How long a page that could not be brought in fails at once, before it is tried again.
const FAILED: Duration = Duration::from_millis(50);

/// One thread: a message, a miss, until told to stop.
fn serve(uffd: &Userfaultfd, stop: &OwnedFd) {
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
                if !handle(uffd, miss) {
                    failed.push((miss.addr & !(PAGE - 1), Instant::now()));
                }
            }
            Ok(None) => {}
            Err(e) => {
                // Threads wait for misses that nobody would hear of.
                say(&format!(
                    "coldset: misses cannot be read any more, so the process ends here: reading \
                     userfaultfd: {e}\n"
                ));
                std::process::abort();
            }
        }
    }
}

/// Brings a page in. False: it has been made to fail.
fn handle(uffd: &Userfaultfd, miss: Told) -> bool {
    let Some(region) = find(miss.addr) else {
        // Its region is going away, and whoever still uses it is on his own.
        return true;
    };
    let page = (miss.addr - region.map.addr()) / PAGE;
    match region.bring_in(page, miss.write) {
        Ok(()) => {
            // If somebody else brought it in, nobody has been woken for this message.
            let woken = uffd.wake(&region.map, page * PAGE);
            debug_assert!(woken.is_ok(), "{woken:?}");
            true
        }
        Err(e) => {
            say(&format!(
                "coldset: page {page} of a region cannot be brought in: {e}\n"
            ));
            fail(uffd, &region, page);
            false
        }
    }
}

/// Whoever waits for the page gets SIGBUS, a system call EFAULT.
fn fail(uffd: &Userfaultfd, region: &RegionInner, page: usize) {
    // Refused if somebody else could bring it in after all.
    let _ = uffd.poison(&region.map, page * PAGE);
    let _ = uffd.wake(&region.map, page * PAGE);
}

/// Pages that have failed for a while may be tried again.
fn forgive(failed: &mut Vec<(usize, Instant)>) {
    failed.retain(|&(addr, since)| {
        if since.elapsed() < FAILED {
            return true;
        }
        if let Some(r) = find(addr).filter(|r| matches!(r.memory, Memory::Faulting { .. })) {
            // Drops the mark. A page that is there by now stays, only its use is seen late.
            let _ = r.map.zap(addr - r.map.addr(), PAGE);
        }
        false
    });
}
