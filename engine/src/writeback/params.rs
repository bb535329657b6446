//! Settings of dirty throttling and of the flushers (`docs/rules/writeback.md`).
//!
//! Every time constant is a field, because a scaled-down experiment shrinks virtual time with its
//! operation counts (`docs/reference/experiments.md`): see [`DirtyParams::scaled`].

use crate::ids::{Nanos, Pages, PAGE_SIZE};
use serde::Serialize;

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

const MS: Nanos = 1_000_000;
const SEC: Nanos = NANOS_PER_SEC;

/// A setting that cannot work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DirtyParamError {
    /// `hz` is outside 1..=1_000_000_000.
    #[error("hz is {0}: give a tick rate between 1 and 1000000000 ticks a second")]
    Hz(u64),
    /// A percentage above 100.
    #[error("{name} is {value} %: give a percentage between 0 and 100")]
    Percent {
        /// Name of the setting.
        name: &'static str,
        /// What it was set to.
        value: u64,
    },
    /// A byte threshold of zero.
    #[error("{0} is 0 bytes: give an amount above 0, or a percentage")]
    ZeroBytes(&'static str),
    /// No CPUs.
    #[error("cpus is 0: give the number of CPUs of the machine, at least 1")]
    Cpus,
    /// A scale of zero.
    #[error("time scale {0}/{1}: give two numbers above 0")]
    Scale(u64, u64),
    /// A time constant that must not be zero.
    #[error("{0} is 0 ns: give a time above 0")]
    ZeroTime(&'static str),
}

/// A dirty threshold: a share of dirtyable memory, or an amount. One setting excludes the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// The *_ratio setting: percent of dirtyable memory.
    Percent(u64),
    /// The *_bytes setting.
    Bytes(u64),
}

impl Threshold {
    /// Pages of the whole machine, of which `avail` are dirtyable.
    pub fn global_pages(self, avail: Pages) -> Pages {
        match self {
            Self::Percent(p) => (u128::from(p * 4096 / 100) * u128::from(avail) / 4096) as u64,
            Self::Bytes(b) => b.div_ceil(PAGE_SIZE),
        }
    }

    /// Pages of a node with `avail` dirtyable pages, of `global_avail` of the whole machine.
    pub fn node_pages(self, avail: Pages, global_avail: Pages) -> Pages {
        match self {
            Self::Percent(_) => self.global_pages(avail),
            Self::Bytes(_) => {
                let part = u128::from(self.global_pages(0)) * u128::from(avail);
                (part / u128::from(global_avail.max(1))) as u64
            }
        }
    }

    /// Pages of a memcg with `avail` dirtyable pages; an amount is converted by the machine's
    /// `global_avail`.
    pub fn memcg_pages(self, avail: Pages, global_avail: Pages) -> Pages {
        let ratio = match self {
            Self::Percent(p) => p * 4096 / 100,
            Self::Bytes(b) => b.div_ceil(global_avail.max(1)).min(4096),
        };
        (u128::from(ratio) * u128::from(avail) / 4096) as u64
    }

    fn validate(self, name: &'static str) -> Result<(), DirtyParamError> {
        match self {
            Self::Percent(value) if value > 100 => Err(DirtyParamError::Percent { name, value }),
            Self::Bytes(0) => Err(DirtyParamError::ZeroBytes(name)),
            _ => Ok(()),
        }
    }
}

