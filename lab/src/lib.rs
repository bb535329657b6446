//! Experiments, traces, variants and tables over the simulated machine.

pub mod ablate;
pub mod bounds;
pub mod charts;
pub mod compare;
pub mod draw;
pub mod experiments;
pub mod fidelity;
pub mod fuzz;
pub mod mrc;
pub mod replay;
pub mod report;
pub mod runner;
pub mod stats;
pub mod sweep;
pub mod traces;
pub mod verify;

/// Hash of the sources of this crate. What other sources have computed may differ.
pub const SOURCES: &str = env!("COLDSET_SOURCES");
