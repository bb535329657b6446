//! The pools of this process.

use super::snapshot::Snapshot;
use crate::sys::fork::OfProcess;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// A pool, as far as others look at it.
pub(crate) trait Observed: Send + Sync {
    /// Where it stands. None if a panic has left its engine in an unknown state, or if the pool is that of the process
    /// from which this one was forked.
    fn snapshot(&self) -> Option<Snapshot>;
}

static POOLS: OfProcess<Mutex<Vec<Weak<dyn Observed>>>> = OfProcess::new();

/// A number for a new pool.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// A pool exists.
pub(crate) fn add(pool: Arc<dyn Observed>) {
    let mut all = POOLS.get().lock().unwrap_or_else(|e| e.into_inner());
    all.retain(|p| p.strong_count() > 0);
    all.push(Arc::downgrade(&pool));
}

/// Where all pools of a process stand.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcessSnapshot {
    /// Version of this form; raised when a field changes its meaning or goes.
    pub version: u32,
    /// Its process number.
    pub pid: u32,
    /// The file name of its program; empty if the system does not tell.
    pub program: String,
    /// Its pools, oldest first. One that has failed (a panic in the pager) is left out, and so are, in a child of fork,
    /// those of the parent.
    pub pools: Vec<Snapshot>,
}

impl ProcessSnapshot {
    /// The version that this crate writes.
    pub const VERSION: u32 = 1;
}

/// Where all pools of this process stand.
pub fn snapshot_all() -> ProcessSnapshot {
    let pools: Vec<Arc<dyn Observed>> = {
        let all = POOLS.get().lock().unwrap_or_else(|e| e.into_inner());
        all.iter().filter_map(Weak::upgrade).collect()
    };
    let program = std::env::current_exe().ok();
    let program = program.as_ref().and_then(|p| p.file_name());
    ProcessSnapshot {
        version: ProcessSnapshot::VERSION,
        pid: std::process::id(),
        program: program.map_or_else(String::new, |p| p.to_string_lossy().into()),
        pools: pools.iter().filter_map(|p| p.snapshot()).collect(),
    }
}