/// Settings of dirty throttling and flushers. Times are nanoseconds, sizes pages or bytes as named.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DirtyParams {
    /// Scheduler ticks per second; pauses are whole ticks.
    pub hz: u64,
    /// CPUs of the machine: per-CPU dirty counters and their error bound.
    pub cpus: u32,
    /// dirty_ratio (20 %) or dirty_bytes: where dirtiers are throttled.
    pub dirty: Threshold,
    /// dirty_background_ratio (10 %) or dirty_background_bytes: where flushers start.
    pub background: Threshold,
    /// Period of the periodic flush; 0 switches it off (5 s).
    pub dirty_writeback: Nanos,
    /// Age at which the periodic flush writes an inode (30 s).
    pub dirty_expire: Nanos,
    /// Delay between disk I/O and a complete flush in laptop mode; 0 = off.
    pub laptop_mode: Nanos,
    /// Longest sleep of a dirtier (200 ms).
    pub max_pause: Nanos,
    /// Shortest useful sleep before the bandwidth correction (10 ms, HZ/100).
    pub base_pause: Nanos,
    /// Sleep added per halving of the task rate below the device bandwidth, times 1024 (10 s).
    pub pause_slope: Nanos,
    /// Think time above which a task's credit is forgotten (1 s).
    pub pause_reset: Nanos,
    /// Cadence of bandwidth, ratelimit and limit tracking (200 ms).
    pub bandwidth_interval: Nanos,
    /// Window of the bandwidth average, before rounding to a power of two of ticks (3 s).
    pub bandwidth_window: Nanos,
    /// Half-life of the completion fractions (3 s).
    pub completion_period: Nanos,
    /// Idle time after which bandwidth stamps are reset (1 s).
    pub idle_reset: Nanos,
    /// Bandwidth-time in the span of the device position line (8 s).
    pub position_span: Nanos,
    /// Share of a second's bandwidth in one slice of one inode (500 ms).
    pub slice_time: Nanos,
    /// Longest time a flusher works before it checks for other work (100 ms).
    pub yield_interval: Nanos,
    /// Least time between refreshes of one foreign-dirty record (1 s).
    pub foreign_refresh: Nanos,
    /// Age at which a foreign-dirty record is dropped (30 s).
    pub foreign_expire: Nanos,
    /// Rounding unit and least size of a slice (1024 pages, 4 MiB). Memory size, not a time.
    pub slice_unit: Pages,
    /// Initial write bandwidth and task ratelimit, pages per second (25600, 100 MiB/s).
    pub initial_bandwidth: Pages,
}

impl Default for DirtyParams {
    fn default() -> Self {
        Self {
            hz: 1000,
            cpus: 1,
            dirty: Threshold::Percent(20),
            background: Threshold::Percent(10),
            dirty_writeback: 5 * SEC,
            dirty_expire: 30 * SEC,
            laptop_mode: 0,
            max_pause: 200 * MS,
            base_pause: 10 * MS,
            pause_slope: 10 * SEC,
            pause_reset: SEC,
            bandwidth_interval: 200 * MS,
            bandwidth_window: 3 * SEC,
            completion_period: 3 * SEC,
            idle_reset: SEC,
            position_span: 8 * SEC,
            slice_time: 500 * MS,
            yield_interval: 100 * MS,
            foreign_refresh: SEC,
            foreign_expire: 30 * SEC,
            slice_unit: 1024,
            initial_bandwidth: 25600,
        }
    }
}

impl DirtyParams {
    /// All time constants times `numerator / denominator` (`docs/reference/experiments.md`). Sizes, rates and
    /// `hz` stay: raise `hz` by the inverse to keep the number of ticks in each constant.
    /// A constant that is not 0 stays at least 1 ns.
    pub fn scaled(&self, numerator: u64, denominator: u64) -> Result<Self, DirtyParamError> {
        if numerator == 0 || denominator == 0 {
            return Err(DirtyParamError::Scale(numerator, denominator));
        }
        let mut p = self.clone();
        for (_, t) in p.times_mut() {
            if *t != 0 {
                let v = u128::from(*t) * u128::from(numerator) / u128::from(denominator);
                *t = u64::try_from(v).unwrap_or(u64::MAX).max(1);
            }
        }
        Ok(p)
    }

    /// Checks that the settings can work together.
    pub fn validate(&self) -> Result<(), DirtyParamError> {
        if self.hz == 0 || self.hz > NANOS_PER_SEC {
            return Err(DirtyParamError::Hz(self.hz));
        }
        if self.cpus == 0 {
            return Err(DirtyParamError::Cpus);
        }
        self.dirty.validate("dirty")?;
        self.background.validate("background")?;
        for (name, t) in self.clone().times_mut() {
            if *t == 0 && name != "dirty_writeback" && name != "laptop_mode" {
                return Err(DirtyParamError::ZeroTime(name));
            }
        }
        Ok(())
    }

