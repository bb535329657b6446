//! Zipf ranks by inverse CDF.

use super::{check_outcomes, DrawError, Stream, ThresholdTable};

/// Rank `i` (from 0, hottest) with probability proportional to `(i+1)^-theta`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zipf {
    table: ThresholdTable,
}

impl Zipf {
    /// A table over `n` ranks with skew `theta`; 0 is uniform.
    ///
    /// # Errors
    /// `n` of 0 or above 2^32 - 1; `theta` outside 0..=4.
    pub fn new(n: u64, theta: f64) -> Result<Self, DrawError> {
        const WHAT: &str = "zipf";
        check_outcomes(WHAT, n)?;
        if !(0.0..=4.0).contains(&theta) {
            return Err(DrawError::Theta {
                what: WHAT,
                theta,
                range: "0 to 4",
            });
        }
        let weights = (1..=n).map(|rank| libm::pow(rank as f64, -theta));
        Ok(Self {
            table: ThresholdTable::from_weights(weights)?,
        })
    }

    /// Draws a rank, 0 the most frequent.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        self.table.draw(stream)
    }

    /// The table behind it.
    #[must_use]
    pub fn table(&self) -> &ThresholdTable {
        &self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masses_follow_the_harmonic_sums() {
        let n = 10_000;
        let zipf = Zipf::new(n, 0.99).unwrap();
        let sum = |k: u64| (1..=k).map(|i| (i as f64).powf(-0.99)).sum::<f64>();
        for k in [1, 2, 10, 1000, 9_999] {
            let expected = sum(k) / sum(n);
            assert!((zipf.table().mass_below(k) - expected).abs() < 1e-12, "{k}");
        }
        let flat = Zipf::new(4, 0.0).unwrap();
        assert_eq!(flat.table().mass_below(1), 0.25);
    }

    #[test]
    fn draws_match_masses_and_repeat() {
        let zipf = Zipf::new(1000, 1.2).unwrap();
        let count = |seed| {
            let mut stream = Stream::new(seed, "zipf", 0);
            (0..100_000).filter(|_| zipf.draw(&mut stream) == 0).count()
        };
        let expected = zipf.table().mass_below(1) * 100_000.0;
        assert!((count(1) as f64 - expected).abs() < 700.0);
        assert_eq!(count(1), count(1));
        assert_ne!(count(1), count(2));
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(Zipf::new(0, 0.99).is_err());
        let error = Zipf::new(10, f64::NAN).unwrap_err();
        assert!(error.to_string().contains("0 to 4"), "{error}");
    }
}
