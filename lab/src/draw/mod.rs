//! Deterministic random draws of the workloads (`docs/reference/experiments.md`).
//!
//! Every draw is an integer comparison against a table built once. The tables are built with basic
//! operations and `libm`, which is plain Rust: the C library's functions may differ in the last bit
//! between machines, these do not, so the same seed gives the same bytes everywhere.

mod fio;
mod mongodb;
mod permutation;
mod quantiles;
mod stream;
mod sysbench;
mod table;
mod ycsb;
mod zipf;

pub use fio::FioZipf;
pub use mongodb::BlockChoice;
pub use permutation::Permutation;
pub use quantiles::Quantiles;
pub use stream::Stream;
pub use sysbench::RowChoice;
pub use table::ThresholdTable;
pub use ycsb::{fnv64, ScrambledZipf};
pub use zipf::Zipf;

/// Why a distribution cannot be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DrawError {
    /// The number of outcomes is zero or does not fit the table.
    #[error("{what}: {n} outcomes; give 1 to {max}")]
    Outcomes {
        /// The distribution asked for.
        what: &'static str,
        /// Outcomes asked for.
        n: u64,
        /// Most outcomes that are supported.
        max: u64,
    },
    /// The skew is outside what the formula supports.
    #[error("{what}: theta {theta} is not supported; give {range}")]
    Theta {
        /// The distribution asked for.
        what: &'static str,
        /// Skew asked for.
        theta: f64,
        /// Supported skews, in words.
        range: &'static str,
    },
    /// A table of weights holds a negative or non-finite entry, or no mass.
    #[error("weight table: {0}; give finite weights of at least 0 with a sum above 0")]
    Weights(String),
}

/// Outcomes must be indices in 32 bits: tables above that do not fit memory anyway.
pub(crate) const MAX_OUTCOMES: u64 = u32::MAX as u64;

pub(crate) fn check_outcomes(what: &'static str, n: u64) -> Result<(), DrawError> {
    if n == 0 || n > MAX_OUTCOMES {
        return Err(DrawError::Outcomes {
            what,
            n,
            max: MAX_OUTCOMES,
        });
    }
    Ok(())
}
