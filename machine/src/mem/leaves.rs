//! Leaves of values, by number: those that exist are found by hash, and the next one in order. Look-ups are out of line, so
//! that the usual case, an array, stays a single load.

use foldhash::fast::FixedState;
use std::collections::{BTreeSet, HashMap};

/// Leaves of `LEAF` values each.
#[derive(Debug)]
pub(super) struct Leaves<T, const LEAF: usize> {
    /// By number: the place in `values`.
    places: HashMap<u32, u32, FixedState>,
    /// The numbers, to be gone through.
    order: BTreeSet<u32>,
    values: Vec<[T; LEAF]>,
}

impl<T: Copy + Default, const LEAF: usize> Leaves<T, LEAF> {
    pub(super) fn new() -> Self {
        Self {
            places: HashMap::default(),
            order: BTreeSet::new(),
            values: Vec::new(),
        }
    }

    /// A leaf, if it exists.
    #[inline(never)]
    pub(super) fn get(&self, leaf: usize) -> Option<&[T; LEAF]> {
        let place = self.places.get(&number(leaf))?;
        Some(&self.values[*place as usize])
    }

    /// The same, to be changed.
    #[inline(never)]
    pub(super) fn get_mut(&mut self, leaf: usize) -> Option<&mut [T; LEAF]> {
        let place = self.places.get(&number(leaf))?;
        Some(&mut self.values[*place as usize])
    }

    /// A leaf, made if it does not exist.
    #[inline(never)]
    pub(super) fn make(&mut self, leaf: usize) -> &mut [T; LEAF] {
        let found = self.places.get(&number(leaf)).copied();
        let place = found.unwrap_or_else(|| self.add(number(leaf)));
        &mut self.values[place as usize]
    }

    #[cold]
    fn add(&mut self, leaf: u32) -> u32 {
        let place = number(self.values.len());
        self.values.push([T::default(); LEAF]);
        self.places.insert(leaf, place);
        self.order.insert(leaf);
        place
    }

    /// The first leaf at or after `from`.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let from = u32::try_from(from).ok()?;
        self.order.range(from..).next().map(|&leaf| leaf as usize)
    }
}

/// Pages are below 2^31, so leaves are, too.
fn number(leaf: usize) -> u32 {
    u32::try_from(leaf).expect("below 2^31")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn leaves_are_a_map(steps in prop::collection::vec((any::<bool>(), 0usize..60, any::<u8>()), 1..300)) {
            let (mut leaves, mut model) = (Leaves::<u8, 4>::new(), BTreeMap::<_, [u8; 4]>::new());
            for (make, leaf, value) in steps {
                if make {
                    leaves.make(leaf)[2] = value;
                    model.entry(leaf).or_default()[2] = value;
                } else if let Some(values) = leaves.get_mut(leaf) {
                    values[1] = value;
                    model.get_mut(&leaf).expect("the same leaves")[1] = value;
                }
                prop_assert_eq!(leaves.get(leaf), model.get(&leaf));
                let next = model.range(leaf + 1..).next().map(|(&leaf, _)| leaf);
                prop_assert_eq!(leaves.next(leaf + 1), next);
            }
        }
    }
}
