//! Sweeps: many runs over a grid of configurations, with results that survive whatever stops them.
//!
//! A [`Grid`] is multiplied out into [`Cell`]s. A cell is one configuration under one seed: the
//! smallest piece that can be finished, so an interruption costs least, all CPUs have work, and
//! more seeds later compute only the seeds that are new. Its key is a hash of everything that
//! decides the result ([`Cell::key`]), the sources of the program included ([`version`]). A
//! [`Store`] is a folder of Parquet files with the counters of each finished cell.
//!
//! On one machine [`supervise`] keeps worker processes busy, each of which calls [`serve`]: that is
//! `coldset lab sweep`, and the sweeps of Python. A Dask cluster has a supervisor of its own and calls
//! [`work`], or [`Runner::run`] and [`Store::append`] where results travel.

mod cell;
mod error;
mod grid;
mod runner;
mod settings;
mod store;
mod supervisor;
mod table;
mod version;
mod worker;

pub use cell::{Cell, Memory, What, WorkloadFile};
pub use error::SweepError;
pub use grid::Grid;
pub use runner::{work, Done, Runner};
pub use store::{Claim, Row, Rows, Store};
pub use supervisor::{supervise, Failed, Tally};
pub use table::{means, render_means, Group};
pub use version::version;
pub use worker::serve;

#[cfg(test)]
mod tests;
