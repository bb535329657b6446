//! Mapped memory, and descriptors from outside: the only place with `unsafe`.

mod counts;
mod inherited;
mod map;

pub(crate) use counts::{Count, Counts};
pub(crate) use inherited::inherited;
pub(crate) use map::{Map, Unseen};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