    fn times_mut(&mut self) -> [(&'static str, &mut Nanos); 16] {
        [
            ("dirty_writeback", &mut self.dirty_writeback),
            ("dirty_expire", &mut self.dirty_expire),
            ("laptop_mode", &mut self.laptop_mode),
            ("max_pause", &mut self.max_pause),
            ("base_pause", &mut self.base_pause),
            ("pause_slope", &mut self.pause_slope),
            ("pause_reset", &mut self.pause_reset),
            ("bandwidth_interval", &mut self.bandwidth_interval),
            ("bandwidth_window", &mut self.bandwidth_window),
            ("completion_period", &mut self.completion_period),
            ("idle_reset", &mut self.idle_reset),
            ("position_span", &mut self.position_span),
            ("slice_time", &mut self.slice_time),
            ("yield_interval", &mut self.yield_interval),
            ("foreign_refresh", &mut self.foreign_refresh),
            ("foreign_expire", &mut self.foreign_expire),
        ]
    }

    /// Whole ticks in `t` nanoseconds.
    pub fn ticks(&self, t: Nanos) -> u64 {
        (u128::from(t) * u128::from(self.hz) / u128::from(NANOS_PER_SEC)) as u64
    }

    /// Pages that a rate of `per_sec` pages per second makes in `t`.
    pub(crate) fn pages_in(&self, per_sec: Pages, t: Nanos) -> Pages {
        (u128::from(per_sec) * u128::from(t) / u128::from(NANOS_PER_SEC)) as u64
    }

    /// Bound on the error of a wb's per-CPU counters, pages (`docs/rules/writeback.md#limits`).
    pub fn wb_stat_error(&self) -> Pages {
        let cpus = u64::from(self.cpus.max(1));
        cpus * 8 * (1 + u64::from(cpus.ilog2()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds() {
        assert_eq!(Threshold::Percent(20).global_pages(155_001), 30_992);
        assert_eq!(Threshold::Bytes(4097).global_pages(155_001), 2);
        assert_eq!(Threshold::Percent(10).node_pages(4000, 9000), 399);
        assert_eq!(Threshold::Bytes(400 * 4096).node_pages(3000, 8000), 150);
        assert_eq!(Threshold::Bytes(4097).memcg_pages(8192, 4096), 2 * 2);
        assert_eq!(Threshold::Bytes(1 << 40).memcg_pages(100, 4096), 100);
    }

    #[test]
    fn scaling_touches_times_only() {
        let p = DirtyParams {
            laptop_mode: 3,
            ..DirtyParams::default()
        };
        let s = p.scaled(1, 64).unwrap();
        assert_eq!(s.dirty_writeback, 78_125_000);
        assert_eq!(s.max_pause, 3_125_000);
        assert_eq!(s.laptop_mode, 1, "never rounded to off");
        assert_eq!(
            (s.hz, s.initial_bandwidth, s.slice_unit),
            (1000, 25600, 1024)
        );
        assert_eq!(s.ticks(s.max_pause), 3);
        assert!(p.scaled(0, 1).is_err());
    }

    #[test]
    fn bad_settings_are_named() {
        let p = DirtyParams {
            hz: 0,
            ..DirtyParams::default()
        };
        assert_eq!(p.validate(), Err(DirtyParamError::Hz(0)));
        let p = DirtyParams {
            bandwidth_window: 0,
            ..DirtyParams::default()
        };
        assert_eq!(
            p.validate(),
            Err(DirtyParamError::ZeroTime("bandwidth_window"))
        );
        let p = DirtyParams {
            dirty_writeback: 0,
            ..DirtyParams::default()
        };
        assert_eq!(p.validate(), Ok(()));
        let p = DirtyParams {
            dirty: Threshold::Percent(101),
            ..DirtyParams::default()
        };
        assert!(p
            .validate()
            .unwrap_err()
            .to_string()
            .starts_with("dirty is 101 %"));
        let p = DirtyParams {
            background: Threshold::Bytes(0),
            ..DirtyParams::default()
        };
        assert_eq!(p.validate(), Err(DirtyParamError::ZeroBytes("background")));
    }

    #[test]
    fn stat_error_grows_with_cpus() {
        let of = |cpus| {
            DirtyParams {
                cpus,
                ..DirtyParams::default()
            }
            .wb_stat_error()
        };
        assert_eq!((of(1), of(2), of(8)), (8, 32, 256));
    }
}
