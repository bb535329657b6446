//! Position ratio: how hard to throttle, from where the dirty amount stands between freerun and
//! limit (`docs/rules/writeback.md#throttling`). Fixed point, 1024 = 1.0.

use crate::ids::Pages;

/// 1.0 of the position ratio.
pub const RATIO_ONE: u64 = 1024;

/// What [`position_ratio`] looks at; pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Threshold of the domain.
    pub thresh: Pages,
    /// Hard limit of the domain.
    pub limit: Pages,
    /// Middle between freerun and limit.
    pub setpoint: Pages,
    /// Dirty pages of the domain.
    pub dirty: Pages,
    /// The wb's share of `thresh`.
    pub wb_thresh: Pages,
    /// Dirty pages of the wb.
    pub wb_dirty: Pages,
    /// Pages the wb writes in the span time (8 s of its average bandwidth by default).
    pub span_pages: Pages,
}

/// The domain's part: a cubic that falls from 2.0 at freerun over 1.0 at the setpoint to 0 at the
/// limit.
pub fn domain_ratio(setpoint: Pages, limit: Pages, dirty: Pages) -> u64 {
    if dirty >= limit {
        return 0;
    }
    let x = ((setpoint as i128 - dirty as i128) << 10) / ((limit as i128 - setpoint as i128) | 1);
    // Beyond 2^10 the result is clamped anyway; bounding x keeps its cube in range.
    let x = x.clamp(-(1 << 20), 1 << 20);
    // Arithmetic shifts: they round towards minus infinity.
    let p = 1024 + ((((x * x) >> 10) * x) >> 10);
    p.clamp(0, 2048) as u64
}

/// Position ratio of one wb in one domain, 0 (stop) to about 8 times 2048.
pub fn position_ratio(p: &Position) -> u64 {
    if p.dirty >= p.limit {
        return 0;
    }
    let mut ratio = u128::from(domain_ratio(p.setpoint, p.limit, p.dirty));
    let floor = (p.limit - p.dirty) / 8;
    let wt = u128::from(p.wb_thresh.max(floor).min(p.thresh));
    let thresh = u128::from(p.thresh);
    let wb_dirty = u128::from(p.wb_dirty);
    let k = (wt << 16) / (thresh | 1);
    let wset = (u128::from(p.setpoint) * k) >> 16;
    let span = ((thresh - wt + u128::from(p.span_pages)) * k) >> 16;
    let intercept = wset + span;
    if wb_dirty < intercept - span / 4 {
        ratio = ratio * (intercept - wb_dirty) / ((intercept - wset) | 1);
    } else {
        ratio /= 4;
    }
    // A wb that runs dry is let off more and more.
    let reserve = wt / 2;
    if wb_dirty < reserve {
        ratio = if wb_dirty > reserve / 8 {
            ratio * reserve / wb_dirty
        } else {
            ratio * 8
        };
    }
    ratio as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETPOINT: Pages = 27_113;
    const LIMIT: Pages = 30_992;

    #[test]
    fn r2_domain_ratio() {
        let p = |dirty| domain_ratio(SETPOINT, LIMIT, dirty);
        assert_eq!(p(23_234), 2048);
        assert_eq!(p(25_174), 1151);
        assert_eq!(p(27_113), 1024);
        assert_eq!(p(29_052), 896);
        assert_eq!(p(30_991), 2);
        assert_eq!(p(30_992), 0);
    }

    #[test]
    fn r3_single_device() {
        let p = |dirty| {
            position_ratio(&Position {
                thresh: LIMIT,
                limit: LIMIT,
                setpoint: SETPOINT,
                dirty,
                wb_thresh: LIMIT,
                wb_dirty: dirty,
                span_pages: 8 * 25_600,
            })
        };
        assert_eq!(p(27_113), 1023);
        assert_eq!(p(29_052), 887);
    }

    #[test]
    fn a_dry_wb_is_let_off() {
        let base = Position {
            thresh: 1000,
            limit: 1000,
            setpoint: 900,
            dirty: 900,
            wb_thresh: 500,
            wb_dirty: 250,
            span_pages: 800,
        };
        let at = |wb_dirty| position_ratio(&Position { wb_dirty, ..base });
        assert!(at(125) > at(250));
        assert_eq!(at(0), 1024 * (449 + 649) / 649 * 8);
    }

    proptest! {
        #[test]
        fn more_dirty_never_means_faster(
            thresh in 1u64..1 << 40, a in 0u64..1 << 41, b in 0u64..1 << 41,
        ) {
            let setpoint = thresh - thresh / 8;
            let (lo, hi) = (a.min(b), a.max(b));
            prop_assert!(domain_ratio(setpoint, thresh, hi) <= domain_ratio(setpoint, thresh, lo));
        }

        #[test]
        fn ratio_is_bounded(
            thresh in 0u64..1 << 40, excess in 0u64..1 << 40, dirty in 0u64..1 << 41,
            wb_thresh in 0u64..1 << 41, wb_dirty in 0u64..1 << 41, span_pages in 0u64..1 << 30,
        ) {
            let limit = thresh + excess;
            let p = position_ratio(&Position {
                thresh, limit, setpoint: limit - limit / 8, dirty, wb_thresh, wb_dirty, span_pages,
            });
            prop_assert!(dirty < limit || p == 0);
        }
    }
}
