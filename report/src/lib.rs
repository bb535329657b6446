//! Results of experiments and how they are shown: tables as text, Markdown, CSV, JSON and HTML, charts, pages.
//!
//! Runs are collected into an [`ExperimentResult`], [`Claim`]s are judged on it, and the renderers print it.
//! Nothing here knows what ran: names, numbers and series come in, text goes out. Equal input gives equal bytes.

pub mod charts;
mod claim;
pub mod compare;
pub mod flagging;
pub mod html;
mod json;
mod judge;
mod long;
mod model;
mod number;
pub mod shown;
pub mod stats;
pub mod table;
pub mod tables;
mod text;

pub use claim::{Band, Claim, Class, Condition, Direction, Figure, Measure, Published, Term};
pub use flagging::{flag, Flagging};
pub use json::{
    experiment_json, experiment_value, experiments_json, replay_json, PhaseStart, ReplayResult,
};
pub use judge::{ClaimResult, Side, Skipped, Subject};
pub use long::{series_table, values_table};
pub use model::{
    CounterSummary, Deviation, ExperimentResult, Header, RunResult, Samples, SeedView,
};
pub use number::Number;
pub use shown::{human, listed, wrap};
pub use table::{Align, Cell, Style, Table};
pub use text::{render_short, render_text};

/// Why runs or claims make no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Nothing was run.
    #[error("{0}: no runs; give at least one variant and one seed")]
    NoRuns(String),
    /// A variant ran twice under one seed.
    #[error("variant {variant}, seed {seed}: two results; run each variant once a seed")]
    DuplicateRun {
        /// Variant concerned.
        variant: String,
        /// Seed concerned.
        seed: u64,
    },
    /// A variant did not run under a seed that others ran under.
    #[error("variant {variant}: no result for seed {seed}; run all variants with the same seeds")]
    MissingRun {
        /// Variant concerned.
        variant: String,
        /// Seed concerned.
        seed: u64,
    },
    /// A counter is there for some seeds only.
    #[error("variant {variant}, seed {seed}: counter {counter} is missing, other seeds have it")]
    MissingCounter {
        /// Variant concerned.
        variant: String,
        /// Seed concerned.
        seed: u64,
        /// Counter concerned.
        counter: String,
    },
    /// A counter is infinite or not a number.
    #[error("variant {variant}, seed {seed}: counter {counter} is not a finite number; is it a share of something that did not happen?")]
    NotFinite {
        /// Variant concerned.
        variant: String,
        /// Seed concerned.
        seed: u64,
        /// Counter concerned.
        counter: String,
    },
    /// A claim or query names a variant that was not run.
    #[error("variant {0} was not run")]
    NoVariant(String),
    /// A claim is about a part of the experiment that the parameters left out.
    #[error("{0} was not run")]
    NoCell(String),
    /// A claim or query names a counter that a variant does not have.
    #[error("variant {variant} has no counter '{counter}'{hint}")]
    NoCounter {
        /// Variant concerned.
        variant: String,
        /// Counter asked for.
        counter: String,
        /// See [`coldset_nearest::did_you_mean`].
        hint: String,
    },
    /// A claim lacks what its class needs.
    #[error("claim {claim}: {problem}")]
    BadClaim {
        /// Name of the claim.
        claim: String,
        /// What is missing and how to give it.
        problem: &'static str,
    },
}

/// Version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
