//! Latency percentiles from an integer log-linear histogram.

use hdrhistogram::Histogram;

use super::percentile::rank_of;

/// Longest latency kept apart: an hour of virtual time. Longer ones count as this.
const NS_MAX: u64 = 3_600_000_000_000;
/// Significant decimal digits of a percentile.
const DIGITS: u8 = 3;

/// Latencies in virtual nanoseconds: exact count and mean, percentiles to 0.1 %.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram {
    histogram: Histogram<u64>,
    sum_ns: u128,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, NS_MAX, DIGITS).expect("bounds are valid"),
            sum_ns: 0,
        }
    }

    /// Counts one latency.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.sum_ns += u128::from(ns);
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("equal bounds always add");
        self.sum_ns += other.sum_ns;
    }

    /// Latencies counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Exact mean in nanoseconds; `None` if empty.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The distribution in cells of at most 1/16 of their upper end: (upper end in ns, latencies in
    /// the cell), ascending, empty cells left out.
    #[must_use]
    pub fn cells(&self) -> Vec<(u64, u64)> {
        let mut cells: Vec<(u64, u64)> = Vec::new();
        for cell in self.histogram.iter_recorded() {
            let upper = cell_end(cell.value_iterated_to());
            let count = cell.count_since_last_iteration();
            match cells.last_mut() {
                Some(last) if last.0 == upper => last.1 += count,
                _ => cells.push((upper, count)),
            }
        }
        cells
    }

    /// Nearest-rank percentile in nanoseconds (P99 is 990), as the upper end of its
    /// cell; `None` if empty.
    ///
    /// # Panics
    /// If `per_mille` is above 1000.
    #[must_use]
    pub fn percentile_ns(&self, per_mille: u32) -> Option<u64> {
        let rank = rank_of(self.count(), per_mille);
        let mut seen = 0;
        self.histogram
            .iter_recorded()
            .find(|cell| {
                seen += cell.count_since_last_iteration();
                seen >= rank
            })
            .map(|cell| cell.value_iterated_to())
    }
}

/// The upper end of the cell of a latency: its first five binary digits and then ones only.
fn cell_end(ns: u64) -> u64 {
    let rest = (u64::BITS - ns.leading_zeros()).saturating_sub(5);
    ns | ((1 << rest) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::nearest_rank;
    use proptest::prelude::*;

    #[test]
    fn empty_and_saturated() {
        let mut latency = LatencyHistogram::default();
        assert_eq!(latency.percentile_ns(500), None);
        assert_eq!(latency.mean_ns(), None);
        latency.record(0);
        latency.record(u64::MAX);
        assert_eq!(latency.count(), 2);
        assert_eq!(latency.percentile_ns(500), Some(0));
        assert!(latency.percentile_ns(1000).unwrap() >= NS_MAX);
    }

    #[test]
    fn cells_are_narrow_and_hold_everything() {
        assert_eq!([0, 31, 32, 33, 1000].map(cell_end), [0, 31, 33, 33, 1023]);
        let mut latency = LatencyHistogram::new();
        (1..=10_000).for_each(|n| latency.record(n * 1000));
        let cells = latency.cells();
        assert!(cells.len() < 220, "{}", cells.len());
        assert!(cells.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(cells.iter().map(|c| c.1).sum::<u64>(), 10_000);
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_sorting(mut values in prop::collection::vec(1u64..10_000_000_000, 1..300)) {
            let mut latency = LatencyHistogram::new();
            let mut half = LatencyHistogram::new();
            for (i, &ns) in values.iter().enumerate() {
                if i % 2 == 0 { latency.record(ns) } else { half.record(ns) }
            }
            latency.merge(&half);
            let sum: u64 = values.iter().sum();
            prop_assert_eq!(latency.mean_ns(), Some(sum as f64 / values.len() as f64));
            values.sort_unstable();
            for per_mille in [0, 500, 900, 950, 990, 1000] {
                let exact = nearest_rank(&values, per_mille).unwrap() as f64;
                let ours = latency.percentile_ns(per_mille).unwrap() as f64;
                prop_assert!(ours >= exact && ours <= exact * 1.001 + 1.0, "{} {}", ours, exact);
            }
        }
    }
}
