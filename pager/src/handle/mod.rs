//! What programs hold of a region.
//!
//! | file | what |
//! |---|---|
//! | `region.rs` | regions and pins |
//! | `file.rs` | maps of files by their names |
//! | `guard.rs` | access by guards, without page faults |

pub(crate) mod file;
pub(crate) mod guard;
pub(crate) mod region;
