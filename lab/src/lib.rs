//! Experiments, traces, variants and tables over the simulated machine.

pub mod bounds;
pub mod traces;
