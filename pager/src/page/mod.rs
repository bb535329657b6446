//! The state of one page: a word that everybody changes by compare-and-swap.
//!
//! `word.rs` has the transitions as pure functions, `table.rs` the atomics, and `model.rs` tries every interleaving
//! of their users. `loomed.rs` does the same with the real code of `table.rs`, including waits and the order of loads
//! and stores that the processor may choose.

#[cfg(test)]
mod loomed;
#[cfg(test)]
mod model;
mod table;
mod word;
mod words;

/// What `table.rs` is built from. `loomed.rs` has another.
mod sync {
    pub(super) use super::words::Words;
    pub(super) use crate::sys::futex;
    pub(super) use std::sync::atomic::AtomicU32;
}

pub use table::PageTable;
pub use word::{PageState, Word};
pub use words::Words;
