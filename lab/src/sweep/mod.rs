//! Sweeps: many runs over a grid of configurations, with results that survive whatever stops them.
//!
//! A [`Grid`] is multiplied out into [`Cell`]s. A cell is one configuration under one seed: the
//! smallest piece that can be finished, so an interruption costs least, all CPUs have work, and
//! more seeds later compute only the seeds that are new. Its key is a hash of everything that
//! decides the result ([`Cell::key`]), the sources of the program included ([`version`]). A
//! [`Store`] is a folder of Parquet files with the counters of each finished cell.
//!
//! Who computes is up to the caller: a process of its own for each worker (`coldset lab sweep`), a pool
//! of Python, a Dask cluster. All of them come to [`work`], or to [`Runner::run`] and
//! [`Store::append`] where results travel.

mod cell;
mod error;
mod grid;
mod runner;
mod settings;
mod store;
mod table;
mod version;

pub use cell::{Cell, Memory, What};
pub use error::SweepError;
pub use grid::Grid;
pub use runner::{work, Done, Runner};
pub use store::{Claim, Row, Rows, Store};
pub use table::{means, render_means, Group};
pub use version::version;

#[cfg(test)]
mod tests;
