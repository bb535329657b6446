//! A deterministic simulated machine that hosts the reclaim engine: virtual time, CPUs, devices,
//! and what every action costs.

pub mod device;
pub mod params;
pub mod sim;
