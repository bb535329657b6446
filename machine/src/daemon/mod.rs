//! What works in the background: flushers, kswapd, the OOM killer.

pub mod flusher;
pub mod kswapd;
pub mod oom;
pub mod state;
