//! The state of one page: a word that everybody changes by compare-and-swap.
//!
//! `word.rs` has the transitions as pure functions, `table.rs` the atomics, and `model.rs` tries
//! every interleaving of those who use them.

#[cfg(test)]
mod model;
mod table;
mod word;

pub use table::PageTable;
pub use word::{State, Word};
