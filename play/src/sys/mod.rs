//! Mapped memory: the only place with `unsafe`.

mod map;

pub(crate) use map::{Map, Unseen};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
