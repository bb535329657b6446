//! Least recently used, exactly.

use super::{Bound, Sequence};

/// The page was not referenced before.
const NEVER: u32 = u32::MAX;

/// Misses of LRU with `capacity` page frames, in time linear in the references.
///
/// Resident pages are known by the position of their last reference alone. The page to give up is the lowest, and it
/// only ever moves up.
pub fn lru(sequence: &Sequence, capacity: u32) -> Bound {
    if capacity == 0 {
        return Bound::new(sequence, sequence.len() as u64);
    }
    let mut last = vec![NEVER; sequence.unique() as usize];
    let mut resident = Bits::new(sequence.len());
    let mut free = capacity;
    let mut oldest = 0;
    let mut misses = 0;
    for (position, &page) in sequence.keys().iter().enumerate() {
        let before = std::mem::replace(&mut last[page as usize], position as u32);
        if before == NEVER || !resident.remove(before as usize) {
            misses += 1;
            if free > 0 {
                free -= 1;
            } else {
                oldest = resident.remove_first(oldest);
            }
        }
        resident.insert(position);
    }
    Bound::new(sequence, misses)
}

/// Positions, a bit each.
struct Bits {
    words: Vec<u64>,
}

impl Bits {
    fn new(positions: usize) -> Bits {
        Bits {
            words: vec![0; positions.div_ceil(64)],
        }
    }

    fn insert(&mut self, position: usize) {
        self.words[position / 64] |= 1 << (position % 64);
    }

    /// True if it was there.
    fn remove(&mut self, position: usize) -> bool {
        let word = &mut self.words[position / 64];
        let bit = 1 << (position % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// Removes the lowest position, which is there and not in a word below this one; returns its word.
    fn remove_first(&mut self, mut word: usize) -> usize {
        while self.words[word] == 0 {
            word += 1;
        }
        self.words[word] &= self.words[word] - 1;
        word
    }
}
