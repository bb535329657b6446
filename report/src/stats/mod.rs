//! Statistics over seeds, workers and requests (`docs/reference/counters.md`).

mod buckets;
mod jain;
mod latency;
mod percentile;
mod summary;

pub use buckets::BucketHistogram;
pub use jain::{jain_from_moments, jain_index};
pub use latency::LatencyHistogram;
pub use percentile::nearest_rank;
pub use summary::{
    differs_from_nothing, mean, median, paired_ratio, sample_sd, student_t_975, Interval,
    PairError, Spread,
};
