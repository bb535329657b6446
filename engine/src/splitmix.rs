//! SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014), to spread numbers that are close to each other.

/// Its increment.
pub(crate) const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Its finaliser.
#[inline]
pub(crate) fn finalise(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The first number that it gives for a seed.
#[inline]
pub(crate) fn splitmix64(seed: u64) -> u64 {
    finalise(seed.wrapping_add(GAMMA))
}
