//! Inverse-CDF table in 64-bit fixed point.

use super::{check_outcomes, DrawError, Stream};

/// 2^64 as a double (exact).
const FULL: f64 = 18_446_744_073_709_551_616.0;

/// Draws an index with given probabilities: one 64-bit draw, one short search.
///
/// Outcome `i` is drawn when the draw lies in `[threshold(i-1), threshold(i))`, where
/// the last threshold is 2^64 and not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThresholdTable {
    thresholds: Vec<u64>,
    /// First candidate outcome for each value of the draw's top bits: the search then
    /// spans only the outcomes that share these bits.
    guide: Vec<u32>,
    guide_shift: u32,
}

impl ThresholdTable {
    /// From weights in outcome order; they need not sum to 1.
    ///
    /// # Errors
    /// No weights, too many, a negative or non-finite one, or a sum of 0.
    pub fn from_weights(weights: impl IntoIterator<Item = f64>) -> Result<Self, DrawError> {
        let mut cumulated = Vec::new();
        let mut sum = 0.0f64;
        for (i, weight) in weights.into_iter().enumerate() {
            if !(weight >= 0.0 && weight.is_finite()) {
                return Err(DrawError::Weights(format!("weight {i} is {weight}")));
            }
            sum += weight;
            cumulated.push(sum);
        }
        Self::from_cumulated(&cumulated)
    }

    /// From cumulated weights in outcome order, last entry = whole mass.
    ///
    /// # Errors
    /// As [`Self::from_weights`]; also if the entries decrease.
    pub fn from_cumulated(cumulated: &[f64]) -> Result<Self, DrawError> {
        check_outcomes("weight table", cumulated.len() as u64)?;
        let total = cumulated[cumulated.len() - 1];
        if !(total > 0.0 && total.is_finite()) {
            return Err(DrawError::Weights(format!("the whole mass is {total}")));
        }
        let mut thresholds = Vec::with_capacity(cumulated.len() - 1);
        let mut previous = 0.0;
        for (i, &mass) in cumulated.iter().enumerate() {
            if mass.is_nan() || mass < previous {
                return Err(DrawError::Weights(format!("weight {i} is negative")));
            }
            previous = mass;
            if i + 1 < cumulated.len() {
                // Division first: the product with 2^64 is then exact; the cast saturates.
                thresholds.push((mass / total * FULL) as u64);
            }
        }
        Ok(Self::index(thresholds))
    }

    fn index(thresholds: Vec<u64>) -> Self {
        let bits = (usize::BITS - thresholds.len().leading_zeros()).clamp(1, 20);
        let guide_shift = 64 - bits;
        let guide = (0..1u64 << bits)
            .map(|top| thresholds.partition_point(|&t| t <= top << guide_shift) as u32)
            .collect();
        Self {
            thresholds,
            guide,
            guide_shift,
        }
    }

    /// Number of outcomes.
    #[must_use]
    pub fn outcomes(&self) -> u64 {
        self.thresholds.len() as u64 + 1
    }

    /// Draws an outcome.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        self.at(stream.bits())
    }

    /// The outcome at the fraction `fraction / 2^64` of the mass.
    #[must_use]
    pub fn at(&self, fraction: u64) -> u64 {
        let top = (fraction >> self.guide_shift) as usize;
        let first = self.guide[top] as usize;
        let last = match self.guide.get(top + 1) {
            Some(&next) => next as usize,
            None => self.thresholds.len(),
        };
        let within = self.thresholds[first..last].partition_point(|&t| t <= fraction);
        (first + within) as u64
    }

    /// Share of the mass in the outcomes `0..n`, within 2^-53.
    #[must_use]
    pub fn mass_below(&self, n: u64) -> f64 {
        match n {
            0 => 0.0,
            n if n >= self.outcomes() => 1.0,
            n => self.thresholds[n as usize - 1] as f64 / FULL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn boundaries_belong_to_the_next_outcome() {
        let table = ThresholdTable::from_weights([1.0, 2.0, 1.0]).unwrap();
        assert_eq!(table.outcomes(), 3);
        assert_eq!(table.at(0), 0);
        assert_eq!(table.at((1 << 62) - 1), 0);
        assert_eq!(table.at(1 << 62), 1);
        assert_eq!(table.at((3 << 62) - 1), 1);
        assert_eq!(table.at(3 << 62), 2);
        assert_eq!(table.at(u64::MAX), 2);
        assert_eq!(table.mass_below(2), 0.75);
    }

    #[test]
    fn zero_weights_are_never_drawn() {
        let table = ThresholdTable::from_weights([0.0, 1.0, 0.0, 1.0]).unwrap();
        let mut stream = Stream::new(1, "zero", 0);
        assert!((0..10_000).all(|_| table.draw(&mut stream) % 2 == 1));
        assert_eq!(ThresholdTable::from_weights([3.0]).unwrap().at(u64::MAX), 0);
    }

    #[test]
    fn bad_tables_are_refused() {
        assert!(ThresholdTable::from_weights([]).is_err());
        assert!(ThresholdTable::from_weights([0.0, 0.0]).is_err());
        assert!(ThresholdTable::from_weights([1.0, -1.0]).is_err());
        assert!(ThresholdTable::from_weights([1.0, f64::NAN]).is_err());
        assert!(ThresholdTable::from_cumulated(&[2.0, 1.0]).is_err());
    }

    proptest! {
        /// The guide is only a shortcut: the plain search gives the same outcome.
        #[test]
        fn guide_agrees_with_plain_search(
            weights in prop::collection::vec(0u32..1000, 1..200),
            draws in prop::collection::vec(any::<u64>(), 50),
        ) {
            prop_assume!(weights.iter().any(|&w| w > 0));
            let table = ThresholdTable::from_weights(weights.iter().map(|&w| f64::from(w))).unwrap();
            for draw in draws {
                let plain = table.thresholds.partition_point(|&t| t <= draw) as u64;
                prop_assert_eq!(table.at(draw), plain);
            }
        }
    }
}
