//! One value for each page of an object: in one array, or in leaves that exist where pages are used.
//!
//! The array is what the lab's own programs have: a look-up is one load. Leaves are for objects of
//! which few pages are used: a trace may name any page number, and a large one must not cost memory
//! for all the numbers below it.

use super::leaves::Leaves;
use prefetch_index::prefetch_index;
use std::ops::{Index, IndexMut, Range};

/// One value for each page. A value that was never set is the default. A leaf has `LEAF` values: few, so that a page that is
/// alone costs little.
#[derive(Debug)]
pub struct PerPage<T, const LEAF: usize = 16> {
    /// Values there may be.
    len: usize,
    none: T,
    values: Values<T, LEAF>,
}

#[derive(Debug)]
enum Values<T, const LEAF: usize> {
    /// The first values; the others are defaults.
    Whole(Vec<T>),
    Scattered(Box<Leaves<T, LEAF>>),
}

impl<T: Copy + Default + PartialEq, const LEAF: usize> PerPage<T, LEAF> {
    /// An array of `len` values.
    pub fn whole(len: usize) -> Self {
        Self::with(len, Values::Whole(vec![T::default(); len]))
    }

    /// An array that grows with the highest value set.
    pub fn growing(len: usize) -> Self {
        Self::with(len, Values::Whole(Vec::new()))
    }

    /// Leaves where values are set.
    pub fn scattered(len: usize) -> Self {
        Self::with(len, Values::Scattered(Box::new(Leaves::new())))
    }

    fn with(len: usize, values: Values<T, LEAF>) -> Self {
        let none = T::default();
        Self { len, none, values }
    }

    /// Values there may be.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// There can be no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes memory by the values set.
    pub fn is_scattered(&self) -> bool {
        matches!(self.values, Values::Scattered(_))
    }

    /// Makes it at least `len` values long.
    pub fn grow(&mut self, len: usize) {
        if len <= self.len {
            return;
        }
        if let Values::Whole(values) = &mut self.values {
            if values.len() == self.len {
                values.resize(len, T::default());
            }
        }
        self.len = len;
    }

    /// The value at `at`, the default beyond the end.
    #[inline]
    pub fn get(&self, at: usize) -> T {
        match &self.values {
            Values::Whole(values) => values.get(at).copied().unwrap_or_default(),
            Values::Scattered(leaves) => leaf(leaves, at),
        }
    }

    /// The value at `at`, where it lies, if it has a place.
    #[inline]
    pub fn find(&self, at: usize) -> Option<&T> {
        match &self.values {
            Values::Whole(values) => values.get(at),
            Values::Scattered(leaves) => Some(&leaves.get(at / LEAF)?[at % LEAF]),
        }
    }

    /// The value at `at`, if it has a place already.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match &mut self.values {
            Values::Whole(values) => values.get_mut(at),
            Values::Scattered(leaves) => Some(&mut leaves.get_mut(at / LEAF)?[at % LEAF]),
        }
    }

    /// Makes values the default again, as far as they have places. `range` is of whole leaves.
    pub fn reset(&mut self, range: Range<usize>) {
        match &mut self.values {
            Values::Whole(values) => {
                let end = range.end.min(values.len());
                if let Some(values) = values.get_mut(range.start..end) {
                    values.fill(T::default());
                }
            }
            Values::Scattered(leaves) => {
                debug_assert!(range.start.is_multiple_of(LEAF) && range.end.is_multiple_of(LEAF));
                for leaf in range.start / LEAF..range.end / LEAF {
                    if let Some(values) = leaves.get_mut(leaf) {
                        values.fill(T::default());
                    }
                }
            }
        }
    }

    /// Brings the value at `at` into the CPU's cache. Leaves are left alone.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Values::Whole(values) = &self.values {
            prefetch_index(values, at);
        }
    }

    /// The first place at or after `from` that may have been set: of an array, `from` itself.
    pub fn next_place(&self, from: usize) -> Option<usize> {
        match &self.values {
            Values::Whole(values) => (from < values.len()).then_some(from),
            Values::Scattered(leaves) => {
                let leaf = leaves.next(from / LEAF)?;
                Some((leaf * LEAF).max(from)).filter(|&at| at < self.len)
            }
        }
    }

    /// The same without those that are known to have the default.
    pub fn next_set(&self, mut from: usize) -> Option<usize> {
        let Values::Scattered(leaves) = &self.values else {
            return self.next_place(from);
        };
        loop {
            let leaf = leaves.next(from / LEAF)?;
            from = from.max(leaf * LEAF);
            let values = &leaves.get(leaf)?[from % LEAF..];
            if let Some(after) = values.iter().position(|value| *value != self.none) {
                return Some(from + after);
            }
            from = (leaf + 1) * LEAF;
        }
    }
}

