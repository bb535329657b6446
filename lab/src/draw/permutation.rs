//! Fixed permutations that scatter hot ranks over an address range.

use super::{check_outcomes, DrawError, Stream};

/// A permutation of `0..n`, drawn once from a stream (Fisher-Yates).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    images: Vec<u32>,
}

impl Permutation {
    /// Shuffles `0..n`.
    ///
    /// # Errors
    /// `n` of 0 or above 2^32 - 1.
    pub fn shuffled(n: u64, stream: &mut Stream) -> Result<Self, DrawError> {
        check_outcomes("permutation", n)?;
        let mut images: Vec<u32> = (0..n as u32).collect();
        for i in (1..images.len()).rev() {
            let j = stream.below(i as u64 + 1) as usize;
            images.swap(i, j);
        }
        Ok(Self { images })
    }

    /// Image of `index`.
    ///
    /// # Panics
    /// If `index` is outside the permutation.
    #[must_use]
    pub fn map(&self, index: u64) -> u64 {
        u64::from(self.images[index as usize])
    }

    /// Number of elements.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.images.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_bijection(n in 1u64..500, seed: u64) {
            let permutation = Permutation::shuffled(n, &mut Stream::new(seed, "p", 0)).unwrap();
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let image = permutation.map(i) as usize;
                prop_assert!(!seen[image]);
                seen[image] = true;
            }
            prop_assert_eq!(permutation.size(), n);
        }
    }

    #[test]
    fn depends_on_the_seed_only() {
        let shuffle = |seed| Permutation::shuffled(1000, &mut Stream::new(seed, "p", 0)).unwrap();
        assert_eq!(shuffle(3), shuffle(3));
        assert_ne!(shuffle(3), shuffle(4));
        assert!(Permutation::shuffled(0, &mut Stream::new(1, "p", 0)).is_err());
    }
}
