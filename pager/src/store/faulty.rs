//! A storage that fails on demand.

use super::storage::Storage;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

/// What goes wrong. Zero = never. Change it at any time, from any thread.
#[derive(Debug, Default)]
pub struct FaultPlan {
    /// Every so manieth read fails with EIO.
    pub fail_reads: AtomicU32,
    /// Every so manieth write fails with [`Self::write_error`].
    pub fail_writes: AtomicU32,
    /// Error number of failing writes; 0 = EIO.
    pub write_error: AtomicU32,
    /// Every so manieth transfer moves about a third of what was asked, at least a byte.
    pub short: AtomicU32,
    /// Every transfer takes this many microseconds longer.
    pub slow_us: AtomicU32,
    reads: AtomicU64,
    writes: AtomicU64,
    transfers: AtomicU64,
    /// Failures so far.
    pub failed: AtomicU64,
}

impl FaultPlan {
    fn due(&self, every: &AtomicU32, count: &AtomicU64) -> bool {
        let n = count.fetch_add(1, Relaxed) + 1;
        match every.load(Relaxed) {
            0 => false,
            every => n.is_multiple_of(u64::from(every)),
        }
    }

    fn len(&self, len: usize) -> usize {
        let us = self.slow_us.load(Relaxed);
        if us > 0 {
            std::thread::sleep(Duration::from_micros(us.into()));
        }
        if self.due(&self.short, &self.transfers) {
            (len / 3).max(1)
        } else {
            len
        }
    }
}

/// A storage with a plan of faults.
#[derive(Debug)]
pub struct FaultyStorage {
    inner: Arc<dyn Storage>,
    plan: Arc<FaultPlan>,
}

impl FaultyStorage {
    /// Wraps a storage.
    pub fn new(inner: Arc<dyn Storage>, plan: Arc<FaultPlan>) -> Self {
        Self { inner, plan }
    }
}

impl Storage for FaultyStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let p = &self.plan;
        let n = p.len(buf.len());
        if p.due(&p.fail_reads, &p.reads) {
            p.failed.fetch_add(1, Relaxed);
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.inner.read_at(&mut buf[..n], offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let p = &self.plan;
        let n = p.len(buf.len());
        if p.due(&p.fail_writes, &p.writes) {
            p.failed.fetch_add(1, Relaxed);
            let e = match p.write_error.load(Relaxed) {
                0 => libc::EIO,
                e => e as i32,
            };
            return Err(io::Error::from_raw_os_error(e));
        }
        self.inner.write_at(&buf[..n], offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}
