//! What a pool may use, and what all code that moves its pages shares.
//!
//! | file | what |
//! |---|---|
//! | `resources.rs` | the one lock, the gate, swap, settings, counters, held together |
//! | `core.rs` | what is behind the lock: the policy and the regions |
//! | `deciding.rs` | threads in which a policy outside of the engine thinks |
//! | `gate.rs` | the budget of real pages |
//! | `account.rs` | tables and compressed contents that count to it |
//! | `stock.rs` | buffers that must be there when a miss needs them |
//! | `traffic.rs` | operations under way, and moments without any |
//! | `under_way.rs` | writes of dirty pages under way, for whoever waits for one to end |
//! | `counts.rs`, `histogram.rs` | counters; latencies as percentiles |
//! | `moved.rs` | counters by the kernel's names: those of the engine, and of what the pager moves |

pub(crate) mod account;
pub(crate) mod core;
pub(crate) mod counts;
pub(crate) mod deciding;
pub(crate) mod gate;
pub(crate) mod histogram;
pub(crate) mod moved;
pub(crate) mod resources;
pub(crate) mod stock;
pub(crate) mod traffic;
pub(crate) mod under_way;
