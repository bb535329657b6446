//! Nearest-rank percentiles.

/// The value of rank `ceil(per_mille * n / 1000)` (at least 1) of ascending values:
/// P95 is `per_mille = 950`. `None` for no values.
///
/// # Panics
/// If `per_mille` is above 1000.
#[must_use]
pub fn nearest_rank<T: Copy>(ascending: &[T], per_mille: u32) -> Option<T> {
    let rank = rank_of(ascending.len() as u64, per_mille);
    ascending.get(rank.checked_sub(1)? as usize).copied()
}

/// One-based rank among `n` values; 0 if there are none.
pub(super) fn rank_of(n: u64, per_mille: u32) -> u64 {
    assert!(per_mille <= 1000, "percentile of {per_mille} per mille");
    let rank = (u128::from(n) * u128::from(per_mille)).div_ceil(1000) as u64;
    rank.clamp(n.min(1), n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_ranks() {
        let values = [15, 20, 35, 40, 50];
        let expected = [
            (50, 15),
            (300, 20),
            (400, 20),
            (500, 35),
            (1000, 50),
            (0, 15),
        ];
        for (per_mille, value) in expected {
            assert_eq!(nearest_rank(&values, per_mille), Some(value));
        }
        assert_eq!(nearest_rank::<u64>(&[], 500), None);
    }
}
