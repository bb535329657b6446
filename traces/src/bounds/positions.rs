//! A set of positions below a fixed bound that finds its highest member quickly.

/// Bits in levels: a bit of a level says that a word of the level below is not empty.
/// With 64 bits a word, four levels serve 16 million positions.
pub(super) struct Positions {
    levels: Vec<Vec<u64>>,
}

impl Positions {
    /// The empty set for positions below `bound`.
    pub fn new(bound: usize) -> Positions {
        let mut levels = Vec::new();
        let mut bits = bound;
        loop {
            let words = bits.div_ceil(64).max(1);
            levels.push(vec![0; words]);
            if words == 1 {
                return Positions { levels };
            }
            bits = words;
        }
    }

    /// Adds a position that is not in the set.
    pub fn insert(&mut self, position: usize) {
        let mut index = position;
        for level in &mut self.levels {
            let word = &mut level[index / 64];
            let was_empty = *word == 0;
            *word |= 1 << (index % 64);
            if !was_empty {
                return;
            }
            index /= 64;
        }
    }

    /// Removes a position; true if it was in the set.
    pub fn remove(&mut self, position: usize) -> bool {
        if self.levels[0][position / 64] & (1 << (position % 64)) == 0 {
            return false;
        }
        let mut index = position;
        for level in &mut self.levels {
            let word = &mut level[index / 64];
            *word &= !(1 << (index % 64));
            if *word != 0 {
                break;
            }
            index /= 64;
        }
        true
    }

    /// Removes the highest position.
    pub fn pop_last(&mut self) -> Option<usize> {
        let mut index = 0;
        for level in self.levels.iter().rev() {
            let word = level[index];
            index = index * 64 + word.checked_ilog2()? as usize;
        }
        self.remove(index);
        Some(index)
    }
}
