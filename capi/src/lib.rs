//! The C library: what `include/coldset.h` declares, over `coldset-pager`.
//!
//! Every function catches panics, checks pointers for null and text for UTF-8, and leaves an error
//! message of the thread where `coldset_last_error` finds it. Types and constants have the names they
//! have in C.
#![allow(non_camel_case_types)]

pub mod error;
mod owned;
pub mod pool;
pub mod region;
pub mod stats;

pub use error::*;
pub use pool::*;
pub use region::*;
pub use stats::*;
