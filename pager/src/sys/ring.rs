//! Many transfers at once, by io_uring, over buffers that are never managed memory: a ring may hold
//! on to a page that is then evicted.
//!
//! A ring is used by one caller at a time, and only until all its transfers have ended.

use super::fd::{high, Identity};
use super::fork::OfProcess;
use io_uring::{opcode, types, IoUring};
use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::{Mutex, OnceLock};

/// Transfers in flight at a time.
pub const DEPTH: u32 = 64;
/// Rings kept for the next batch.
const KEPT: usize = 8;

/// One transfer between a buffer and a file.
#[derive(Debug)]
pub struct Transfer<'a> {
    fd: RawFd,
    buf: Buf<'a>,
    offset: u64,
}

#[derive(Debug)]
enum Buf<'a> {
    Into(&'a mut [u8]),
    From(&'a [u8]),
}

impl<'a> Transfer<'a> {
    /// Reads into `buf`. The descriptor must stay open meanwhile.
    pub fn read(fd: RawFd, buf: &'a mut [u8], offset: u64) -> Self {
        let buf = Buf::Into(buf);
        Self { fd, buf, offset }
    }

    /// Writes from `buf`. The descriptor must stay open meanwhile.
    pub fn write(fd: RawFd, buf: &'a [u8], offset: u64) -> Self {
        let buf = Buf::From(buf);
        Self { fd, buf, offset }
    }

    fn entry(&mut self, index: usize) -> io_uring::squeue::Entry {
        let fd = types::Fd(self.fd);
        let len = |n: usize| u32::try_from(n).expect("a transfer is less than 4 GiB");
        let entry = match &mut self.buf {
            Buf::Into(b) => opcode::Read::new(fd, b.as_mut_ptr(), len(b.len()))
                .offset(self.offset)
                .build(),
            Buf::From(b) => opcode::Write::new(fd, b.as_ptr(), len(b.len()))
                .offset(self.offset)
                .build(),
        };
        entry.user_data(index as u64)
    }
}

/// A ring, of the process that made it.
struct Ring {
    ring: ManuallyDrop<IoUring>,
    identity: Identity,
    pid: u32,
}

impl Ring {
    /// Of this process, and its descriptor still means it. A child of fork does not have its memory, and
    /// a number that means something else is not to be closed.
    fn is_ours(&self) -> bool {
        self.pid == std::process::id() && identity(&self.ring) == Ok(self.identity)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: not used after this, because the value is going away.
            unsafe { ManuallyDrop::drop(&mut self.ring) };
        }
    }
}

fn identity(ring: &IoUring) -> rustix::io::Result<Identity> {
    // SAFETY: only the kernel is asked, which says if there is no such descriptor.
    Identity::of(unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) })
}

static RINGS: OfProcess<Mutex<Vec<Ring>>> = OfProcess::new();

/// Can transfers be batched? Tried once; why not, as text.
pub fn available() -> Result<(), &'static str> {
    static TRIED: OfProcess<OnceLock<Result<(), String>>> = OfProcess::new();
    let tried = TRIED
        .get()
        .get_or_init(|| probe().map_err(|e| format!("io_uring: {e}")));
    tried.as_ref().map(|_| ()).map_err(String::as_str)
}

fn probe() -> io::Result<()> {
    let mut r = make()?;
    // SAFETY: a request without any buffer.
    unsafe { r.ring.submission().push(&opcode::Nop::new().build()) }
        .map_err(|_| io::Error::other("no room for a request"))?;
    r.ring.submit_and_wait(1)?;
    let done = r.ring.completion().next();
    match done.map(|c| c.result()) {
        Some(0) => {
            keep(r);
            Ok(())
        }
        other => Err(io::Error::other(format!("an empty request gave {other:?}"))),
    }
}

fn make() -> io::Result<Ring> {
    let low: IoUring = IoUring::builder()
        .setup_coop_taskrun()
        .build(DEPTH)
        // Linux before 5.19.
        .or_else(|_| IoUring::builder().build(DEPTH))?;
    // SAFETY: a ring that has just been made: its descriptor is open.
    let fd = high(unsafe { BorrowedFd::borrow_raw(low.as_raw_fd()) }.try_clone_to_owned()?);
    // SAFETY: the descriptor is owned and a ring's, with the parameters that the kernel gave.
    let ring = unsafe { IoUring::from_fd(fd.into_raw_fd(), low.params().clone())? };
    Ok(Ring {
        identity: identity(&ring)?,
        ring: ManuallyDrop::new(ring),
        pid: std::process::id(),
    })
}

