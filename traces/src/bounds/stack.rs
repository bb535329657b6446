//! LRU at many capacities in one pass, by stack distances (Mattson et al., 1970).

use super::{lru, Bound, Sequence};

/// Sums over positions, as a binary indexed tree.
struct Marks {
    tree: Vec<u32>,
}

impl Marks {
    fn add(&mut self, position: usize, value: i32) {
        let mut index = position + 1;
        while index < self.tree.len() {
            self.tree[index] = self.tree[index].wrapping_add_signed(value);
            index += index & index.wrapping_neg();
        }
    }

    /// Marks at the first positions, and nowhere else.
    fn refill(&mut self, marked: usize) {
        for (index, sum) in self.tree.iter_mut().enumerate() {
            // An entry is the sum over as many positions as its lowest bit says, the last being `index - 1`.
            let covered = index & index.wrapping_neg();
            *sum = marked.saturating_sub(index - covered).min(covered) as u32;
        }
    }

    /// Marks at positions up to and including `position`.
    fn up_to(&self, position: usize) -> u32 {
        let mut index = position + 1;
        let mut sum = 0u32;
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
    /// One mark for each page seen, at its last position.
    marks: Marks,
    seen: u32,
}

const UNSEEN: u32 = u32::MAX;

impl Stack {
    /// Room for twice the pages: what is stale is dropped once in so many references as there are pages.
    fn new(unique: u32) -> Stack {
        let room = 2 * unique as usize + 1;
        Stack {
            last: vec![UNSEEN; unique as usize],
            pages: Vec::with_capacity(room),
            marks: Marks {
                tree: vec![0; room + 1],
            },
            seen: 0,
        }
    }

    /// Refers to a page: its stack distance, the capacity from which on it hits; none for the first time.
    fn refer(&mut self, page: u32) -> Option<u32> {
        if self.pages.len() + 1 == self.marks.tree.len() {
            self.compact();
        }
        let position = self.pages.len();
        self.pages.push(page);
        let before = std::mem::replace(&mut self.last[page as usize], position as u32);
        let distance = if before == UNSEEN {
            self.seen += 1;
            None
        } else {
            let distance = self.seen - self.marks.up_to(before as usize) + 1;
            self.marks.add(before as usize, -1);
            Some(distance)
        };
        self.marks.add(position, 1);
        distance
    }

    /// Drops the positions that are stale.
    fn compact(&mut self) {
        let mut kept = 0;
        for position in 0..self.pages.len() {
            let page = self.pages[position];
            let last = &mut self.last[page as usize];
            if *last as usize == position {
                *last = kept as u32;
                self.pages[kept] = page;
                kept += 1;
            }
        }
        self.pages.truncate(kept);
        self.marks.refill(kept);
    }
}

/// [`super::lru`] for each of `capacities`, in one pass of `O(n log m)` for `m` pages: cheaper than
/// single replays from a few capacities on. Where frames that were taken are given back, a smaller memory may hold what a
/// larger one does not, and there are single replays.
pub fn lru_at(sequence: &Sequence, capacities: &[u32]) -> Vec<Bound> {
    if !sequence.only_takes() {
        return capacities.iter().map(|&c| lru(sequence, c)).collect();
    }
    let mut stack = Stack::new(sequence.unique());
    let mut taken = sequence.taken();
    // References by the capacity from which on they hit.
    let most = sequence.unique() as usize + sequence.most_taken() as usize;
    let mut needed = vec![0u64; most + 1];
    for (position, &page) in sequence.keys().iter().enumerate() {
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
