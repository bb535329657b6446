//! LRU at many capacities in one pass, by stack distances (Mattson et al., 1970).

use super::{Bound, Sequence};

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

/// [`super::lru`] for each of `capacities`, in one pass of `O(n log n)`: cheaper than
/// single replays from about ten capacities on.
pub fn lru_at(sequence: &Sequence, capacities: &[u32]) -> Vec<Bound> {
    const UNSEEN: u32 = u32::MAX;
    let mut last = vec![UNSEEN; sequence.unique() as usize];
    // One mark for each page seen, at the position of its last reference.
    let mut marks = Marks {
        tree: vec![0; sequence.len() + 1],
    };
    // References by stack distance: the capacity from which on they hit.
    let mut distances = vec![0u64; sequence.unique() as usize + 1];
    let mut seen = 0;
    for (position, &page) in sequence.keys().iter().enumerate() {
        match std::mem::replace(&mut last[page as usize], position as u32) {
            UNSEEN => seen += 1,
            before => {
                let before = before as usize;
                distances[(seen - marks.up_to(before) + 1) as usize] += 1;
                marks.add(before, -1);
            }
        }
        marks.add(position, 1);
    }
    let hits: Vec<u64> = distances
        .iter()
        .scan(0, |sum, &count| {
            *sum += count;
            Some(*sum)
        })
        .collect();
    let bound = |&capacity: &u32| {
        let capacity = capacity.min(sequence.unique());
        Bound::new(sequence, sequence.len() as u64 - hits[capacity as usize])
    };
    capacities.iter().map(bound).collect()
}
