//! The draws of the reference sequences: splitmix64 and a Zipf distribution.
//!
//! They are fixed by the recorded runs and differ on purpose from those of
//! [`crate::draw`]: the sequence hash only agrees with these.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;

/// Uniform double in `[0, 1)` with 53 bits.
fn unit(generator: &mut SplitMix64) -> f64 {
    (generator.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Remainder of the next draw; the (tiny) bias belongs to the definition.
///
/// # Panics
/// If `n` is 0.
pub fn remainder(generator: &mut SplitMix64, n: u64) -> u64 {
    assert!(n > 0, "remainder of 0");
    generator.next_u64() % n
}

/// Zipf-distributed pages: inverse CDF over ranks, then a shuffle of the pages.
#[derive(Debug, Clone, PartialEq)]
pub struct ZipfPages {
    /// Unnormalised cumulated weights by rank.
    cumulated: Vec<f64>,
    pages: Vec<u32>,
}

impl ZipfPages {
    /// `pages` pages with skew `theta`, shuffled by a generator at `permutation_state`.
    ///
    /// # Panics
    /// If `pages` is 0.
    #[must_use]
    pub fn new(theta: f64, pages: u32, permutation_state: u64) -> Self {
        assert!(pages > 0, "zipf over 0 pages");
        let mut sum = 0.0;
        let cumulated = (1..=pages)
            .map(|rank| {
                sum += libm::pow(f64::from(rank), -theta);
                sum
            })
            .collect();
        let mut shuffled: Vec<u32> = (0..pages).collect();
        let mut generator = SplitMix64::seed_from_u64(permutation_state);
        for i in (1..shuffled.len()).rev() {
            let j = remainder(&mut generator, i as u64 + 1) as usize;
            shuffled.swap(i, j);
        }
        Self {
            cumulated,
            pages: shuffled,
        }
    }

    /// Draws a page.
    pub fn draw(&self, generator: &mut SplitMix64) -> u32 {
        let whole = self.cumulated[self.cumulated.len() - 1];
        let target = unit(generator) * whole;
        let rank = self.cumulated.partition_point(|&mass| mass <= target);
        // `target` may round up to the whole mass.
        self.pages[rank.min(self.pages.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published first outputs of splitmix64 from state 1234567.
    #[test]
    fn splitmix_known_answers() {
        let mut generator = SplitMix64::seed_from_u64(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| generator.next_u64()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_page_is_reachable_and_the_first_rank_is_hottest() {
        let zipf = ZipfPages::new(0.99, 50, 1);
        let mut generator = SplitMix64::seed_from_u64(2);
        let mut counts = [0u32; 50];
        for _ in 0..50_000 {
            counts[zipf.draw(&mut generator) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| c > 0));
        let hottest = counts.iter().enumerate().max_by_key(|(_, c)| **c).unwrap();
        assert_eq!(hottest.0, zipf.pages[0] as usize);
    }
}
