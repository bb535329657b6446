//! Epochs: time in units of the decay interval.

use crate::ids::Nanos;

/// Least automatic interval at full scale, ns.
pub const AUTO_MIN: Nanos = 250_000_000;
/// Greatest automatic interval at full scale, ns.
pub const AUTO_MAX: Nanos = 30_000_000_000;
/// Weight of the newest gap between reclaims: one in this many.
const GAP_WEIGHT: i64 = 8;

/// Counts epochs. With a fixed interval the epoch is `floor(now / interval)`; an automatic interval
/// changes at the border of an epoch only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct EpochClock {
    interval: Nanos,
    auto: Option<u64>,
    base_epoch: u64,
    base_time: Nanos,
    last_call: Option<Nanos>,
    /// Mean time between global reclaims, ns.
    gap: Nanos,
}

impl EpochClock {
    /// A fixed interval, or with 0 an automatic one whose bounds are divided by `time_scale`.
    pub fn new(interval: Nanos, time_scale: u64) -> Self {
        let scale = time_scale.max(1);
        let auto = (interval == 0).then_some(scale);
        let interval = match auto {
            Some(scale) => (1_000_000_000 / scale).max(1),
            None => interval,
        };
        Self {
            interval,
            auto,
            base_epoch: 0,
            base_time: 0,
            last_call: None,
            gap: interval / 4,
        }
    }

    /// The present interval, ns.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// The epoch at a time. Times before the last change of the interval count as that moment.
    #[inline]
    pub fn epoch(&self, now: Nanos) -> u64 {
        self.base_epoch + now.saturating_sub(self.base_time) / self.interval
    }

    /// A global reclaim begins: the automatic interval learns from it.
    pub fn reclaim_begins(&mut self, now: Nanos) {
        let Some(scale) = self.auto else { return };
        if let Some(last) = self.last_call {
            let step = (now.saturating_sub(last) as i64 - self.gap as i64) / GAP_WEIGHT;
            self.gap = self.gap.saturating_add_signed(step);
        }
        self.last_call = Some(now);
        let epoch = self.epoch(now);
        if epoch == self.base_epoch {
            return;
        }
        self.base_time += (epoch - self.base_epoch) * self.interval;
        self.base_epoch = epoch;
        let (min, max) = ((AUTO_MIN / scale).max(1), (AUTO_MAX / scale).max(1));
        self.interval = (4 * self.gap).clamp(min, max);
    }
}
