//! Jain's fairness index.

/// `(sum x)^2 / (n * sum x^2)`: 1 if all shares are equal, `1/n` if one has all.
/// `None` for no shares or only zeros.
#[must_use]
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The same from the mean and the sample standard deviation of `n` shares:
/// `1 / (1 + ((n-1)/n) * (sd/mean)^2)`. `None` if `n` or `mean` is 0.
#[must_use]
pub fn jain_from_moments(n: u64, mean: f64, sample_sd: f64) -> Option<f64> {
    if n == 0 || mean == 0.0 {
        return None;
    }
    let variation = sample_sd / mean;
    let n = n as f64;
    Some(1.0 / (1.0 + (n - 1.0) / n * variation * variation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{mean, sample_sd};
    use proptest::prelude::*;

    /// The published columns satisfy the identity with 64 workers.
    #[test]
    fn published_identity() {
        for (requests, sd, index) in [(79_915.0, 59.2, 0.99779), (82_413.0, 185.3, 0.98002)] {
            let ours = jain_from_moments(64, requests / 64.0, sd).unwrap();
            assert!((ours - index).abs() < 1e-5, "{ours}");
        }
    }

    #[test]
    fn extremes() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain_index(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[]), None);
        assert_eq!(jain_index(&[0.0]), None);
        assert_eq!(jain_from_moments(0, 1.0, 1.0), None);
    }

    proptest! {
        #[test]
        fn identity_holds(shares in prop::collection::vec(1u32..100_000, 2..100)) {
            let shares: Vec<f64> = shares.into_iter().map(f64::from).collect();
            let direct = jain_index(&shares).unwrap();
            let moments = jain_from_moments(
                shares.len() as u64, mean(&shares).unwrap(), sample_sd(&shares).unwrap(),
            ).unwrap();
            prop_assert!((direct - moments).abs() < 1e-9);
        }
    }
}
