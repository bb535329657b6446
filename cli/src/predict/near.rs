//! Limits near the one that is asked for.

/// How far they are from it at most, as a share of it.
const FARTHEST: f64 = 0.004;

/// Limits under which a prediction is made, the one that was asked for among them: what a policy does may depend on a
/// few pages more or less.
pub(super) const LIMITS: u32 = 9;

/// So many limits about `pages`, evenly spread, itself in the middle of an odd number.
pub fn limits_near(pages: u64, count: u32) -> Vec<u64> {
    let last = f64::from(count.max(2) - 1);
    let share = |n: u32| 1.0 + FARTHEST * (2.0 * f64::from(n) / last - 1.0);
    let limit = |n| (pages as f64 * share(n)).round() as u64;
    (0..count.max(2)).map(limit).collect()
}
