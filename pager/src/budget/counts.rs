//! Counters of the pager itself; the engine has its own.

use super::histogram::Histogram;
use crate::store::{retry, RetryStorage, Storage};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

/// Counters of the pager itself; the engine has its own.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) misses: AtomicU64,
    pub(crate) filled: AtomicU64,
    pub(crate) failed_misses: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) swapped_in: AtomicU64,
    pub(crate) swapped_out: AtomicU64,
    pub(crate) read_file: AtomicU64,
    pub(crate) lent: AtomicU64,
    pub(crate) written_back: AtomicU64,
    pub(crate) written_inline: AtomicU64,
    pub(crate) throttled_writes: AtomicU64,
    pub(crate) store_errors: AtomicU64,
    pub(crate) retried: Arc<AtomicU64>,
    pub(crate) reclaims: AtomicU64,
    pub(crate) sweeps: AtomicU64,
    pub(crate) swept: AtomicU64,
    pub(crate) dirty_blocks: AtomicU64,
    /// Bytes of page tables that the kernel has for regions.
    pub(crate) table_bytes: Arc<AtomicU64>,
    /// Buffers of misses beyond those that the pool began with.
    pub(crate) more_bounces: AtomicU64,
    pub(crate) miss_ns: Histogram,
    pub(crate) evict_ns: Histogram,
    pub(crate) writeback_ns: Histogram,
    /// Waits for the lock; a lock that was free is not timed.
    pub(crate) lock_ns: Histogram,
}

impl Counts {
    /// A local file whose failed transfers are tried again, and counted.
    pub(crate) fn retrying(&self, file: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(RetryStorage::new(
            file,
            &retry::PAUSES,
            self.retried.clone(),
        ))
    }
}
