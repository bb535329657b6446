//! Experiments, variants, replays and sweeps over the simulated machine.
//!
//! Traces and reports are crates of their own, which can be named through this one: [`traces`], [`report`].

pub mod ablate;
pub mod advise;
pub mod charts;
pub mod draw;
pub mod experiment;
pub mod experiments;
pub mod export;
pub mod fidelity;
pub mod mrc;
pub mod pages;
pub mod recording;
pub mod replay;
pub mod rig;
pub mod runner;
pub mod sweep;
pub mod verify;
pub mod workload;

pub use coldset_report as report;
pub use coldset_report::{compare, stats};
pub use coldset_traces as traces;
pub use coldset_traces::bounds;

/// Hash of the sources that decide results: this crate and, in the repository, those it depends on.
/// What other sources have computed may differ.
pub const SOURCES: &str = env!("COLDSET_SOURCES");
