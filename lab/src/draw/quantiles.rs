//! Draws from published percentiles.

use super::DrawError;

/// Steps of the table: finer than any published percentile.
const STEPS: usize = 4096;

/// A distribution known by some of its percentiles; between two of them the logarithm is linear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantiles {
    /// Value at the middle of each step.
    values: Vec<u64>,
}

impl Quantiles {
    /// From (rank in thousandths, value) in rising order, from rank 0 to rank 1000.
    ///
    /// # Errors
    /// Fewer than two, not from 0 to 1000, not rising in rank, falling in value, or a value of 0.
    pub fn new(knots: &[(u64, u64)]) -> Result<Self, DrawError> {
        let ends = (knots.first(), knots.last());
        let whole = matches!(ends, (Some((0, _)), Some((1000, _))));
        let rising = knots
            .windows(2)
            .all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1);
        if !whole || !rising || knots.iter().any(|k| k.1 == 0) {
            return Err(DrawError::Weights(format!(
                "percentiles {knots:?} do not rise from rank 0 to rank 1000 with positive values"
            )));
        }
        let values = (0..STEPS)
            .map(|step| {
                let rank = (step as f64 + 0.5) * 1000.0 / STEPS as f64;
                let upper = knots.partition_point(|k| (k.0 as f64) < rank).max(1);
                let ((r0, v0), (r1, v1)) = (knots[upper - 1], knots[upper]);
                let part = (rank - r0 as f64) / (r1 - r0) as f64;
                let (l0, l1) = (libm::log(v0 as f64), libm::log(v1 as f64));
                libm::exp(l0 + (l1 - l0) * part).round() as u64
            })
            .collect();
        Ok(Self { values })
    }

    /// The value at the rank `fraction / 2^64`. Two distributions asked for the same fraction are
    /// fully correlated.
    #[must_use]
    pub fn at(&self, fraction: u64) -> u64 {
        self.values[(fraction >> 52) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Stream;

    #[test]
    fn percentiles_come_back() {
        let knots = [
            (0, 15),
            (100, 27),
            (500, 51),
            (900, 92),
            (990, 126),
            (1000, 191),
        ];
        let q = Quantiles::new(&knots).unwrap();
        let mut stream = Stream::new(1, "quantiles", 0);
        let mut drawn: Vec<u64> = (0..100_000).map(|_| q.at(stream.bits())).collect();
        drawn.sort_unstable();
        for (rank, value) in knots {
            let at = (rank as usize * drawn.len() / 1000).min(drawn.len() - 1);
            assert!(
                drawn[at].abs_diff(value) <= 1 + value / 50,
                "{rank}: {}",
                drawn[at]
            );
        }
        assert!(q.at(0) >= 15 && q.at(u64::MAX) <= 191);
    }

    #[test]
    fn bad_percentiles_are_refused() {
        for bad in [
            &[][..],
            &[(0, 1)],
            &[(0, 1), (900, 2)],
            &[(0, 0), (1000, 2)],
            &[(0, 3), (1000, 2)],
            &[(0, 1), (500, 2), (500, 3), (1000, 4)],
        ] {
            assert!(Quantiles::new(bad).is_err(), "{bad:?}");
        }
    }
}
