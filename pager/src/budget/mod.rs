//! What a pool may take, and what everybody has to share.
//!
//! | file | what |
//! |---|---|
//! | `core.rs` | what is behind the pool's one lock |
//! | `gate.rs` | the budget of real pages |
//! | `account.rs` | tables that count to the budget |
//! | `stock.rs` | buffers that must be there when a miss needs them |
//! | `traffic.rs` | moments in which nothing is under way |

pub(crate) mod account;
pub(crate) mod core;
pub(crate) mod gate;
pub(crate) mod stock;
pub(crate) mod traffic;
