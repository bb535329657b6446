//! Page reclaim as a library: the sans-I/O engine. See `ARCHITECTURE.md`.
pub mod counters;
pub mod ids;
pub mod oom;
pub mod slab;
pub mod swap;
pub mod writeback;
pub mod zone;
