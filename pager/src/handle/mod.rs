//! Handles that programs hold on a region.
//!
//! | file | what |
//! |---|---|
//! | `region.rs` | the region |
//! | `map.rs`, `file.rs` | making regions: of memory, of any storage, of files by their names |
//! | `advice.rs` | what a program says about its use |
//! | `pin.rs` | pages that stay in memory, for system calls |
//! | `guard.rs` | access by guards, without page faults |
//! | `release.rs` | letting pages go |

pub(crate) mod advice;
pub(crate) mod file;
pub(crate) mod guard;
mod map;
pub(crate) mod pin;
pub(crate) mod region;
mod release;
