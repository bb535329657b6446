//! Spatial samples of a sequence: all references to some of the pages.
//!
//! C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC construction with SHARDS",
//! FAST 2015: a page is sampled if its hash is small enough, and a cache of the sampled pages that is
//! scaled down as they are misses as often as the whole does.
//!
//! Several samples are taken instead of one, of different pages (ranges of the hash that do not
//! overlap). The stated error has two parts:
//!
//! - chance: half of the 95 % interval of the mean, by the spread of the samples;
//! - scale: what is true of LRU is nearly true of other policies (C. Waldspurger, T. Saemundsson,
//!   I. Ahmad, N. Park, "Cache modeling and optimization using miniature simulations", ATC 2017), and
//!   the less so the smaller the cache. So each sample is also cut in two, and twice the difference
//!   that makes is added.
//!
//! Three points are as in the first paper or follow from it:
//!
//! - Misses are divided by the references that a sample should have, rate times all of them, not by
//!   those it has (SHARDS-adj): the difference is a few hot pages more or less, which hit.
//! - A scaled size is a whole number of pages. The samples take turns in rounding it up, so that it is
//!   right on the average.
//! - The smallest sizes leave a sample with a handful of pages and no figure ([`LEAST_FRAMES`]).

use crate::bounds::Sequence;
use crate::runner::RunnerError;
use coldset_report::stats::Spread;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;

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

/// One sample, or half of one.
pub(super) struct Part {
    pub(super) sequence: Sequence,
    /// Its number among those of its size, 0 up, and how many there are.
    nth: u64,
    of: u64,
    /// Part of the pages.
    rate: f64,
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
                // Even, to be cut in two.
                threshold: (r * HASHES as f64 / 2.0) as u64 * 2,
            }),
            _ => {
                let expected = "a rate from 0.0001 to 0.25, for example 0.01, 1% or 1/100";
                Err(RunnerError::value("sample", text, expected))
            }
        }
    }

    /// Share of the pages that the sample keeps.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.threshold as f64 / HASHES as f64
    }

    /// How many samples are taken.
    #[must_use]
    pub fn samples(&self) -> u64 {
        SAMPLES.min(HASHES / self.threshold)
    }

    /// The samples of a sequence, and then their halves.
    pub(super) fn of(&self, sequence: &Sequence) -> Vec<Part> {
        let whole = parts(sequence, self.threshold, self.samples());
        let halves = parts(sequence, self.threshold / 2, 2 * self.samples());
        whole.into_iter().chain(halves).collect()
    }

    /// Frames for a part in place of `pages` for the whole; none if a sample has too few.
    pub(super) fn frames(&self, part: &Part, pages: u64) -> Option<u64> {
        let turn = (part.nth as f64 + 0.5) / part.of as f64;
        let scaled = pages as f64 * part.rate + turn;
        (pages as f64 * self.rate() >= LEAST_FRAMES).then_some((scaled as u64).max(1))
    }

    /// Miss ratio of the whole and its error, from the misses of the samples and of their halves.
    pub(super) fn estimate(&self, misses: &[u64], references: u64) -> (f64, f64) {
        let expected = references as f64 * self.rate();
        let (whole, halves) = misses.split_at(self.samples() as usize);
        let ratios = whole.iter().map(|&m| m as f64 / expected).collect();
        let spread = Spread::of(ratios).expect("some samples");
        let chance = spread.ci95.map_or(0.0, |i| i.half_width());
        let sum = |misses: &[u64]| misses.iter().sum::<u64>() as f64;
        let scale = 2.0 * (sum(halves) - sum(whole)).abs() / (expected * whole.len() as f64);
        (spread.mean.min(1.0), chance + scale)
    }
}

/// The references to so many parts of the pages, each with as many hashes.
fn parts(sequence: &Sequence, hashes: u64, of: u64) -> Vec<Part> {
    let part_of = |page: u32| usize::try_from(hash(page.into()) / hashes).ok();
    let split = sequence.split(of as usize, part_of);
    let numbered = split.into_iter().zip(0..);
    numbered
        .map(|(sequence, nth)| Part {
            sequence,
            nth,
            of,
            rate: hashes as f64 / HASHES as f64,
        })
        .collect()
}

/// A hash below [`HASHES`].
fn hash(page: u64) -> u64 {
    SplitMix64::seed_from_u64(page).next_u64() >> 40
}
