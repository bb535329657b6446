//! Sets of CPUs.

/// The largest number of simulated CPUs.
pub const MAX_CPUS: u16 = 256;

const WORDS: usize = MAX_CPUS as usize / 64;

/// A set of CPUs, by number (0 to 255). Plain data, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CpuMask([u64; WORDS]);

impl CpuMask {
    /// The empty set.
    pub const EMPTY: Self = Self([0; WORDS]);
    /// Every CPU that can exist.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// CPUs `0..n`. `n` above [`MAX_CPUS`] means all.
    #[must_use]
    pub fn first_n(n: u16) -> Self {
        (0..n.min(MAX_CPUS)).collect()
    }

    /// The set of one CPU.
    #[must_use]
    pub fn single(cpu: u16) -> Self {
        let mut mask = Self::EMPTY;
        mask.insert(cpu);
        mask
    }

    /// Adds a CPU.
    #[inline]
    pub fn insert(&mut self, cpu: u16) {
        self.0[usize::from(cpu) / 64] |= 1 << (cpu % 64);
    }

    /// Takes a CPU out.
    #[inline]
    pub fn remove(&mut self, cpu: u16) {
        self.0[usize::from(cpu) / 64] &= !(1 << (cpu % 64));
    }

    /// True if the CPU is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, cpu: u16) -> bool {
        self.0[usize::from(cpu) / 64] & (1 << (cpu % 64)) != 0
    }

    /// The CPUs in both sets.
    #[inline]
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The CPUs in either set.
    #[inline]
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// The CPUs of this set that are not in `other`.
    #[inline]
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The lowest CPU of the set.
    #[inline]
    #[must_use]
    pub fn lowest(&self) -> Option<u16> {
        let word = self.0.iter().position(|&w| w != 0)?;
        Some(word as u16 * 64 + self.0[word].trailing_zeros() as u16)
    }

    /// True if a CPU besides this one is in the set. A set of this one to compare with would be written a word at a time
    /// and read at once, which stalls.
    #[inline]
    #[must_use]
    pub fn has_other(&self, cpu: u16) -> bool {
        let of_word = |i: usize| u64::from(i == usize::from(cpu) / 64) << (cpu % 64);
        let mut words = self.0.iter().enumerate();
        words.any(|(i, &word)| word & !of_word(i) != 0)
    }

    /// How many CPUs are in the set.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// True if no CPU is in the set.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&w| w == 0)
    }

    /// The CPUs of the set in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as u16)?;
                left &= left - 1;
                Some(i as u16 * 64 + bit)
            })
        })
    }
}

impl FromIterator<u16> for CpuMask {
    fn from_iter<I: IntoIterator<Item = u16>>(cpus: I) -> Self {
        let mut mask = Self::EMPTY;
        for cpu in cpus {
            mask.insert(cpu);
        }
        mask
    }
}

impl std::fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_operations_cross_word_borders() {
        let a: CpuMask = [0, 63, 64, 255].into_iter().collect();
        let b = CpuMask::first_n(64);
        assert_eq!(a.and(&b).iter().collect::<Vec<_>>(), [0, 63]);
        assert_eq!(a.without(&b).iter().collect::<Vec<_>>(), [64, 255]);
        assert_eq!(a.without(&b).lowest(), Some(64));
        assert_eq!(a.or(&b).count(), 66);
        assert!(CpuMask::EMPTY.lowest().is_none());
        assert_eq!(CpuMask::ALL.count(), u32::from(MAX_CPUS));
        for cpu in [0, 63, 64, 255] {
            let only = CpuMask::single(cpu);
            assert!(!CpuMask::EMPTY.has_other(cpu) && !only.has_other(cpu) && a.has_other(cpu));
            assert!(
                only.has_other((cpu + 64) % 256) && only.has_other(cpu ^ 1),
                "{cpu}"
            );
        }
    }
}
