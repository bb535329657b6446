//! Which pages of a file are whose.

use std::collections::BTreeMap;

/// Numbers that are free, as ranges that do not touch: first to length.
#[derive(Debug)]
pub struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    /// All below `len` are free.
    pub fn new(len: usize) -> Self {
        Self(BTreeMap::from([(0, len)]))
    }

    /// The lowest free range of this length whose first number is a multiple of `align`.
    pub fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let fits = |(&start, &free): (&usize, &usize)| {
            let first = start.next_multiple_of(align);
            (first + len <= start + free).then_some((start, free, first))
        };
        let (start, free, first) = self.0.iter().find_map(fits)?;
        self.0.remove(&start);
        self.insert(start, first - start);
        self.insert(first + len, start + free - first - len);
        Some(first)
    }

    /// A range that was taken is free again.
    pub fn give(&mut self, mut first: usize, mut len: usize) {
        if let Some((&start, &free)) = self.0.range(..first).next_back() {
            if start + free == first {
                self.0.remove(&start);
                (first, len) = (start, free + len);
            }
        }
        if let Some(after) = self.0.remove(&(first + len)) {
            len += after;
        }
        self.insert(first, len);
    }

    fn insert(&mut self, first: usize, len: usize) {
        if len > 0 {
            self.0.insert(first, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a table of who has which number.
        #[test]
        fn nothing_is_taken_twice_and_everything_comes_back(
            steps in proptest::collection::vec((1usize..40, 0usize..3, any::<prop::sample::Index>()), 1..200)
        ) {
            const LEN: usize = 300;
            let mut r = Ranges::new(LEN);
            let mut owner = [0; LEN];
            let mut held = Vec::new();
            for (n, (len, align, which)) in steps.into_iter().enumerate() {
                let align = [1, 4, 16][align];
                let fits = |at: usize| owner[at..].len() >= len && owner[at..at + len].iter().all(|&o| o == 0);
                let expected = (0..LEN).step_by(align).find(|&at| fits(at));
                prop_assert_eq!(r.take(len, align), expected);
                if let Some(at) = expected {
                    owner[at..at + len].fill(n + 1);
                    held.push((at, len));
                }
                if n % 3 == 2 && !held.is_empty() {
                    let (at, len) = held.swap_remove(which.index(held.len()));
                    owner[at..at + len].fill(0);
                    r.give(at, len);
                }
            }
            for (at, len) in held {
                r.give(at, len);
            }
            prop_assert_eq!(r.0, BTreeMap::from([(0, LEN)]));
        }
    }
}
