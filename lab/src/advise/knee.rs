//! The knee of a miss-ratio curve.

/// The memory of the point that is farthest below the line from no memory, where everything misses that can, to the last
/// point: from there on more memory saves less than on the average. None: no memory saves anything.
///
/// `curve`: (memory in pages, misses / accesses), ascending.
#[must_use]
pub fn knee(curve: &[(u64, f64)]) -> Option<u64> {
    let (&(_, most), &(last, least)) = (curve.first()?, curve.last()?);
    if most <= least {
        return None;
    }
    // Both axes from 0 to 1.
    let below = |&(pages, ratio): &(u64, f64)| {
        let line = 1.0 - pages as f64 / last as f64;
        line - (ratio - least) / (most - least)
    };
    let far = |a, b| if below(b) > below(a) { b } else { a };
    curve.iter().reduce(far).map(|p| p.0)
}
