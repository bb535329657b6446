//! Experiments, traces, variants and tables over the simulated machine.

pub mod bounds;
pub mod traces;
pub mod draw;
pub mod fuzz;
pub mod fidelity;
pub mod report;
pub mod stats;
pub mod replay;
pub mod experiments;
