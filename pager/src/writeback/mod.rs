//! Dirty pages of files.
//!
//! | file | what |
//! |---|---|
//! | `write.rs` | writing pages without evicting them, in the order that loses no store |
//! | `flush.rs` | which are written, and when: the flusher, writers at the limit, `sync` |
//! | `exit.rs` | dirty pages when the process ends |

pub(crate) mod exit;
pub(crate) mod flush;
mod write;
