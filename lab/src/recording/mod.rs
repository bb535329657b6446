//! What the tasks of one machine do, as it becomes a trace. [`export`](crate::export) has a run recorded.

mod deeds;
mod error;
mod numbers;

pub use deeds::{Recording, Summary};
pub use error::ExportError;

/// Which part of a run is exported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The name of its machine, as [`Host::name`](crate::experiment::Host::name) has it.
    pub machine: String,
    /// Accesses after which the run is stopped; none: it goes to its end.
    pub most: Option<u64>,
}
