//! Where the blocks of the data file are: a written block goes to another place, the old place is
//! free again after the next checkpoint (`docs/reference/experiments.md#mongodb`).

use crate::draw::Stream;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Records of a block (`docs/reference/experiments.md#mongodb`).
pub(in crate::experiments) const RECORDS_PER_BLOCK: u64 = 27;

/// Sizes of blocks in pages, each with its share in percent: 27 KiB on average and mostly 28, as the
/// storage engine writes this data (measured).
const SIZES: [(u32, u64); 2] = [(7, 75), (6, 25)];

/// One place in so many is free at the start: what checkpoints before the run have left.
const FREE_ONE_IN: u64 = 8;

/// Consecutive pages of the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The first.
    pub page: u32,
    /// How many.
    pub pages: u32,
}

/// Places of blocks.
#[derive(Debug)]
pub struct Layout {
    places: Vec<Place>,
    /// Free places by size, the lowest first.
    free: Vec<BinaryHeap<Reverse<u32>>>,
    /// Left and not free again yet, in order.
    pending: VecDeque<Place>,
    /// Places that have become free again so far.
    freed: u64,
    /// The first page that no block has ever had.
    end: u32,
}

impl Layout {
    /// Every block in the order of its number, with free places among them.
    pub fn new(blocks: u32, draw: &mut Stream) -> Self {
        let largest = SIZES.iter().map(|s| s.0).max().unwrap_or(1);
        let mut this = Self {
            places: Vec::with_capacity(blocks as usize),
            free: vec![BinaryHeap::new(); largest as usize + 1],
            pending: VecDeque::new(),
            freed: 0,
            end: 0,
        };
        for _ in 0..blocks {
            let pages = size(draw.below(100));
            let page = this.append(pages);
            this.places.push(Place { page, pages });
            if draw.chance(1, FREE_ONE_IN) {
                let page = this.append(pages);
                this.free[pages as usize].push(Reverse(page));
            }
        }
        this
    }

    /// Pages of the file so far.
    pub fn pages(&self) -> u32 {
        self.end
    }

    /// Where a block is.
    pub fn place(&self, block: u32) -> Place {
        self.places[block as usize]
    }

    /// Gives a block a new place to be written to: the lowest free one of its size.
    pub fn relocate(&mut self, block: u32) -> Place {
        let left = self.place(block);
        let page = match self.free[left.pages as usize].pop() {
            Some(Reverse(page)) => page,
            None => self.append(left.pages),
        };
        self.pending.push_back(left);
        let place = Place { page, ..left };
        self.places[block as usize] = place;
        place
    }

    /// Places that have been left so far.
    pub fn left(&self) -> u64 {
        self.freed + self.pending.len() as u64
    }

    /// A checkpoint is complete: the first `left` places may be used again. Two checkpoints may overlap.
    pub fn checkpoint(&mut self, left: u64) {
        let free = left.saturating_sub(self.freed);
        for place in self.pending.drain(..free as usize) {
            self.free[place.pages as usize].push(Reverse(place.page));
        }
        self.freed += free;
    }

    fn append(&mut self, pages: u32) -> u32 {
        self.end += pages;
        self.end - pages
    }
}

/// The size that `percent` of all draws are below.
fn size(percent: u64) -> u32 {
    let mut below = 0;
    for (pages, share) in SIZES {
        below += share;
        if percent < below {
            return pages;
        }
    }
    unreachable!("shares of sizes are 100 percent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_blocks_overlap_and_places_come_back_after_a_checkpoint() {
        let mut draw = Stream::new(1, "layout", 0);
        let blocks = 2000;
        let mut l = Layout::new(blocks, &mut draw);
        let before = l.pages();
        let mut taken = 0;
        for round in 0..20 {
            for _ in 0..200 {
                let block = draw.below(blocks.into()) as u32;
                let old = l.place(block);
                let new = l.relocate(block);
                assert_eq!(new.pages, old.pages);
                assert_ne!(new.page, old.page);
            }
            assert_eq!(l.pending.len(), 200, "round {round}");
            l.checkpoint(l.left());
            l.checkpoint(l.left());
            let mut places: Vec<_> = (0..blocks).map(|b| l.place(b)).collect();
            places.sort_unstable();
            assert!(places
                .windows(2)
                .all(|p| p[0].page + p[0].pages <= p[1].page));
            taken = places.iter().map(|p| u64::from(p.pages)).sum();
        }
        assert_eq!(l.pages(), before, "an eighth is free, and is enough");
        let mean = taken as f64 / f64::from(blocks);
        assert!((6.7..6.8).contains(&mean), "{mean} pages a block");
        let free = 1.0 - taken as f64 / f64::from(before);
        assert!((0.10..0.13).contains(&free), "{free} of the file is free");
    }

    #[test]
    fn a_place_is_not_used_again_before_the_checkpoint_that_follows() {
        let mut l = Layout::new(1, &mut Stream::new(1, "layout", 0));
        let first = l.place(0);
        while l.relocate(0).page < l.pages() - first.pages {}
        assert!(!l.free[first.pages as usize]
            .iter()
            .any(|p| p.0 == first.page));
        let left = l.left();
        l.relocate(0);
        l.checkpoint(left);
        assert_eq!(l.pending.len(), 1, "left after the checkpoint had begun");
        assert_eq!(l.relocate(0), first);
    }
}
