//! What the lab predicts of a run that was measured: the same settings, as far as it has them.

mod beside;
mod near;
mod release;
mod room;
mod setting;
#[cfg(test)]
mod tests;
mod times;

pub use beside::{beside, nearby, Beside, Look};
pub use near::limits_near;
pub use release::version;
pub use room::Room;
pub use setting::Setting;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// What a kernel with its monitor on does, and the lab does not.
pub const MONITOR: &str = "the kernel's monitor of accesses (DAMON)";
