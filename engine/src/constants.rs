//! Figures that several parts share.

/// Pages that a request for reclaim asks for at least.
pub const SWAP_CLUSTER_MAX: u64 = 32;
/// Fruitless calls, runs or rounds after which something else is tried: the OOM killer, or nothing more.
pub const MAX_RECLAIM_RETRIES: u32 = 16;
/// Largest order for which progress of reclaim alone justifies another try, and for which tasks are killed.
pub const COSTLY_ORDER: u32 = 3;
