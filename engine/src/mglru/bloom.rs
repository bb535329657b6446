//! The two Bloom filters that remember which page tables are worth walking (`docs/rules/aging.md#filters`).

use crate::splitmix::splitmix64;

/// Bits of a filter.
const BITS: usize = 1 << 15;

/// One filter of 2^15 bits, two keys an item.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct Filter(Box<[u64]>);

/// A pair of filters: while one is read, the other is written for the next generation.
/// A filter that was never created answers "yes".
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct BloomPair {
    filters: [Option<Filter>; 2],
}

/// Two bit positions of a key.
fn positions(key: u64) -> [usize; 2] {
    let z = splitmix64(key);
    [z as usize % BITS, (z >> 32) as usize % BITS]
}

impl BloomPair {
    /// True if the filter of `seq` may hold `key`, or was never created.
    pub fn hit(&self, seq: u64, key: u64) -> bool {
        self.filters[(seq % 2) as usize].as_ref().is_none_or(|f| {
            positions(key)
                .iter()
                .all(|&p| f.0[p / 64] >> (p % 64) & 1 == 1)
        })
    }

    /// Adds `key` to the filter of `seq`, unless that was never created.
    pub fn add(&mut self, seq: u64, key: u64) {
        if let Some(f) = &mut self.filters[(seq % 2) as usize] {
            for p in positions(key) {
                f.0[p / 64] |= 1 << (p % 64);
            }
        }
    }

    /// Empties the filter of `seq`, creating it the first time.
    pub fn reset(&mut self, seq: u64) {
        match &mut self.filters[(seq % 2) as usize] {
            Some(f) => f.0.fill(0),
            none => *none = Some(Filter(vec![0; BITS / 64].into_boxed_slice())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_filter_hits_and_a_reset_one_does_not() {
        let mut b = BloomPair::default();
        assert!(b.hit(4, 17));
        b.add(4, 17);
        b.reset(4);
        assert!(!b.hit(4, 17));
        b.add(4, 17);
        assert!(b.hit(4, 17) && b.hit(6, 17) && b.hit(5, 17));
        b.reset(4);
        assert!(!b.hit(4, 17));
    }
}
