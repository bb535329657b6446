//! Estimation of a wb's write bandwidth and of the rate a dirtier may keep (`docs/rules/writeback.md#throttling`).
//! Rates are pages per second, times are scheduler ticks.

use super::params::DirtyParams;
use super::position::RATIO_ONE;
use crate::ids::Pages;

/// Running estimates of one wb.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// Write bandwidth now, pages a second.
    pub bandwidth: Pages,
    /// Write bandwidth, smoothed.
    pub avg_bandwidth: Pages,
    /// Rate one dirtying task may keep at position ratio 1.0.
    pub ratelimit: Pages,
    /// Last computed balanced rate, towards which `ratelimit` moves.
    pub balanced: Pages,
    /// Tick of the last estimation.
    pub(super) stamp: u64,
    written_at_stamp: Pages,
    dirtied_at_stamp: Pages,
}

/// Counts an estimation looks at.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Now, in ticks.
    pub now: u64,
    /// Pages the wb has written since it exists.
    pub written: Pages,
    /// Pages of the wb dirtied since it exists.
    pub dirtied: Pages,
    /// Pages of the wb under writeback.
    pub in_flight: Pages,
}

/// Where the throttled domain stands; needed to estimate the ratelimit.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Position ratio, 1024 = 1.
    pub position: u64,
    /// Dirty pages are below the setpoint.
    pub below_setpoint: bool,
}

impl Estimate {
    /// Fresh estimates at the configured initial rates.
    pub fn new(params: &DirtyParams) -> Self {
        let rate = params.initial_bandwidth.max(1);
        Self {
            bandwidth: rate,
            avg_bandwidth: rate,
            ratelimit: rate,
            balanced: rate,
            stamp: 0,
            written_at_stamp: 0,
            dirtied_at_stamp: 0,
        }
    }

    /// True if the interval since the last estimation is over.
    pub fn due(&self, params: &DirtyParams, now: u64) -> bool {
        now.saturating_sub(self.stamp) >= params.ticks(params.bandwidth_interval).max(1)
    }

    /// Resets the stamps if the wb was idle; called before I/O starts.
    pub fn restart_if_idle(&mut self, params: &DirtyParams, p: &Progress) -> bool {
        let idle = p.in_flight == 0
            && p.written == self.written_at_stamp
            && p.now.saturating_sub(self.stamp) > params.ticks(params.idle_reset);
        if idle {
            self.take_stamps(p);
        }
        idle
    }

    /// Estimates bandwidth and, with `standing`, the ratelimit; takes new stamps.
    pub fn update(&mut self, params: &DirtyParams, p: &Progress, standing: Option<Standing>) {
        let elapsed = p.now.saturating_sub(self.stamp);
        if elapsed == 0 || self.restart_if_idle(params, p) {
            return;
        }
        if let Some(standing) = standing {
            let dirtied = p.dirtied - self.dirtied_at_stamp;
            self.update_ratelimit(params.hz, dirtied, elapsed, standing);
        }
        self.update_bandwidth(params, p.written - self.written_at_stamp, elapsed);
        self.take_stamps(p);
    }

    fn take_stamps(&mut self, p: &Progress) {
        self.stamp = p.now;
        self.written_at_stamp = p.written;
        self.dirtied_at_stamp = p.dirtied;
    }

    fn update_bandwidth(&mut self, params: &DirtyParams, written: Pages, elapsed: u64) {
        let period = params
            .ticks(params.bandwidth_window)
            .max(1)
            .next_power_of_two();
        let made = u128::from(written) * u128::from(params.hz);
        if elapsed > period {
            self.bandwidth = (made / u128::from(elapsed)) as u64;
            self.avg_bandwidth = self.bandwidth.max(1);
            return;
        }
        let old = self.bandwidth;
        let kept = u128::from(old) * u128::from(period - elapsed);
        let new = ((made + kept) >> period.ilog2()) as u64;
        // The average follows only where two samples agree on the direction.
        if self.avg_bandwidth > old && old >= new {
            self.avg_bandwidth -= (self.avg_bandwidth - old) >> 3;
        } else if self.avg_bandwidth < old && old <= new {
            self.avg_bandwidth += (old - self.avg_bandwidth) >> 3;
        }
        self.bandwidth = new;
        self.avg_bandwidth = self.avg_bandwidth.max(1);
    }

