//! A pool: what belongs together, and what programs do with all of it.
//!
//! | file | what |
//! |---|---|
//! | `inner.rs` | the pool; charges |
//! | `group.rs` | the tree of limits |
//! | `resize.rs` | what the budget is at first, and how it changes |
//! | `pressure.rs` | a budget that follows the pressure on memory |
//! | `recording.rs` | beginning and ending a journal |
//! | `stat.rs` | counters |
//! | `check.rs` | do the books agree? for tests |

pub(crate) mod check;
pub(crate) mod group;
pub(crate) mod inner;
pub(crate) mod pressure;
pub(crate) mod recording;
pub(crate) mod resize;
pub(crate) mod stat;
