//! The literal record choice of the document-store client (`docs/reference/experiments.md#mongodb`).

use super::{check_outcomes, DrawError, Stream};

/// Skew of the generator.
const THETA: f64 = 0.99;
/// `1 / (1 - theta)`.
const ALPHA: f64 = 100.0;
/// Ranks drawn before hashing.
const RANKS: f64 = 1e16;
/// Published sum of `i^-theta` over the ranks.
const ZETA_N: f64 = 26.46902820178302;

/// Scrambled Zipf: a rank out of 10^16, hashed onto the records.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrambledZipf {
    records: u64,
    /// `zeta(2, theta)`.
    zeta_2: f64,
    eta: f64,
}

impl ScrambledZipf {
    /// A choice among `records` records.
    ///
    /// # Errors
    /// `records` of 0 or above 2^32 - 1.
    pub fn new(records: u64) -> Result<Self, DrawError> {
        check_outcomes("scrambled zipf", records)?;
        let zeta_2 = 1.0 + libm::pow(0.5, THETA);
        let eta = (1.0 - libm::pow(2.0 / RANKS, 1.0 - THETA)) / (1.0 - zeta_2 / ZETA_N);
        Ok(Self {
            records,
            zeta_2,
            eta,
        })
    }

    /// Draws a record number.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        fnv64(self.rank(stream.unit())) % self.records
    }

    /// The rank at the fraction `u` of the mass.
    fn rank(&self, u: f64) -> u64 {
        let position = u * ZETA_N;
        if position < 1.0 {
            0
        } else if position < self.zeta_2 {
            1
        } else {
            (RANKS * libm::pow(self.eta * u - self.eta + 1.0, ALPHA)) as u64
        }
    }
}

/// The client's hash: FNV over the eight bytes, low byte first, then the absolute value
/// as a signed number.
#[must_use]
pub fn fnv64(value: u64) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for byte in value.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    }
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured masses at 20 M records: top 1, 10, 100, 1,000 and 10,000 records.
    #[test]
    fn published_masses() {
        const RECORDS: u64 = 20_000_000;
        const DRAWS: u32 = 8_000_000;
        let choice = ScrambledZipf::new(RECORDS).unwrap();
        let mut stream = Stream::new(1, "ycsb", 0);
        let mut counts = vec![0u32; RECORDS as usize];
        for _ in 0..DRAWS {
            counts[choice.draw(&mut stream) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        for (top, mass) in [
            (1, 3.78),
            (10, 9.2),
            (100, 14.3),
            (1000, 19.6),
            (10_000, 25.0),
        ] {
            let hits: u32 = counts[..top].iter().sum();
            let share = f64::from(hits) / f64::from(DRAWS) * 100.0;
            assert!((share - mass).abs() < 0.15, "top {top}: {share} %");
        }
    }

    #[test]
    fn head_ranks_have_the_zipf_masses() {
        let choice = ScrambledZipf::new(1000).unwrap();
        assert_eq!(choice.rank(0.0), 0);
        assert_eq!(choice.rank(0.99999 / ZETA_N), 0);
        assert_eq!(choice.rank(1.00001 / ZETA_N), 1);
        assert_eq!(choice.rank((1.0 + 0.5f64.powf(0.99) + 1e-6) / ZETA_N), 2);
        assert_eq!(
            choice.rank(1.0 - f64::EPSILON / 2.0),
            10_000_000_000_000_000
        );
    }

    #[test]
    fn hash_of_zero_is_the_offset_times_the_prime() {
        let mut expected = 0xCBF2_9CE4_8422_2325u64;
        for _ in 0..8 {
            expected = expected.wrapping_mul(1_099_511_628_211);
        }
        assert_eq!(fnv64(0), (expected as i64).unsigned_abs());
        assert_ne!(fnv64(1), fnv64(256));
    }
}
