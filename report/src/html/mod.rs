//! Results as one self-contained page: summary in plain words, tables, charts, parameters, the command
//! that makes it again, and the numbers as the JSON that `--json` writes.
//!
//! [`Page`] is the general form. Nothing is fetched, everything that is not ours is escaped.

mod causes;
mod compare;
mod compare_replays;
mod page;
mod summary;

pub(crate) use causes::telling;
pub use causes::{causes, change, reasons, reasons_of_misses};
pub use compare::compare;
pub use compare_replays::compare_replays;
pub use page::{Page, Section, Summary};
pub use summary::{capital, facts, remarks, summary};

#[cfg(test)]
mod tests;
