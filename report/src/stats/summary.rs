//! Mean, median and confidence interval over seeds, and paired ratios.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

impl Interval {
    /// Whether it has `x` in it, or as an end.
    #[must_use]
    pub fn contains(&self, x: f64) -> bool {
        self.lo <= x && x <= self.hi
    }

    /// Half of the width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.hi - self.lo) / 2.0
    }
}

/// Location and spread of one figure over seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// One value a seed, in seed order.
    pub per_seed: Vec<f64>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Middle value, or the mean of the two.
    pub median: f64,
    /// 95 % confidence interval of the mean; `None` for a single seed.
    pub ci95: Option<Interval>,
}

impl Spread {
    /// Of at least one value; `None` for none.
    #[must_use]
    pub fn of(per_seed: Vec<f64>) -> Option<Self> {
        let mean = mean(&per_seed)?;
        let median = median(&per_seed)?;
        let ci95 = sample_sd(&per_seed).map(|sd| {
            let n = per_seed.len();
            let half = student_t_975(n as u64 - 1) * sd / (n as f64).sqrt();
            Interval {
                lo: mean - half,
                hi: mean + half,
            }
        });
        Some(Self {
            per_seed,
            mean,
            median,
            ci95,
        })
    }
}

/// Arithmetic mean; `None` for no values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Median; `None` for no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Sample standard deviation; `None` for fewer than two values.
#[must_use]
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((squares / (values.len() as f64 - 1.0)).sqrt())
}

/// Two-sided 95 % quantile of Student's t with `freedom` degrees of freedom, to six
/// decimals: rounding hides the last bits in which C libraries differ.
///
/// # Panics
/// If `freedom` is 0.
#[must_use]
pub fn student_t_975(freedom: u64) -> f64 {
    assert!(freedom > 0, "Student's t without a degree of freedom");
    let t = StudentsT::new(0.0, 1.0, freedom as f64).expect("freedom is positive");
    (t.inverse_cdf(0.975) * 1e6).round() / 1e6
}

/// Why two columns have no ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// Not the same number of seeds.
    #[error("{before} seeds before and {after} after: run both with the same seeds")]
    Length {
        /// Values before.
        before: usize,
        /// Values after.
        after: usize,
    },
    /// No seeds.
    #[error("no seeds")]
    Empty,
    /// Something after nothing.
    #[error("seed number {index} (from 0) has 0 before and more after: no ratio")]
    ZeroBefore {
        /// Position in seed order.
        index: usize,
    },
}

/// after/before seed by seed. Nothing after nothing is no change: ratio 1.
///
/// # Errors
/// Columns of different length or empty; something after nothing.
pub fn paired_ratio(before: &[f64], after: &[f64]) -> Result<Spread, PairError> {
    if before.len() != after.len() {
        return Err(PairError::Length {
            before: before.len(),
            after: after.len(),
        });
    }
    let mut ratios = Vec::with_capacity(before.len());
    for (index, (&b, &a)) in before.iter().zip(after).enumerate() {
        ratios.push(match (b == 0.0, a == 0.0) {
            (true, true) => 1.0,
            (true, false) => return Err(PairError::ZeroBefore { index }),
            _ => a / b,
        });
    }
    Spread::of(ratios).ok_or(PairError::Empty)
}

/// Whether after is clearly something else than before, seed by seed, for seeds that have nothing before and so no
/// ratio: every seed has something where none had, or the 95 % confidence interval of the difference is without 0. Of a
/// single seed any difference is clear.
#[must_use]
pub fn differs_from_nothing(before: &[f64], after: &[f64]) -> bool {
    let is_new = before.iter().all(|b| *b == 0.0) && after.iter().all(|a| *a != 0.0);
    let each = before.iter().zip(after).map(|(b, a)| a - b);
    let interval = Spread::of(each.collect()).and_then(|s| s.ci95);
    is_new || interval.is_none_or(|ci| !ci.contains(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table values; 1.998 is the one the experiments publish (64 workers).
    #[test]
    fn student_quantiles() {
        let table = [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (63, 1.998)];
        for (freedom, t) in table {
            assert!((student_t_975(freedom) - t).abs() < 6e-4, "{freedom}");
        }
    }

    /// The published interval of the per-worker mean: 79915 requests, 64 workers,
    /// standard deviation 59.2 gives 1233.9..1263.5.
    #[test]
    fn published_interval() {
        let mean = 79_915.0 / 64.0;
        let half = student_t_975(63) * 59.2 / 64f64.sqrt();
        assert!((mean - half - 1233.9).abs() < 0.06);
        assert!((mean + half - 1263.5).abs() < 0.06);
    }

    #[test]
    fn spread_of_five() {
        let spread = Spread::of(vec![2.0, 4.0, 4.0, 5.0, 10.0]).unwrap();
        assert_eq!((spread.mean, spread.median), (5.0, 4.0));
        // sd = 3, half width = 2.776445 * 3 / sqrt(5).
        let ci = spread.ci95.unwrap();
        assert!((ci.half_width() - 3.724_992).abs() < 1e-5);
        assert!(((ci.lo + ci.hi) / 2.0 - 5.0).abs() < 1e-12);
        assert_eq!(Spread::of(vec![3.0]).unwrap().ci95, None);
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_paired() {
        let spread = paired_ratio(&[10.0, 20.0, 0.0], &[5.0, 30.0, 0.0]).unwrap();
        assert_eq!(spread.per_seed, [0.5, 1.5, 1.0]);
        assert_eq!(spread.median, 1.0);
        assert_eq!(
            paired_ratio(&[0.0], &[1.0]),
            Err(PairError::ZeroBefore { index: 0 })
        );
        assert_eq!(paired_ratio(&[], &[]), Err(PairError::Empty));
        assert!(paired_ratio(&[1.0], &[])
            .unwrap_err()
            .to_string()
            .contains("same seeds"));
    }
}
