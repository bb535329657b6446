//! Requests by duration, in the published buckets.

/// Upper edges in seconds at full scale; the last bucket is open.
const EDGES_S: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const BUCKETS: usize = EDGES_S.len() + 1;
const NS_PER_S: u128 = 1_000_000_000;

/// Counts of requests in `[0,1) [1,2) [2,4) .. [64,128) [128,inf)` seconds.
///
/// At a reduced scale the edges shrink with the pages of a request, the labels stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketHistogram {
    edges_ns: [u64; BUCKETS - 1],
    counts: [u64; BUCKETS],
}

impl BucketHistogram {
    /// Empty, with edges of `numerator / denominator` of the labels (1/1 = full scale).
    ///
    /// # Panics
    /// If the scale is 0 or above 1.
    #[must_use]
    pub fn new(numerator: u32, denominator: u32) -> Self {
        assert!(
            numerator > 0 && numerator <= denominator,
            "bucket scale {numerator}/{denominator}"
        );
        let edge =
            |s| (u128::from(s) * NS_PER_S * u128::from(numerator) / u128::from(denominator)) as u64;
        Self {
            edges_ns: EDGES_S.map(edge),
            counts: [0; BUCKETS],
        }
    }

    /// Counts a request that took `ns`.
    pub fn record(&mut self, ns: u64) {
        let bucket = self.edges_ns.partition_point(|&edge| edge <= ns);
        self.counts[bucket] += 1;
    }

    /// Counts a failed request: it belongs to the open bucket.
    pub fn record_error(&mut self) {
        self.counts[BUCKETS - 1] += 1;
    }

    /// Adds another histogram of the same scale.
    ///
    /// # Panics
    /// If the scales differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.edges_ns, other.edges_ns, "histograms of two scales");
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }

    /// All requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Label (full-scale seconds) and count of every bucket, fastest first.
    pub fn buckets(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        (0..BUCKETS).map(|i| (label(i), self.counts[i]))
    }

    /// Share of the requests in a bucket, 0 if there are none.
    ///
    /// # Panics
    /// If there is no such bucket.
    #[must_use]
    pub fn share(&self, bucket: usize) -> f64 {
        match self.total() {
            0 => 0.0,
            total => self.counts[bucket] as f64 / total as f64,
        }
    }
}

fn label(bucket: usize) -> String {
    let lo = bucket.checked_sub(1).map_or(0, |i| EDGES_S[i]);
    match EDGES_S.get(bucket) {
        Some(hi) => format!("[{lo},{hi}) s"),
        None => format!("[{lo},inf) s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_half_open_and_scale() {
        let second = 1_000_000_000u64;
        for (num, den) in [(1, 1), (1, 64)] {
            let unit = second * u64::from(num) / u64::from(den);
            let mut histogram = BucketHistogram::new(num, den);
            for ns in [
                0,
                unit - 1,
                unit,
                2 * unit - 1,
                2 * unit,
                127 * unit,
                128 * unit,
            ] {
                histogram.record(ns);
            }
            histogram.record_error();
            let counts: Vec<u64> = histogram.buckets().map(|(_, n)| n).collect();
            assert_eq!(counts, [2, 2, 1, 0, 0, 0, 0, 1, 2]);
            assert_eq!(histogram.share(0), 0.25);
        }
    }

    #[test]
    fn labels_and_merge() {
        let mut histogram = BucketHistogram::new(1, 1);
        histogram.merge(&histogram.clone());
        assert_eq!(histogram.share(3), 0.0);
        let mut other = histogram.clone();
        other.record(5_000_000_000);
        histogram.merge(&other);
        histogram.merge(&other);
        assert_eq!(histogram.total(), 2);
        let labels: Vec<String> = histogram.buckets().map(|(label, _)| label).collect();
        assert_eq!(labels[0], "[0,1) s");
        assert_eq!(labels[3], "[4,8) s");
        assert_eq!(labels[8], "[128,inf) s");
    }
}
