//! A pool: everything that moves its pages, and what programs ask of the pool as a whole.
//!
//! | file | what |
//! |---|---|
//! | `inner.rs` | the pool, put together |
//! | `swap.rs` | the swap that its settings ask for |
//! | `group.rs` | the tree of limits |
//! | `resize.rs`, `pressure.rs` | the budget: at first, changed by the program, following memory pressure |
//! | `recording.rs` | beginning and ending a journal |
//! | `stat.rs`, `snapshot.rs` | where the pool stands, short and in full |
//! | `check.rs` | do the books agree? For tests |

mod check;
pub(crate) mod group;
pub(crate) mod inner;
mod pressure;
mod recording;
mod resize;
mod snapshot;
pub(crate) mod stat;
mod swap;
