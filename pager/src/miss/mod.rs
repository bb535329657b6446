//! Pages come.
//!
//! | file | what |
//! |---|---|
//! | `fill.rs` | a miss |
//! | `ahead.rs` | reading ahead of misses in order |
//! | `handler.rs` | threads that handle misses, where system calls must be able to miss |

pub(crate) mod ahead;
pub(crate) mod fill;
pub(crate) mod handler;
