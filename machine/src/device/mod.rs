//! Block devices of the simulated machine.
