//! What can be seen of a pool from outside.
//!
//! | file | what |
//! |---|---|
//! | `histogram.rs` | latencies: recorded by atomics, read as percentiles |
//! | `snapshot.rs` | where a pool stands, with all counters, as data that can be written down |
//! | `registry.rs` | the pools of this process |
//! | `socket.rs` | a socket that answers with snapshots, and its readers |
//! | `metrics.rs`, `http.rs` | the same for Prometheus |

pub(crate) mod histogram;
pub(crate) mod registry;
pub(crate) mod snapshot;

pub use histogram::Distribution;
pub use registry::{snapshot_all, ProcessSnapshot};
pub use snapshot::{Generation, GroupSnapshot, Lists, RegionKind, RegionSnapshot, Snapshot};