    fn update_ratelimit(&mut self, hz: u64, dirtied: Pages, elapsed: u64, s: Standing) {
        let dirty_rate = (u128::from(dirtied) * u128::from(hz) / u128::from(elapsed)) as u64;
        let task = self.ratelimit.saturating_mul(s.position) / RATIO_ONE + 1;
        let balanced =
            u128::from(task) * u128::from(self.avg_bandwidth) / u128::from(dirty_rate | 1);
        let balanced = balanced.min(u128::from(self.avg_bandwidth)) as u64;
        let old = self.ratelimit;
        let step = if s.below_setpoint {
            self.balanced.min(balanced).min(task).saturating_sub(old)
        } else {
            old.saturating_sub(self.balanced.max(balanced).max(task))
        };
        let shift = old / (2 * step + 1);
        let step = if shift < 64 {
            (step >> shift).div_ceil(8)
        } else {
            0
        };
        let moved = if old < balanced {
            old + step
        } else {
            old.saturating_sub(step)
        };
        self.ratelimit = moved.max(1);
        self.balanced = balanced;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writeback::position::domain_ratio;

    #[test]
    fn r4_bandwidth() {
        let p = DirtyParams::default();
        let after = |e: &mut Estimate, now, written| {
            let progress = Progress {
                now,
                written,
                dirtied: 0,
                in_flight: 1,
            };
            e.update(&p, &progress, None);
            (e.bandwidth, e.avg_bandwidth)
        };
        let mut e = Estimate::new(&p);
        assert_eq!(after(&mut e, 200, 5120), (25_600, 25_600));
        let mut e = Estimate::new(&p);
        assert_eq!(after(&mut e, 200, 10_240), (26_850, 25_600));
        assert_eq!(after(&mut e, 400, 20_480), (28_038, 25_756));
    }

    #[test]
    fn long_gaps_are_averaged_plainly_and_idleness_is_skipped() {
        let p = DirtyParams::default();
        let mut e = Estimate::new(&p);
        let idle = Progress {
            now: 9000,
            written: 0,
            dirtied: 50,
            in_flight: 0,
        };
        e.update(&p, &idle, None);
        assert_eq!((e.bandwidth, e.stamp), (25_600, 9000));
        let busy = Progress {
            now: 14_000,
            written: 5000,
            dirtied: 50,
            in_flight: 3,
        };
        e.update(&p, &busy, None);
        assert_eq!((e.bandwidth, e.avg_bandwidth), (1000, 1000));
        let stalled = Progress {
            now: 24_000,
            ..busy
        };
        e.update(&p, &stalled, None);
        assert_eq!((e.bandwidth, e.avg_bandwidth), (0, 1));
    }

    #[test]
    fn ratelimit_converges_on_the_fair_share() {
        // Four tasks, each dirtying at ratelimit x position, on a device that writes 1024 pages a
        // second: each must end near 256, with the dirty pages between freerun and limit.
        let p = DirtyParams {
            initial_bandwidth: 1024,
            ..DirtyParams::default()
        };
        let (setpoint, limit) = (6000, 7000);
        let mut e = Estimate::new(&p);
        let (mut now, mut written, mut dirtied) = (0, 0, 5000);
        let mut rate = 0;
        for _ in 0..600 {
            now += 200;
            let dirty = dirtied - written;
            let position = domain_ratio(setpoint, limit, dirty);
            rate = (e.ratelimit * position) >> 10;
            written += 1024 / 5;
            dirtied += 4 * rate / 5;
            let s = Standing {
                position,
                below_setpoint: dirty < setpoint,
            };
            e.update(
                &p,
                &Progress {
                    now,
                    written,
                    dirtied,
                    in_flight: 9,
                },
                Some(s),
            );
        }
        assert!((240..=272).contains(&rate), "{rate}");
        assert!(
            (5000..7000).contains(&(dirtied - written)),
            "{}",
            dirtied - written
        );
        assert!(e.ratelimit < 400, "{}", e.ratelimit);
    }

    #[test]
    fn ratelimit_step() {
        // ratelimit 25600, dirty rate 51200, position 1.0 at the setpoint: balanced 12800,
        // step 25600 - max(12800, 25600 old, 25601) = 0, then 25600 - 25601 -> 0 again; with a
        // position of 1/2: task 12801, balanced 6400, old balanced 12800 -> step 12799.
        let p = DirtyParams::default();
        let mut e = Estimate::new(&p);
        let at = |e: &mut Estimate, now, dirtied, position| {
            let pr = Progress {
                now,
                written: now * 26,
                dirtied,
                in_flight: 1,
            };
            e.avg_bandwidth = 25_600;
            e.update(
                &p,
                &pr,
                Some(Standing {
                    position,
                    below_setpoint: false,
                }),
            );
            e.ratelimit
        };
        assert_eq!(at(&mut e, 200, 10_240, 1024), 25_600);
        assert_eq!(e.balanced, 12_800);
        // shift 25600/25599 = 1, (12799 >> 1)/8 rounded up = 800.
        assert_eq!(at(&mut e, 400, 20_480, 512), 24_800);
        assert_eq!(e.balanced, 6400);
    }
}
