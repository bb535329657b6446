//! Results as one self-contained page: summary in plain words, tables, charts, parameters, the command
//! that makes it again, and the numbers as the JSON that `--json` writes.
//!
//! [`Page`] is the general form; [`experiment`], [`verify`], [`replay`], [`ablation`], [`mrc`] and [`compare`]
//! fill one from a result. Nothing is fetched, everything that is not ours is escaped.

mod ablation;
mod causes;
mod common;
mod compare;
mod experiment;
mod mrc;
mod page;
mod replay;
mod summary;
mod table;
mod verify;

pub use ablation::ablation;
pub use common::{costs, switches};
pub use compare::compare;
pub use experiment::experiment;
pub use mrc::mrc;
pub use page::{Page, Section};
pub use replay::replay;
pub use table::{Cell, Row, Table};
pub use verify::verify;

#[cfg(test)]
mod tests;
