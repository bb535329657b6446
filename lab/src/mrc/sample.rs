//! Spatial samples of a sequence: all references to some of the pages.
//!
//! C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC construction with SHARDS",
//! FAST 2015: a page is sampled if its hash is small enough, and a cache of the sampled pages that is
//! scaled down as they are misses as often as the whole does.
//!
//! Several samples are taken instead of one, of different pages (ranges of the hash that do not
//! overlap), and their spread says how far off the mean may be. Three points are as in the paper or
//! follow from it:
//!
//! - Misses are divided by the references that a sample should have, rate times all of them, not by
//!   those it has (SHARDS-adj): the difference is a few hot pages more or less, which hit.
//! - A scaled size is a whole number of pages. The samples take turns in rounding it up, so that it is
//!   right on the average.
//! - The smallest sizes leave a sample with a handful of pages and no figure ([`LEAST_FRAMES`]).

use crate::bounds::Sequence;
use crate::runner::RunnerError;
use crate::stats::Spread;

/// Samples that are taken, as far as there are pages for them.
pub const SAMPLES: u64 = 16;
/// Least frames of a scaled cache.
pub const LEAST_FRAMES: f64 = 8.0;
/// Hashes are below this.
const HASHES: u64 = 1 << 24;

/// Part of the pages that a sample has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Hashes of a sample, of 2^24.
    threshold: u64,
}

/// One sample.
pub(super) struct Part {
    pub(super) sequence: Sequence,
    /// Its number, 0 up.
    nth: u64,
}

impl Sample {
    /// Reads a rate: `0.01`, `1%` or `1/100`.
    ///
    /// # Errors
    /// Not a rate from 0.0001 to 0.25.
    pub fn parse(text: &str) -> Result<Self, RunnerError> {
        let number = |t: &str| t.trim().parse::<f64>().ok();
        let rate = match (text.strip_suffix('%'), text.split_once('/')) {
            (Some(percent), _) => number(percent).map(|p| p / 100.0),
            (_, Some((n, d))) => number(n).zip(number(d)).map(|(n, d)| n / d),
            _ => number(text),
        };
        match rate {
            Some(r) if (0.0001..=0.25).contains(&r) => Ok(Self {
                threshold: (r * HASHES as f64).round() as u64,
            }),
            _ => {
                let expected = "a rate from 0.0001 to 0.25, for example 0.01, 1% or 1/100";
                Err(RunnerError::value("sample", text, expected))
            }
        }
    }

    /// The rate.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.threshold as f64 / HASHES as f64
    }

    /// How many samples are taken.
    #[must_use]
    pub fn samples(&self) -> u64 {
        SAMPLES.min(HASHES / self.threshold)
    }

    /// The samples of a sequence.
    pub(super) fn of(&self, sequence: &Sequence) -> Vec<Part> {
        let mut ids: Vec<Vec<u64>> = vec![Vec::new(); self.samples() as usize];
        for &page in sequence.keys() {
            let at = hash(u64::from(page)) / self.threshold;
            if let Some(ids) = ids.get_mut(at as usize) {
                ids.push(page.into());
            }
        }
        let parts = ids.into_iter().zip(0..);
        parts
            .map(|(ids, nth)| Part {
                sequence: Sequence::new(ids).expect("shorter than the whole"),
                nth,
            })
            .collect()
    }

    /// Frames for a sample in place of `pages` for the whole; none if they are too few.
    pub(super) fn frames(&self, part: &Part, pages: u64) -> Option<u64> {
        let scaled = pages as f64 * self.rate();
        let turn = (part.nth as f64 + 0.5) / self.samples() as f64;
        (scaled >= LEAST_FRAMES).then_some((scaled + turn).floor() as u64)
    }

    /// Miss ratio of the whole, and half of the width of its 95 % interval.
    pub(super) fn estimate(&self, misses: &[u64], references: u64) -> (f64, f64) {
        let expected = references as f64 * self.rate();
        let ratios = misses.iter().map(|&m| m as f64 / expected).collect();
        let spread = Spread::of(ratios).expect("some samples");
        let half = spread.ci95.map_or(0.0, |i| i.half_width());
        (spread.mean.min(1.0), half)
    }
}

/// A hash below [`HASHES`] (the finaliser of SplitMix64: G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014).
fn hash(page: u64) -> u64 {
    let mut z = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 40
}
