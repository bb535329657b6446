//! LRU at many capacities in one pass, by stack distances (Mattson et al., 1970).
//!
//! A page that is gone leaves a hole in the stack: a free frame in each memory that is large enough to have held it. What
//! comes to the top of the stack moves the others down as far as the first hole, or to its own old place if that is
//! nearer. Beyond a nearer hole the frames are as full as before, so the hole moves to the old place; a page that was
//! nowhere fills it.

use super::{lru, Bound, Sequence};
use prefetch_index::prefetch_index;
use std::collections::BinaryHeap;

/// Words of a block of marks: a tree over blocks is small enough to stay in the CPU's cache, and so are the marks.
const WORDS: usize = 4;
/// Positions of a block.
const BLOCK: usize = 64 * WORDS;

/// Marked positions: a bit each, and sums over blocks of them as a binary indexed tree.
struct Marks {
    bits: Vec<u64>,
    tree: Vec<u32>,
}

impl Marks {
    /// Room for so many positions, none marked.
    fn new(positions: usize) -> Marks {
        let blocks = positions.div_ceil(BLOCK);
        Marks {
            bits: vec![0; blocks * WORDS],
            tree: vec![0; blocks + 1],
        }
    }

    /// Marks a position, or takes its mark away.
    fn flip(&mut self, position: usize) {
        let (word, bit) = (position / 64, 1 << (position % 64));
        self.bits[word] ^= bit;
        let change = match self.bits[word] & bit {
            0 => -1,
            _ => 1,
        };
        let mut index = position / BLOCK + 1;
        while index < self.tree.len() {
            self.tree[index] = self.tree[index].wrapping_add_signed(change);
            index += index & index.wrapping_neg();
        }
    }

    /// Marks at the first positions, and nowhere else.
    fn refill(&mut self, marked: usize) {
        for (index, word) in self.bits.iter_mut().enumerate() {
            *word = match marked.saturating_sub(64 * index) {
                0 => 0,
                n => u64::MAX >> (64 - n.min(64)),
            };
        }
        for (index, sum) in self.tree.iter_mut().enumerate() {
            // An entry is the sum over as many blocks as its lowest bit says, the last being `index - 1`.
            let covered = (index & index.wrapping_neg()) * BLOCK;
            let before = (index * BLOCK).saturating_sub(covered);
            *sum = marked.saturating_sub(before).min(covered) as u32;
        }
    }

    /// Marks at positions up to and including `position`.
    fn up_to(&self, position: usize) -> u32 {
        let (block, word) = (position / BLOCK, position / 64);
        let whole = self.bits[block * WORDS..word].iter();
        let last = self.bits[word] & (u64::MAX >> (63 - position % 64));
        let mut sum = whole.map(|w| w.count_ones()).sum::<u32>() + last.count_ones();
        let mut index = block;
        while index > 0 {
            sum = sum.wrapping_add(self.tree[index]);
            index &= index - 1;
        }
        sum
    }
}

/// When each page was last referred to, newest last.
struct Stack {
    /// Where each page was last referred to.
    last: Vec<u32>,
    /// The page referred to at each position; stale if it has been referred to since.
    pages: Vec<u32>,
    /// One mark for each page, at its last position, and for each hole.
    marks: Marks,
    /// How many marks there are.
    depth: u32,
    /// Positions of holes.
    holes: BinaryHeap<u32>,
}

/// Of a page: it is not on the stack.
const UNSEEN: u32 = u32::MAX;
/// In the place of a page: a hole.
const HOLE: u32 = u32::MAX;
/// Likewise: a hole that has been filled.
const FILLED: u32 = u32::MAX - 1;

/// References ahead of which it is asked for where their page was.
const AHEAD: usize = 16;

impl Stack {
    /// Positions of a stack of so many pages, twice as many: what is stale is dropped once in so many references as there are
    /// pages.
    fn room(pages: usize) -> usize {
        2 * pages + 1
    }

