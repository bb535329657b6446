//! Access sequences that ran on a real kernel, and the counters it showed.
//!
//! [`sequences`] regenerates every operation of a case; [`mod@reference`] holds what
//! unmodified kernels ([`kernels`]) reported for it.

pub mod compare;
pub mod huge;
pub mod kernels;
pub mod reference;
pub mod sequences;
pub mod writers;
mod zipf;

pub use kernels::{Policy, RecordedKernel, KERNELS, UNMONITORED};
pub use reference::{Bounds, Cgroup, Point, Reference, ReferenceError, Run};
pub use sequences::{trace_fnv1a64, Access, Case, Kind, Sequence};
pub use zipf::ZipfPages;
