//! What a folio holds of its object.

use coldset_engine::Folio;
use std::ops::Range;

/// Greatest order of a folio: what one upper page-table entry could map.
pub const MAX_ORDER: u8 = 9;

/// The pages of its object that a folio holds.
#[inline]
pub(crate) fn pages_of(f: &Folio) -> Range<u32> {
    let (_, first) = f.owner();
    first..first + f.nr_pages() as u32
}
