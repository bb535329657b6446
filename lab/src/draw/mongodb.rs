//! The scale-true block choice of the document-store experiment (`docs/reference/experiments.md#mongodb`).
//!
//! The literal record stream gets colder when the records shrink; this one keeps the
//! share of requests that goes to a share of the blocks.

use super::{check_outcomes, DrawError, Permutation, Stream, ThresholdTable};

/// (fraction of blocks, hottest first; fraction of requests that go to them).
const MASS: [(f64, f64); 18] = [
    (1.35e-6, 0.0378),
    (3.1e-5, 0.1103),
    (1e-4, 0.1365),
    (3.2e-4, 0.1626),
    (1e-3, 0.1895),
    (3.2e-3, 0.2176),
    (0.01, 0.2495),
    (0.02, 0.2731),
    (0.05, 0.3168),
    (0.10, 0.3702),
    (0.15, 0.4167),
    (0.20, 0.4600),
    (0.30, 0.5406),
    (0.40, 0.6162),
    (0.50, 0.6881),
    (0.70, 0.8229),
    (0.90, 0.9459),
    (1.0, 1.0),
];

/// Interpolation is linear in log x up to here, linear in x above.
const LOG_UP_TO: f64 = 0.01;

/// Draws blocks of a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockChoice {
    ranks: ThresholdTable,
    scatter: Permutation,
}

impl BlockChoice {
    /// A choice among `blocks` blocks; `scatter` draws the fixed permutation of the
    /// ranks over the file (use one stream of the experiment for all variants).
    ///
    /// # Errors
    /// `blocks` of 0 or above 2^32 - 1.
    pub fn new(blocks: u64, scatter: &mut Stream) -> Result<Self, DrawError> {
        check_outcomes("block choice", blocks)?;
        let cumulated: Vec<f64> = (1..=blocks)
            .map(|block| mass_at(block as f64 / blocks as f64))
            .collect();
        Ok(Self {
            ranks: ThresholdTable::from_cumulated(&cumulated)?,
            scatter: Permutation::shuffled(blocks, scatter)?,
        })
    }

    /// Draws a block number.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        self.scatter.map(self.ranks.draw(stream))
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.scatter.size()
    }

    /// The rank table (rank 0 is the hottest block).
    #[must_use]
    pub fn ranks(&self) -> &ThresholdTable {
        &self.ranks
    }
}

/// Share of requests that goes to the hottest fraction `x` of the blocks.
fn mass_at(x: f64) -> f64 {
    let upper = MASS.partition_point(|&(knot, _)| knot < x);
    if upper == 0 {
        // Inside the hottest block of the full-size file: no finer shape is known.
        return MASS[0].1 * (x / MASS[0].0);
    }
    let (x0, f0) = MASS[upper - 1];
    let (x1, f1) = MASS[upper];
    let part = if x1 <= LOG_UP_TO {
        libm::log(x / x0) / libm::log(x1 / x0)
    } else {
        (x - x0) / (x1 - x0)
    };
    f0 + (f1 - f0) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masses_at_the_knots() {
        for (x, mass) in MASS {
            assert!((mass_at(x) - mass).abs() < 1e-12, "{x}");
        }
        // Half way in log x between 1e-4 and 3.2e-4; half way in x between 0.1 and 0.15.
        let middle = mass_at((1e-4f64 * 3.2e-4).sqrt());
        assert!((middle - (0.1365 + 0.1626) / 2.0).abs() < 1e-12);
        assert!((mass_at(0.125) - (0.3702 + 0.4167) / 2.0).abs() < 1e-12);
    }

    /// The shape does not depend on the scale: 740,741 blocks at 1, 11,574 at 1/64.
    #[test]
    fn shares_hold_at_both_scales() {
        for blocks in [740_741u64, 11_574] {
            let choice = BlockChoice::new(blocks, &mut Stream::new(1, "scatter", 0)).unwrap();
            for (x, mass) in [(0.01, 0.2495), (0.1, 0.3702), (0.2, 0.46), (0.5, 0.6881)] {
                let hottest = (x * blocks as f64).round() as u64;
                let share = choice.ranks().mass_below(hottest);
                assert!((share - mass).abs() < 2e-4, "{blocks} {x}: {share}");
            }
        }
        let full = BlockChoice::new(740_741, &mut Stream::new(1, "scatter", 0)).unwrap();
        assert!((full.ranks().mass_below(1) - 0.0378).abs() < 1e-4);
    }

    #[test]
    fn draws_scatter_and_repeat() {
        let choice = BlockChoice::new(11_574, &mut Stream::new(1, "scatter", 0)).unwrap();
        let draw = |seed| {
            let mut stream = Stream::new(seed, "mongodb", 0);
            (0..50_000)
                .map(|_| choice.draw(&mut stream))
                .collect::<Vec<_>>()
        };
        let blocks = draw(1);
        assert_eq!(blocks, draw(1));
        assert_ne!(blocks, draw(2));
        let hottest = choice.scatter.map(0);
        let hits = blocks.iter().filter(|&&b| b == hottest).count() as f64 / 50_000.0;
        assert!(
            (hits - choice.ranks().mass_below(1)).abs() < 0.006,
            "{hits}"
        );
        let low_half = blocks.iter().filter(|&&b| b < 11_574 / 2).count();
        assert!(
            (18_000..32_000).contains(&low_half),
            "not scattered: {low_half}"
        );
        assert_eq!(choice.blocks(), 11_574);
    }
}
