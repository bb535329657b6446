//! What memory is asked for.

use coldset_engine::MemcgId;

/// Memory for a folio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Whom it is charged to.
    pub(crate) memcg: MemcgId,
    /// Pages, a power of two.
    pub(crate) pages: u64,
    /// For the page cache, and going to be written by a call (`docs/rules/zones.md#pages-that-will-be-written`).
    pub(crate) to_write: bool,
}

impl Wanted {
    /// `n` pages that are no page cache, or are read.
    pub(crate) fn new(memcg: MemcgId, n: u64) -> Self {
        Self {
            memcg,
            pages: n,
            to_write: false,
        }
    }
}
