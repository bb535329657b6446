//! Dirty pages of files.
//!
//! | file | what |
//! |---|---|
//! | `flush.rs` | writing them: the flusher, sync |
//! | `errseq.rs` | errors that nobody waited for |
//! | `exit.rs` | dirty pages when the process ends |

pub(crate) mod errseq;
pub(crate) mod exit;
pub(crate) mod flush;
