//! Does a reader in order use all that is read ahead of it?
//!
//! What is read ahead stays out of the page table until somebody uses it, or all of it would look used; a page that is
//! used takes a fault for that. A reader that has used [`LONG`] pages without leaving any out is spared it: of what is read
//! ahead of it only a [sample](samples) stays out of the page table, and at the reader's next miss the sample tells
//! whether it still uses all of it. If it does not, it has to come that far anew.
//!
//! So some pages look used that nobody has used. Each time that a reader stops or begins to leave pages out, these are what
//! has been read ahead of it (544 pages at most), and as many again if the sample does not show it yet. A reader that leaves
//! out a sixteenth of all pages, or less, is taken for one that uses all.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// Pages that a reader uses before all that is read ahead of it is expected to be used: eight times as many as that.
const LONG: usize = 4096;
/// Pages of which some are the sample.
const PIECE: usize = 32;
/// Those, one after the other.
const SAMPLE: usize = 4;
/// A sample has been used if all but one in so many of its pages have.
const NEARLY: usize = 16;
/// Further from one miss to the next than anything is read ahead.
const FAR: usize = 2048;

/// A reader in order, as far as its misses tell.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// Its last miss.
    from: AtomicUsize,
    /// Pages before that of which it has left out none; [`LONG`] at most.
    used: AtomicUsize,
    /// Some of what it used since then may have left the page table.
    hidden: AtomicBool,
}

impl Followed {
    /// All that is read ahead of it is expected to be used.
    pub(crate) fn uses_all(&self) -> bool {
        self.used.load(Relaxed) >= LONG
    }

    /// A reader begins at this page.
    pub(super) fn begins(&self, page: usize) {
        self.from.store(page, Relaxed);
        self.used.store(0, Relaxed);
    }

    /// It misses at this page, after pages up to `end` were filled for it. Returns what it has come through since its last
    /// miss, whose sample is to be [judged](Self::judge); none: it comes from elsewhere.
    pub(super) fn comes_to(&self, page: usize, end: usize) -> Option<Range<usize>> {
        let from = self.from.load(Relaxed);
        let follows = from < page && page - from < FAR && page < end;
        if !follows {
            self.begins(page);
        }
        follows.then_some(from..page)
    }

    /// Of the sample of these pages, which it has come through, so many have been used.
    pub(crate) fn judge(&self, pages: &Range<usize>, used: usize) {
        let so_far = self.used.load(Relaxed);
        let hidden = self.hidden.swap(false, Relaxed);
        let so_far = if used * NEARLY >= sampled(pages.clone()) * (NEARLY - 1) {
            (so_far + pages.len()).min(LONG)
        } else if hidden {
            // Nothing is expected before a sample has been used again.
            so_far.min(LONG - 1)
        } else {
            0
        };
        self.used.store(so_far, Relaxed);
        self.from.store(pages.end, Relaxed);
    }

    /// Pages leave the page table, and some of these may have been used.
    pub(super) fn hide(&self, pages: &Range<usize>) {
        let from = self.from.load(Relaxed);
        if pages.end > from && pages.start < from + FAR {
            self.hidden.store(true, Relaxed);
        }
    }
}

/// The sample of a range of pages: some of each [`PIECE`], not at the same place in all of them, because programs leave out
/// pages at regular distances.
pub(crate) fn samples(pages: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let pieces = pages.start / PIECE..pages.end.div_ceil(PIECE);
    pieces.filter_map(move |piece| {
        let first = piece * PIECE + drawn(piece) % (PIECE / SAMPLE) * SAMPLE;
        let some = first.max(pages.start)..(first + SAMPLE).min(pages.end);
        (!some.is_empty()).then_some(some)
    })
}

/// The same number for the same piece, whatever numbers its neighbours have.
fn drawn(piece: usize) -> usize {
    let x = (piece as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x >> 32) as usize
}

/// Pages in the sample of a range.
pub(crate) fn sampled(pages: Range<usize>) -> usize {
    samples(pages).map(|some| some.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Misses after each 100 pages, of which the reader uses those that `uses` says. Returns whether all is expected to be used
    /// after each.
    fn read(f: &Followed, misses: Range<usize>, uses: impl Fn(usize) -> bool) -> Vec<bool> {
        let miss = |n: usize| {
            let page = n * 100;
            if let Some(pages) = f.comes_to(page, page + 32) {
                let used = samples(pages.clone()).flatten().filter(|&p| uses(p));
                f.judge(&pages, used.count());
            }
            f.uses_all()
        };
        misses.map(miss).collect()
    }

    #[test]
    fn who_leaves_pages_out_is_noticed_at_the_next_miss() {
        let f = Followed::default();
        let all = |_| true;
        let first = read(&f, 1..43, all);
        assert_eq!(first.iter().position(|&x| x), Some(40), "4,096 pages");
        assert_eq!(read(&f, 43..60, all), [true; 17]);
        assert_eq!(read(&f, 60..70, |p| p % 32 < 3), [false; 10]);
        assert_eq!(read(&f, 70..80, all), [false; 10]);
    }

    #[test]
    fn no_regular_distance_is_taken_for_all() {
        for distance in 2..200 {
            for left_out in 1..distance.min(12) {
                // One page in sixteen may be left out.
                if left_out * 10 > distance {
                    let f = Followed::default();
                    let seen = read(&f, 1..2000, |p| p % distance >= left_out);
                    assert!(!seen.contains(&true), "{left_out} of {distance}");
                }
            }
        }
    }

    #[test]
    fn who_comes_from_elsewhere_begins_anew() {
        let f = Followed::default();
        assert!(read(&f, 1..50, |_| true)[48]);
        assert_eq!(f.comes_to(9000, 9032), None);
        assert!(!f.uses_all());
    }

    #[test]
    fn what_a_sweep_has_hidden_is_seen_once_more() {
        let f = Followed::default();
        assert!(read(&f, 1..50, |_| true)[48]);
        f.hide(&(0..512));
        assert!(read(&f, 50..51, |_| true)[0], "far behind");
        f.hide(&(4608..5120));
        assert_eq!(read(&f, 51..52, |_| false), [false]);
        assert_eq!(read(&f, 52..53, |_| true), [true]);
        assert_eq!(read(&f, 53..55, |_| false), [false; 2]);
        assert_eq!(read(&f, 55..56, |_| true), [false]);
    }
}
