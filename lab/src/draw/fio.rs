//! The block tester's `zipf:theta` (`docs/reference/experiments.md#fio-mmap`).

use super::{check_outcomes, DrawError, Stream, ThresholdTable};
use std::sync::Arc;

/// Multiplier that scatters the ranks.
const SCATTER: u64 = 0x61C8_8646_80B5_83EB;

/// Draws pages of one job's file.
///
/// The tool raises a number to the power `1 / (1 - theta)` at every draw; here the
/// boundaries of the ranks are solved for once and searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FioZipf {
    /// The same for all jobs, so that it stays in the CPU's cache.
    ranks: Arc<ThresholdTable>,
    offset: u64,
}

impl FioZipf {
    /// A choice among `pages` pages with skew `theta`, for a job with its own `offset`.
    ///
    /// # Errors
    /// `pages` below 3 or above 2^32 - 1; `theta` outside 0.1..=4 or within 0.01 of 1
    /// (the formula divides by `1 - theta`).
    pub fn new(pages: u64, theta: f64, offset: u64) -> Result<Self, DrawError> {
        const WHAT: &str = "fio zipf";
        check_outcomes(WHAT, pages)?;
        if pages < 3 {
            return Err(DrawError::Outcomes {
                what: WHAT,
                n: pages,
                max: super::MAX_OUTCOMES,
            });
        }
        if !(0.1..=4.0).contains(&theta) || (theta - 1.0).abs() < 0.01 {
            return Err(DrawError::Theta {
                what: WHAT,
                theta,
                range: "0.1 to 4, at least 0.01 away from 1",
            });
        }
        let n = pages as f64;
        let mut zeta_n = 0.0;
        for rank in 1..=pages {
            zeta_n += libm::pow(rank as f64, -theta);
        }
        let zeta_2 = 1.0 + libm::pow(0.5, theta);
        let eta = (1.0 - libm::pow(2.0 / n, 1.0 - theta)) / (1.0 - zeta_2 / zeta_n);
        let mut cumulated = vec![1.0 / zeta_n, zeta_2 / zeta_n];
        for rank in 3..=pages {
            // floor(n (eta u - eta + 1)^alpha) passes rank - 1 exactly here.
            let root = libm::pow(rank as f64 / n, 1.0 - theta);
            let boundary = (root - 1.0 + eta) / eta;
            let floor = cumulated[cumulated.len() - 1];
            cumulated.push(boundary.clamp(floor, 1.0));
        }
        Ok(Self {
            ranks: ThresholdTable::from_cumulated(&cumulated)?.into(),
            offset,
        })
    }

    /// The same distribution for another job.
    #[must_use]
    pub fn with_offset(&self, offset: u64) -> Self {
        Self {
            ranks: self.ranks.clone(),
            offset,
        }
    }

    /// Draws a page number.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let rank = self.ranks.draw(stream);
        rank.wrapping_mul(SCATTER).wrapping_add(self.offset) % self.ranks.outcomes()
    }

    /// The rank table (rank 0 is the hottest).
    #[must_use]
    pub fn ranks(&self) -> &ThresholdTable {
        &self.ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of draws in the hottest quarter: 98.0 % at full size, 95.0 % for the same
    /// skew at 1/64, 98.0 % again with the scale-true skew.
    #[test]
    fn published_quarters() {
        for (pages, theta, share) in [
            (786_432, 1.2, 0.980),
            (12_288, 1.2, 0.950),
            (12_288, 1.35, 0.980),
        ] {
            let zipf = FioZipf::new(pages, theta, 0).unwrap();
            let quarter = zipf.ranks().mass_below(pages / 4);
            assert!(
                (quarter - share).abs() < 0.004,
                "{pages} {theta}: {quarter}"
            );
        }
    }

    /// The table gives what the tool's formula gives for the same fraction.
    #[test]
    fn table_agrees_with_the_formula() {
        let (n, theta) = (12_288u64, 1.2f64);
        let zipf = FioZipf::new(n, theta, 0).unwrap();
        let zeta_n: f64 = (1..=n).map(|i| (i as f64).powf(-theta)).sum();
        let zeta_2 = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta_n);
        let mut stream = Stream::new(1, "fio", 0);
        let mut different = 0;
        for _ in 0..20_000 {
            let draw = stream.bits();
            let u = draw as f64 / 18_446_744_073_709_551_616.0;
            let one_based = if u * zeta_n < 1.0 {
                1
            } else if u * zeta_n < zeta_2 {
                2
            } else {
                1 + (n as f64 * (eta * u - eta + 1.0).powf(1.0 / (1.0 - theta))) as u64
            };
            different += u32::from(zipf.ranks().at(draw) != one_based - 1);
        }
        assert!(different <= 2, "{different} of 20000 draws differ");
    }

    #[test]
    fn jobs_differ_by_their_offset_only() {
        let first = FioZipf::new(12_288, 1.35, 0).unwrap();
        let second = first.with_offset(17);
        let mut a = Stream::new(1, "fio", 0);
        let mut b = a.clone();
        for _ in 0..1000 {
            let (x, y) = (first.draw(&mut a), second.draw(&mut b));
            assert!(x < 12_288 && y < 12_288);
            assert_eq!((x + 17) % 12_288, y);
        }
        assert!(FioZipf::new(100, 1.0, 0).is_err());
        assert!(FioZipf::new(2, 1.2, 0).is_err());
    }
}
