//! Objects in remote stores, read-only, by OpenDAL (feature `remote`).
//!
//! A miss may run inside a signal handler, where no asynchronous runtime can: requests go to a thread
//! of the object's own, which runs one, and whoever asked sleeps on a channel. Whole blocks are
//! fetched, more of them the longer they are asked for in order, and a few are kept for the pages
//! that follow.

mod client;
mod extents;

use super::storage::Storage;
use client::Client;
use extents::{Extents, Look};
use opendal::Operator;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How an object is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteOptions {
    /// Bytes of the smallest request; rounded up to pages.
    pub block: usize,
    /// Most blocks of a request for bytes that are asked for in order.
    pub read_ahead: usize,
    /// Bytes kept of what was fetched. They do not count to any budget.
    pub kept: usize,
    /// A request that is not answered for so long is tried again.
    pub timeout: Duration,
    /// Tries after the first that fails for a reason that may pass.
    pub retries: usize,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            block: 64 << 10,
            read_ahead: 16,
            kept: 8 << 20,
            timeout: Duration::from_secs(10),
            retries: 4,
        }
    }
}

/// An object.
#[derive(Debug)]
pub struct RemoteStorage {
    client: Client,
    extents: Extents,
    len: u64,
    block: u64,
    requests: AtomicU64,
    fetched: AtomicU64,
}

impl RemoteStorage {
    /// Opens the object at `path`. Its size and, where the service has them, ETag, version and time of
    /// change are remembered: it must not change.
    ///
    /// # Errors
    /// Those of the service, with the object's name.
    pub fn open(operator: &Operator, path: &str, options: RemoteOptions) -> io::Result<Self> {
        let (client, len) = Client::start(operator, path, &options)?;
        let block = options.block.max(1).next_multiple_of(crate::sys::PAGE);
        let most = options.read_ahead.max(1);
        Ok(Self {
            client,
            extents: Extents::new(most as u64, options.kept.max(block)),
            len,
            block: block as u64,
            requests: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
        })
    }

    /// Its name: service and path.
    pub fn name(&self) -> &str {
        self.client.name()
    }

    /// Bytes it has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Requests made so far, and bytes they brought.
    pub fn traffic(&self) -> (u64, u64) {
        (self.requests.load(Relaxed), self.fetched.load(Relaxed))
    }

    fn fetch(&self, first: u64, blocks: u64) -> io::Result<Vec<u8>> {
        let from = first * self.block;
        let to = ((first + blocks) * self.block).min(self.len);
        self.requests.fetch_add(1, Relaxed);
        let bytes = self.client.read(from..to)?;
        self.fetched.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes)
    }
}

impl Storage for RemoteStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.len || buf.is_empty() {
            return Ok(0);
        }
        let block = offset / self.block;
        let within = (offset % self.block) as usize;
        let last = (self.len - 1) / self.block;
        loop {
            match self.extents.look(block, last) {
                Look::Here { bytes, skip } => {
                    let at = skip as usize * self.block as usize + within;
                    let n = buf.len().min(bytes.len() - at);
                    buf[..n].copy_from_slice(&bytes[at..at + n]);
                    return Ok(n);
                }
                Look::Fetch(blocks) => {
                    let (bytes, failed) = match self.fetch(block, blocks) {
                        Ok(bytes) => (Some(bytes), Ok(())),
                        Err(e) => (None, Err(e)),
                    };
                    self.extents.arrived(block, bytes, self.block as usize);
                    failed?;
                }
                // Somebody else has fetched it, or failed to.
                Look::Again => {}
            }
        }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::EROFS))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
