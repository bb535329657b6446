//! Experiments, traces, variants and tables over the simulated machine.

pub mod ablate;
pub mod bounds;
pub mod charts;
pub mod compare;
pub mod draw;
pub mod experiments;
pub mod fidelity;
pub mod fuzz;
pub mod races;
pub mod replay;
pub mod report;
pub mod runner;
pub mod stats;
pub mod traces;
pub mod verify;