fn take() -> io::Result<Ring> {
    // Not waited for: a miss must not stand behind others for this.
    let kept = RINGS
        .get()
        .try_lock()
        .ok()
        .and_then(|mut rings| rings.pop());
    match kept {
        Some(r) if r.is_ours() => Ok(r),
        _ => make(),
    }
}

fn keep(r: Ring) {
    if let Ok(mut rings) = RINGS.get().try_lock() {
        if rings.len() < KEPT {
            rings.push(r);
        }
    }
}

/// Does all transfers. In `results`, for each: bytes, or an error number below zero; `None` for
/// those that were not started because the ring cannot be used (any more).
pub fn run(transfers: &mut [Transfer<'_>]) -> Vec<Option<i32>> {
    let mut results = vec![None; transfers.len()];
    if available().is_err() {
        return results;
    }
    let Ok(mut r) = take() else { return results };
    if r.run(transfers, &mut results) {
        keep(r);
    }
    results
}

impl Ring {
    /// True if the ring is as good as new afterwards.
    fn run(&mut self, transfers: &mut [Transfer<'_>], results: &mut [Option<i32>]) -> bool {
        let (mut next, mut queued) = (0, 0usize);
        while next < transfers.len() || queued > 0 {
            while next < transfers.len() && queued < DEPTH as usize {
                let entry = transfers[next].entry(next);
                // SAFETY: buffer and descriptor outlive the request: this function returns only
                // when every request that the kernel has taken has ended.
                if unsafe { self.ring.submission().push(&entry) }.is_err() {
                    break;
                }
                next += 1;
                queued += 1;
            }
            // More as soon as there is room, else all that is left.
            let want = if next < transfers.len() { 1 } else { queued };
            let refused = self.ring.submit_and_wait(want).err();
            for c in self.ring.completion() {
                results[c.user_data() as usize] = Some(c.result());
                queued -= 1;
            }
            let Some(e) = refused else { continue };
            let short = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
            if e.raw_os_error().is_some_and(|n| short.contains(&n)) {
                std::thread::yield_now();
                continue;
            }
            // A sandbox that was put up after the probe. What the kernel has not taken it will not
            // take any more, because the ring goes away; what it has taken is waited for.
            if self.ring.submission().len() >= queued {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::PageBuf;
    use crate::sys::PAGE;
    use std::os::fd::AsRawFd;

    /// More than fit into the ring, from several threads at once.
    #[test]
    fn transfers_arrive() {
        if let Err(why) = available() {
            println!("skipped: {why}");
            return;
        }
        const N: usize = 3 * DEPTH as usize + 5;
        std::thread::scope(|s| {
            for t in 0..4u8 {
                s.spawn(move || {
                    let path = std::env::temp_dir()
                        .join(format!("coldset-ring-{}-{t}", std::process::id()));
                    let file = std::fs::File::options()
                        .read(true)
                        .write(true)
                        .create_new(true)
                        .open(&path)
                        .unwrap();
                    std::fs::remove_file(&path).unwrap();
                    let fd = file.as_raw_fd();
                    let mut out = PageBuf::new(N).unwrap();
                    for i in 0..N {
                        out.page_mut(i).fill(i as u8 ^ t);
                    }
                    let offset = |i: usize| ((N - i) * 2 * PAGE) as u64;
                    let mut writes: Vec<Transfer> = (0..N)
                        .map(|i| Transfer::write(fd, out.page(i), offset(i)))
                        .collect();
                    assert!(run(&mut writes).iter().all(|&r| r == Some(PAGE as i32)));
                    let mut back = PageBuf::new(N).unwrap();
                    let pages = back.bytes_mut().chunks_mut(PAGE).enumerate();
                    let mut reads: Vec<Transfer> = pages
                        .map(|(i, p)| Transfer::read(fd, p, offset(i)))
                        .collect();
                    assert!(run(&mut reads).iter().all(|&r| r == Some(PAGE as i32)));
                    assert!(back.bytes() == out.bytes());
                    // Beyond the end, and a descriptor that is none.
                    let mut one = [0; 8];
                    let mut ends = [Transfer::read(fd, &mut one, 1 << 40)];
                    assert_eq!(run(&mut ends), [Some(0)]);
                    let mut bad = [Transfer::read(-1, &mut one, 0)];
                    assert_eq!(run(&mut bad), [Some(-libc::EBADF)]);
                });
            }
        });
    }
}
