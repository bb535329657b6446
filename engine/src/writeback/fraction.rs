//! Completion fractions with an exponential window: a wb's part of what its domain completed
//! lately (`docs/rules/writeback.md#limits`). Halving is lazy: a count remembers the period it was brought up to.

use crate::ids::{Nanos, Pages};

/// A count that is halved once a period.
#[derive(Clone, Debug, Default)]
pub struct Window {
    period_no: u64,
    events: u64,
}

/// Counts are kept with this many binary places, so that halving small counts loses little.
const PLACES: u32 = 16;

impl Window {
    /// Brings the count up to the period of `now`.
    fn advance(&mut self, now: Nanos, period: Nanos) {
        let period_no = now / period.max(1);
        let passed = period_no.saturating_sub(self.period_no);
        self.events = if passed > 63 {
            0
        } else {
            self.events >> passed
        };
        self.period_no = self.period_no.max(period_no);
    }

    /// Adds `pages` completions at `now`.
    pub(crate) fn add(&mut self, pages: Pages, now: Nanos, period: Nanos) {
        self.advance(now, period);
        self.events += pages << PLACES;
    }

    /// `amount` times this count's part of `whole`; 0 while nothing completed.
    pub(crate) fn share_of(
        &self,
        whole: &Window,
        amount: Pages,
        now: Nanos,
        period: Nanos,
    ) -> Pages {
        let (mut part, mut whole) = (self.clone(), whole.clone());
        part.advance(now, period);
        whole.advance(now, period);
        match whole.events {
            0 => 0,
            w => (u128::from(amount) * u128::from(part.events.min(w)) / u128::from(w)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_recent_completions() {
        let (mut a, mut b, mut all) = (Window::default(), Window::default(), Window::default());
        let p = 3_000_000_000;
        assert_eq!(a.share_of(&all, 1000, 0, p), 0);
        a.add(300, 0, p);
        all.add(300, 0, p);
        assert_eq!(a.share_of(&all, 1000, 1, p), 1000);
        b.add(100, 10, p);
        all.add(100, 10, p);
        assert_eq!(
            (a.share_of(&all, 1000, 10, p), b.share_of(&all, 1000, 10, p)),
            (750, 250)
        );
        // One period later only b completes: a 150, b 50 + 150.
        b.add(150, p, p);
        all.add(150, p, p);
        assert_eq!(
            (a.share_of(&all, 1400, p, p), b.share_of(&all, 1400, p, p)),
            (600, 800)
        );
        // After a long silence nothing is known.
        assert_eq!(a.share_of(&all, 1000, 100 * p, p), 0);
    }
}
