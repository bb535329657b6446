//! A local device that fails now and then: what may pass (EIO, EAGAIN, ENOMEM) is tried again a few times,
//! with a pause.

use super::storage::{Read, Storage, Write};
use crate::sys::clock;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

/// Pauses before the second, third and fourth try.
pub const PAUSES: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
];

/// After a transfer that has failed for good, others are not waited for during this time: a device that
/// is broken should not take a quarter of a second for each page.
const SULK_NS: u64 = 1_000_000_000;

/// A storage whose failed transfers are tried again after `EIO`, `EAGAIN` and `ENOMEM`: no other error passes by
/// waiting. A `sync` is not tried again: after a failed one the kernel may have dropped what it could not write, and the
/// next would say that all is well.
#[derive(Debug)]
pub struct RetryStorage {
    inner: Arc<dyn Storage>,
    pauses: Vec<Duration>,
    /// Until when nothing is tried again, nanoseconds.
    sulking: AtomicU64,
    retried: Arc<AtomicU64>,
}

fn passes(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EIO | libc::EAGAIN | libc::ENOMEM)
    )
}

impl RetryStorage {
    /// Wraps a storage. As many further tries as there are pauses; each is counted in `retried`.
    pub fn new(inner: Arc<dyn Storage>, pauses: &[Duration], retried: Arc<AtomicU64>) -> Self {
        Self {
            inner,
            pauses: pauses.to_vec(),
            sulking: AtomicU64::new(0),
            retried,
        }
    }

    fn again(
        &self,
        first: io::Result<usize>,
        mut transfer: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut done = first;
        for &pause in &self.pauses {
            let passing = done.as_ref().is_err_and(passes);
            if !passing || clock::now() < self.sulking.load(Relaxed) {
                return done;
            }
            std::thread::sleep(pause);
            self.retried.fetch_add(1, Relaxed);
            done = transfer();
        }
        if done.is_err() {
            self.sulking.store(clock::now() + SULK_NS, Relaxed);
        }
        done
    }
}

impl Storage for RetryStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let first = self.inner.read_at(buf, offset);
        self.again(first, || self.inner.read_at(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let first = self.inner.write_at(buf, offset);
        self.again(first, || self.inner.write_at(buf, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.inner.file()
    }

    fn read_many(&self, reads: &mut [Read<'_>]) {
        self.inner.read_many(reads);
        for r in reads {
            let first = std::mem::replace(&mut r.done, Ok(0));
            r.done = self.again(first, || self.inner.read_at(r.buf, r.offset));
        }
    }

    fn write_many(&self, writes: &mut [Write<'_>]) {
        self.inner.write_many(writes);
        for w in writes {
            let first = std::mem::replace(&mut w.done, Ok(0));
            w.done = self.again(first, || self.inner.write_at(w.buf, w.offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::storage::{read_all, write_full};
    use std::sync::atomic::{AtomicI32, AtomicU32};
    use std::sync::Mutex;

    /// A byte string whose transfers fail as often as it is told.
    #[derive(Debug)]
    struct Flaky {
        bytes: Mutex<Vec<u8>>,
        fail: AtomicU32,
        error: AtomicI32,
    }

    impl Flaky {
        fn fails(&self) -> io::Result<()> {
            let left = self.fail.load(Relaxed);
            if left > 0 {
                self.fail.store(left - 1, Relaxed);
                return Err(io::Error::from_raw_os_error(self.error.load(Relaxed)));
            }
            Ok(())
        }
    }

    impl Storage for Flaky {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.fails()?;
            let bytes = self.bytes.lock().unwrap();
            buf.copy_from_slice(&bytes[offset as usize..][..buf.len()]);
            Ok(buf.len())
        }
        fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
            self.fails()?;
            self.bytes.lock().unwrap()[offset as usize..][..buf.len()].copy_from_slice(buf);
            Ok(buf.len())
        }
        fn sync(&self) -> io::Result<()> {
            self.fails()
        }
    }

    fn flaky(error: i32) -> (Arc<Flaky>, RetryStorage, Arc<AtomicU64>) {
        let inner = Arc::new(Flaky {
            bytes: Mutex::new(vec![7; 64]),
            fail: AtomicU32::new(0),
            error: AtomicI32::new(error),
        });
        let retried = Arc::new(AtomicU64::new(0));
        let pauses = [Duration::from_millis(1); 3];
        let r = RetryStorage::new(inner.clone(), &pauses, retried.clone());
        (inner, r, retried)
    }

    #[test]
    fn what_passes_is_waited_for_and_what_does_not_is_told() {
        let (device, r, retried) = flaky(libc::EIO);
        device.fail.store(3, Relaxed);
        write_full(&r, &[1; 8], 8).unwrap();
        assert_eq!(retried.load(Relaxed), 3);
        device.fail.store(2, Relaxed);
        let (mut a, mut b) = ([0; 8], [0; 8]);
        let mut reads = [Read::new(&mut a, 8), Read::new(&mut b, 16)];
        read_all(&r, &mut reads);
        assert!(reads.iter().all(|r| matches!(r.done, Ok(8))));
        assert_eq!((a, b, retried.load(Relaxed)), ([1; 8], [7; 8], 5));
        device.error.store(libc::EAGAIN, Relaxed);
        device.fail.store(1, Relaxed);
        write_full(&r, &[1; 8], 8).unwrap();
        assert_eq!(retried.load(Relaxed), 6);
        device.error.store(libc::EIO, Relaxed);
        // A sync that failed is told at once.
        device.fail.store(1, Relaxed);
        assert_eq!(r.sync().unwrap_err().raw_os_error(), Some(libc::EIO));
        // For good: as many tries as agreed, and then none for a while.
        device.fail.store(100, Relaxed);
        assert!(write_full(&r, &[2; 8], 0).is_err());
        assert_eq!((retried.load(Relaxed), device.fail.load(Relaxed)), (9, 96));
        assert!(write_full(&r, &[2; 8], 0).is_err());
        assert_eq!((retried.load(Relaxed), device.fail.load(Relaxed)), (9, 95));
    }

    #[test]
    fn other_errors_are_told_at_once() {
        let (device, r, retried) = flaky(libc::EBADF);
        device.fail.store(1, Relaxed);
        let e = write_full(&r, &[1; 8], 8).unwrap_err();
        assert_eq!(
            (e.raw_os_error(), retried.load(Relaxed)),
            (Some(libc::EBADF), 0)
        );
    }
}