    fn new(unique: u32) -> Stack {
        let room = Self::room(unique as usize);
        Stack {
            last: vec![UNSEEN; unique as usize],
            pages: Vec::with_capacity(room),
            marks: Marks::new(room),
            depth: 0,
            holes: BinaryHeap::new(),
        }
    }

    /// Refers to a page: its stack distance, the capacity from which on it hits; none for the first time.
    fn refer(&mut self, page: u32) -> Option<u32> {
        if self.pages.len() == Self::room(self.last.len()) {
            self.compact();
        }
        let position = self.pages.len();
        self.pages.push(page);
        let before = std::mem::replace(&mut self.last[page as usize], position as u32);
        let distance = if before == UNSEEN {
            self.depth += u32::from(!self.fill(0));
            None
        } else {
            let distance = self.depth - self.marks.up_to(before as usize) + 1;
            if self.fill(before) {
                self.dig(before);
            } else {
                self.marks.flip(before as usize);
            }
            Some(distance)
        };
        self.marks.flip(position);
        distance
    }

    /// Fills the newest hole, if it is not older than a position. True if there was one.
    fn fill(&mut self, from: u32) -> bool {
        let Some(hole) = self.holes.peek().copied().filter(|&hole| hole >= from) else {
            return false;
        };
        self.holes.pop();
        self.pages[hole as usize] = FILLED;
        self.marks.flip(hole as usize);
        true
    }

    /// A page is gone.
    fn leave(&mut self, page: u32) {
        let position = std::mem::replace(&mut self.last[page as usize], UNSEEN);
        self.dig(position);
    }

    /// There is a hole at a marked position.
    fn dig(&mut self, position: u32) {
        self.pages[position as usize] = HOLE;
        self.holes.push(position);
    }

    /// Drops the positions that are stale.
    fn compact(&mut self) {
        let mut kept = 0;
        let mut holes = Vec::new();
        for position in 0..self.pages.len() {
            let page = self.pages[position];
            match page {
                FILLED => continue,
                HOLE => holes.push(kept as u32),
                page if self.last[page as usize] as usize != position => continue,
                page => self.last[page as usize] = kept as u32,
            }
            self.pages[kept] = page;
            kept += 1;
        }
        self.holes = holes.into();
        self.pages.truncate(kept);
        self.marks.refill(kept);
    }
}

/// [`super::lru`] for each of `capacities`, in one pass of `O(n log m)` for `m` pages: cheaper than
/// single replays from a few capacities on. Where frames that were taken are given back, a smaller memory may hold what a
/// larger one does not, and there are single replays, as where frames are taken while others become free.
pub fn lru_at(sequence: &Sequence, capacities: &[u32]) -> Vec<Bound> {
    let both = sequence.is_left() && sequence.most_taken() > 0;
    if both || !sequence.only_takes() {
        return capacities.iter().map(|&c| lru(sequence, c)).collect();
    }
    let mut stack = Stack::new(sequence.unique());
    let (mut taken, mut leaving) = (sequence.taken(), sequence.leaving());
    // References by the capacity from which on they hit.
    let most = sequence.unique() as usize + sequence.most_taken() as usize;
    let mut needed = vec![0u64; most + 1];
    let keys = sequence.keys();
    for (position, &page) in keys.iter().enumerate() {
        leaving.before(position).for_each(|page| stack.leave(page));
        if let Some(&coming) = keys.get(position + AHEAD) {
            prefetch_index(&stack.last, coming as usize);
        }
        let distance = stack.refer(page).filter(|_| !sequence.is_free(position));
        if let Some(distance) = distance {
            // The page referred to last is there in any case.
            let beside = match distance {
                1 => 0,
                _ => taken.at(position),
            };
            needed[(distance + beside) as usize] += 1;
        }
    }
    let hits: Vec<u64> = needed
        .iter()
        .scan(0, |sum, &count| {
            *sum += count;
            Some(*sum)
        })
        .collect();
    let bound = |&capacity: &u32| {
        let capacity = (capacity as usize).min(most);
        Bound::new(sequence, sequence.reading() - hits[capacity])
    };
    capacities.iter().map(bound).collect()
}
