//! How kernels count what is cached round a page (`docs/rules/read-ahead.md#cached-pages-as-they-are-counted`).
//!
//! A count that begins within a folio of several pages looks at places from the folio's first page on, while it counts from
//! the page that it began with. The two stay that far apart until the place looked at leaves its block of [`BLOCK`] pages.

use std::ops::Range;

/// Pages of a block of the index.
const BLOCK: u32 = 64;

/// Where looking begins for `page`: at the first page of its folio, unless that fills whole blocks.
fn looks_from(page: u32, folio: Range<u32>) -> u32 {
    match folio.len() as u32 {
        0..BLOCK => folio.start,
        _ => page,
    }
}

/// Cached pages directly before `page`, counting no further than `most`. `folio`: the pages of the one that a page is in.
pub(crate) fn before(page: u32, most: u32, folio: impl Fn(u32) -> Option<Range<u32>>) -> u32 {
    let Some(mut counted) = page.checked_sub(1) else {
        return 0;
    };
    let Some(mut looked) = folio(counted).map(|f| looks_from(counted, f)) else {
        return 0;
    };
    let mut count = 0;
    while count < most && folio(looked).is_some() {
        count += 1;
        let Some(next) = counted.checked_sub(1) else {
            break;
        };
        counted = next;
        looked = match (looked / BLOCK, looked % BLOCK) {
            // Counted and looked at are one again.
            (_, 0) if counted == looked => looked,
            (0, 0) => break,
            (block, 0) => (block - 1) * BLOCK + counted % BLOCK,
            _ => looked - 1,
        };
    }
    count
}

/// The first page behind that with which `marked`, a folio, begins that is not cached; none if it is farther away than
/// `most`, or behind page `last`.
pub(crate) fn missing_behind(
    marked: &Range<u32>,
    most: u32,
    last: u32,
    is_cached: impl Fn(u32) -> bool,
) -> Option<u32> {
    let first = marked.start;
    let mut looked = match marked.len() {
        1 => first + 1,
        _ => looks_from(first + 1, marked.clone()),
    };
    for counted in first + 1..=first.saturating_add(most).min(last) {
        if !is_cached(looked) {
            return Some(counted);
        }
        looked = match (looked + 1) % BLOCK {
            0 => counted + 1,
            _ => looked + 1,
        };
    }
    None
}