/// Out of line: an array is the usual case.
#[cold]
#[inline(never)]
fn leaf<T: Copy + Default, const LEAF: usize>(leaves: &Leaves<T, LEAF>, at: usize) -> T {
    leaves.get(at / LEAF).map_or(T::default(), |l| l[at % LEAF])
}

impl<T: Copy + Default, const LEAF: usize> Index<usize> for PerPage<T, LEAF> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        match &self.values {
            Values::Whole(values) => &values[at],
            Values::Scattered(leaves) => {
                assert!(at < self.len, "value {at} of {}", self.len);
                let leaf = leaves.get(at / LEAF);
                leaf.map_or(&self.none, |leaf| &leaf[at % LEAF])
            }
        }
    }
}

impl<T: Copy + Default, const LEAF: usize> IndexMut<usize> for PerPage<T, LEAF> {
    /// A place for the value at `at`, made if there is none.
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        assert!(at < self.len, "value {at} of {}", self.len);
        match &mut self.values {
            Values::Whole(values) => {
                if values.len() <= at {
                    values.resize(at + 1, T::default());
                }
                &mut values[at]
            }
            Values::Scattered(leaves) => &mut leaves.make(at / LEAF)[at % LEAF],
        }
    }
}

/// One bit a page.
#[derive(Debug)]
pub struct Bits(PerPage<u64>);

impl Bits {
    /// Of `pages` pages, all clear.
    pub fn new(pages: u32, scattered: bool) -> Self {
        let words = pages.div_ceil(64) as usize;
        Self(if scattered {
            PerPage::scattered(words)
        } else {
            PerPage::growing(words)
        })
    }

    /// Makes room for `pages` pages.
    pub fn grow(&mut self, pages: u32) {
        self.0.grow(pages.div_ceil(64) as usize);
    }

    /// Sets a bit. What it was.
    #[inline]
    pub fn set(&mut self, page: u32) -> bool {
        let word = &mut self.0[page as usize / 64];
        let bit = 1 << (page % 64);
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// Clears a bit. What it was.
    #[inline]
    pub fn clear(&mut self, page: u32) -> bool {
        let Some(word) = self.0.get_mut(page as usize / 64) else {
            return false;
        };
        let bit = 1 << (page % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// A bit.
    #[inline]
    pub fn has(&self, page: u32) -> bool {
        self.0.get(page as usize / 64) >> (page % 64) & 1 == 1
    }

    /// The first set bit at or after `from`.
    pub fn next(&self, from: u32) -> Option<u32> {
        let first = from as usize / 64;
        let mut word = self.0.next_set(first)?;
        loop {
            let mut bits = self.0.get(word);
            if word == first {
                bits &= !0 << (from % 64);
            }
            if bits != 0 {
                return Some(word as u32 * 64 + bits.trailing_zeros());
            }
            word = self.0.next_set(word + 1)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const TOP: usize = 1 << 31;

    #[test]
    fn a_page_far_away_costs_a_leaf() {
        let mut t: PerPage<u64> = PerPage::scattered(TOP);
        t[TOP - 1] = 7;
        t[5] = 1;
        assert_eq!((t[TOP - 1], t[TOP - 2], t[5], t[6]), (7, 0, 1, 0));
        let Values::Scattered(leaves) = &t.values else {
            panic!("scattered");
        };
        assert_eq!(
            (leaves.next(0), leaves.next(1)),
            (Some(0), Some(TOP / 16 - 1))
        );
        assert_eq!(t.get_mut(1 << 20), None);
    }

    #[test]
    fn growing_keeps_values() {
        for mut t in [
            PerPage::<u32>::whole(3),
            PerPage::growing(3),
            PerPage::scattered(3),
        ] {
            t[2] = 9;
            t.grow(100);
            t[99] = 4;
            assert_eq!((t[2], t[98], t[99], t.len()), (9, 0, 4, 100));
        }
    }

    #[test]
    #[should_panic(expected = "value 3 of 3")]
    fn beyond_the_end_is_a_defect() {
        PerPage::<u8>::scattered(3)[3] = 1;
    }

    proptest! {
        /// The same bits as a set, found in the same order.
        #[test]
        fn bits_are_a_set(
            changes in prop::collection::vec((prop_oneof![0u32..300, 0u32..1 << 31], any::<bool>()), 0..100),
            from in prop_oneof![0u32..300, 0u32..1 << 31],
        ) {
            let mut bits = Bits::new(1 << 31, true);
            let mut model = BTreeSet::new();
            for (page, set) in changes {
                if set {
                    prop_assert_eq!(bits.set(page), !model.insert(page));
                } else {
                    prop_assert_eq!(bits.clear(page), model.remove(&page));
                }
                prop_assert_eq!(bits.has(page), set);
            }
            prop_assert_eq!(bits.next(from), model.range(from..).next().copied());
        }
    }
}
