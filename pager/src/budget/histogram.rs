//! Latencies by bucket: 16 buckets an octave, so that a figure read is at most 1/16 above the truth.
//!
//! Recording is a few relaxed additions to memory that exists already: it may happen in a signal
//! handler. Percentiles are worked out when somebody reads.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets of an octave, as a power of two.
const FINE: u32 = 4;
const PER_OCTAVE: usize = 1 << FINE;
/// Longer than this many octaves (18 minutes) counts as this long.
const OCTAVES: u32 = 40;
const BUCKETS: usize = (OCTAVES - FINE + 1) as usize * PER_OCTAVE;

/// Counts of durations.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

/// Where a duration is counted. Up to 15 ns each has its own bucket.
fn bucket(ns: u64) -> usize {
    if ns < PER_OCTAVE as u64 {
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros();
    let fine = (ns >> (octave - FINE)) as usize & (PER_OCTAVE - 1);
    let at = (octave - FINE + 1) as usize * PER_OCTAVE + fine;
    at.min(BUCKETS - 1)
}

/// The longest duration of a bucket.
fn longest(bucket: usize) -> u64 {
    if bucket < PER_OCTAVE {
        return bucket as u64;
    }
    let (octave, fine) = (bucket / PER_OCTAVE - 1, bucket % PER_OCTAVE);
    (((PER_OCTAVE + fine + 1) as u64) << octave) - 1
}

impl Histogram {
    /// Counts one event that took `ns` nanoseconds.
    pub(crate) fn add(&self, ns: u64) {
        self.add_many(ns, 1);
    }

    /// Counts `n` events that took `ns` nanoseconds each.
    pub(crate) fn add_many(&self, ns: u64, n: u64) {
        self.buckets[bucket(ns)].fetch_add(n, Relaxed);
        self.sum.fetch_add(ns.saturating_mul(n), Relaxed);
        if ns > self.max.load(Relaxed) {
            self.max.fetch_max(ns, Relaxed);
        }
    }

    /// What has been counted so far. Events counted meanwhile may be in or not.
    pub(crate) fn read(&self) -> Distribution {
        let buckets: Vec<(u64, u64)> = self
            .buckets
            .iter()
            .enumerate()
            .map(|(i, n)| (longest(i), n.load(Relaxed)))
            .filter(|&(_, n)| n > 0)
            .collect();
        Distribution {
            count: buckets.iter().map(|b| b.1).sum(),
            sum_ns: self.sum.load(Relaxed),
            max_ns: self.max.load(Relaxed),
            buckets,
        }
    }
}

/// Durations of one kind of event.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Events recorded.
    pub count: u64,
    /// All of them together, nanoseconds.
    pub sum_ns: u64,
    /// The longest event, nanoseconds.
    pub max_ns: u64,
    /// Longest duration of a bucket (nanoseconds, inclusive) and its events; empty ones are left out.
    pub buckets: Vec<(u64, u64)>,
}

impl Distribution {
    /// So many thousandths of the events took at most this long, nanoseconds; at most 1/16 too much.
    /// 0 without events.
    pub fn permille(&self, permille: u64) -> u64 {
        let mut left = self.count.saturating_mul(permille).div_ceil(1000).max(1);
        for &(longest, n) in &self.buckets {
            if n >= left {
                return longest.min(self.max_ns);
            }
            left -= n;
        }
        self.max_ns
    }

    /// Half of them took at most this long.
    pub fn median_ns(&self) -> u64 {
        self.permille(500)
    }

    /// 99 % of them took at most this long.
    pub fn p99_ns(&self) -> u64 {
        self.permille(990)
    }

    /// Events that took at most `ns`, where `ns` + 1 is a power of two from 16 on.
    pub fn upto(&self, ns: u64) -> u64 {
        let below = self.buckets.iter().take_while(|b| b.0 <= ns);
        below.map(|b| b.1).sum()
    }

    /// The events since `earlier`, a reading of the same histogram. Of the longest only the bucket is
    /// known.
    pub fn since(&self, earlier: &Distribution) -> Distribution {
        let before = |ns| {
            let at = earlier.buckets.binary_search_by_key(&ns, |b| b.0);
            at.map_or(0, |i| earlier.buckets[i].1)
        };
        let buckets: Vec<(u64, u64)> = self
            .buckets
            .iter()
            .map(|&(ns, n)| (ns, n.saturating_sub(before(ns))))
            .filter(|b| b.1 > 0)
            .collect();
        Distribution {
            // Both may have come from another process, which has its own reasons.
            count: buckets.iter().fold(0, |n, b| n.saturating_add(b.1)),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            max_ns: buckets.last().map_or(0, |b| b.0.min(self.max_ns)),
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_what_is_counted_in_it(ns in 0u64..1 << 39) {
            let b = bucket(ns);
            prop_assert!(ns <= longest(b) && longest(b) <= ns + ns / 16);
            prop_assert!(b == 0 || longest(b - 1) < ns);
        }

        #[test]
        fn percentiles_are_those_of_the_sorted_list(
            mut all in prop::collection::vec(0u64..1 << 36, 1..if cfg!(miri) { 30 } else { 300 }), permille in 1u64..=1000
        ) {
            let h = Histogram::default();
            all.iter().for_each(|&ns| h.add(ns));
            all.sort_unstable();
            let exact = all[(all.len() as u64 * permille).div_ceil(1000) as usize - 1];
            let d = h.read();
            let read = d.permille(permille);
            prop_assert!(exact <= read && read <= exact + exact / 16, "{exact} {read}");
            prop_assert_eq!(d.count, all.len() as u64);
            prop_assert_eq!(d.sum_ns, all.iter().sum::<u64>());
            prop_assert_eq!(d.permille(1000), *all.last().unwrap());
            let line = (1 << 20) - 1;
            prop_assert_eq!(d.upto(line), all.iter().filter(|&&ns| ns <= line).count() as u64);
        }
    }

    #[test]
    fn what_is_too_long_counts_as_longest_and_nothing_reads_as_zero() {
        let h = Histogram::default();
        assert_eq!(h.read().p99_ns(), 0);
        h.add(u64::MAX);
        assert_eq!(h.read().buckets, [(longest(BUCKETS - 1), 1)]);
        assert_eq!(longest(BUCKETS - 1), (1 << OCTAVES) - 1);
    }

    #[test]
    fn a_difference_is_what_came_in_between() {
        let h = Histogram::default();
        h.add_many(100, 3);
        let first = h.read();
        h.add(100);
        h.add(5000);
        let d = h.read().since(&first);
        assert_eq!((d.count, d.sum_ns), (2, 5100));
        assert_eq!(d.permille(500), longest(bucket(100)));
        assert_eq!(d.max_ns, 5000);
    }
}
