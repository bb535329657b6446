//! Pages that are mapped ahead of a reader in order, and how their use is seen all the same.
//!
//! A page that is mapped counts as used since the last sweep, so what is only read ahead is kept out of the page table. Then
//! the first use of each of its pages is a fault, 1.5 us. Where a reader certainly goes in order, only two pages of each
//! group stay out, its witnesses. Once both have been used, so have the others; before, the others count as
//! unused. A sweep takes all of them out of the page table, and from then on each page speaks for itself.

use super::area::Area;
use crate::page::Word;
use crate::sys::PAGE;
use std::ops::Range;

/// Pages that have the same witnesses.
pub(crate) const GROUP: usize = 32;
/// From the first witness to the last page of the group, which is the second. A prime: no reader who uses every second
/// page, or every third, and so on up to the sixteenth, uses both.
const APART: usize = 17;
/// Pages that are looked at together: bits of a word.
const WORD: usize = u64::BITS as usize;
const EACH: u64 = (1 << GROUP) - 1;
const _: () = assert!(
    WORD.is_multiple_of(GROUP),
    "who looks at pages looks at whole groups"
);

/// The witnesses of a page; the end of the region may cut a group short.
fn witnesses(pages: usize, page: usize) -> [usize; 2] {
    let last = page | (GROUP - 1);
    [last - APART, last].map(|p| p.min(pages - 1))
}

/// Which of the pages from `first` on that are `mapped` have been used. `ahead`: those that carried the mark of [`map_ahead`]
/// before anybody looked whether they are mapped.
pub(crate) fn used(area: &Area, first: usize, mapped: u64, ahead: u64) -> u64 {
    used_of(area.pages(), first, mapped, ahead)
}

fn used_of(pages: usize, first: usize, mapped: u64, ahead: u64) -> u64 {
    let mut used = mapped;
    for at in (0..WORD).step_by(GROUP).take_while(|at| first + at < pages) {
        let is_mapped = |page: usize| mapped >> (page - first) & 1 == 1;
        if !witnesses(pages, first + at).into_iter().all(is_mapped) {
            used &= !(ahead & EACH << at);
        }
    }
    used
}

/// Pages that the caller owns are mapped, and nobody has used them yet: those of them that are witnesses leave the page
/// table, the others are marked.
pub(crate) fn map_ahead(area: &Area, pages: Range<usize>) {
    for p in pages {
        if witnesses(area.pages(), p).contains(&p) {
            area.memory().zap(p * PAGE, PAGE);
        } else {
            area.words().mark(p, Word::AHEAD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_pages_out_does_not_use_both_witnesses() {
        for stride in 2..GROUP / 2 {
            for group in 0..stride {
                let uses = |p: usize| p.is_multiple_of(stride);
                let [first, second] = witnesses(usize::MAX, group * GROUP);
                assert!(!(uses(first) && uses(second)), "every {stride}th page");
            }
        }
    }

    #[test]
    fn pages_mapped_ahead_are_used_once_both_witnesses_are() {
        // The third group is the region's last, of three pages.
        let pages = 2 * GROUP + 3;
        let (first, second) = (1 << 14, 1 << 31);
        let ahead = EACH & !first & !second;
        let others = !EACH & 1 << 40;
        for (witnesses, vouched) in [(0, 0), (first, 0), (second, 0), (first | second, ahead)] {
            let mapped = ahead | others | witnesses;
            let want = vouched | others | witnesses;
            assert_eq!(used_of(pages, 0, mapped, ahead), want, "{witnesses:x}");
        }
        assert_eq!(used_of(pages, WORD, 0b011, 0b011), 0);
        assert_eq!(used_of(pages, WORD, 0b111, 0b011), 0b111);
    }

    #[test]
    fn every_page_has_witnesses_in_its_group_and_its_region() {
        for pages in 1..3 * GROUP {
            for p in 0..pages {
                for w in witnesses(pages, p) {
                    assert!(
                        w < pages && w / GROUP == p / GROUP,
                        "{w} for {p} of {pages}"
                    );
                }
            }
        }
    }
}
