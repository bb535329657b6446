//! Thresholds and interval.

use crate::config::Config;
use crate::ids::Nanos;
use crate::memcg::error::MemcgError;
use crate::switches::{HeatLevelsBy, HeatRule, MemcgHeat, Switches};

/// Buckets of the ring. Heat is smaller, so that each value has a bucket of its own.
pub const RING: usize = 16;

/// How hot, in three steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum HeatLevel {
    /// First to give.
    Cold,
    /// Reclaimed when the cold ones give too little.
    Warm,
    /// Reclaimed last.
    Hot,
}

impl HeatLevel {
    /// The next hotter level.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Cold => Some(Self::Warm),
            Self::Warm => Some(Self::Hot),
            Self::Hot => None,
        }
    }
}

/// Where levels begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct HeatLevels {
    warm: u8,
    hot: u8,
    max: u8,
}

impl Default for HeatLevels {
    fn default() -> Self {
        Self {
            warm: 4,
            hot: 8,
            max: 12,
        }
    }
}

impl HeatLevels {
    /// Warm from `warm`, hot from `hot`, never above `max`.
    ///
    /// # Errors
    /// Unless `1 <= warm <= hot <= max <= 15`.
    pub fn new(warm: u64, hot: u64, max: u64) -> Result<Self, MemcgError> {
        let bad = |field, value, allowed| {
            Err(MemcgError::Config {
                field,
                value,
                allowed,
            })
        };
        if max == 0 || max >= RING as u64 {
            return bad("heat_max", max, "1 to 15");
        }
        if hot == 0 || hot > max {
            return bad("heat_hot", hot, "1 to heat_max");
        }
        if warm == 0 || warm > hot {
            return bad("heat_warm", warm, "1 to heat_hot");
        }
        Ok(Self {
            warm: warm as u8,
            hot: hot as u8,
            max: max as u8,
        })
    }

    /// Heat above which nothing rises.
    pub fn max(&self) -> u8 {
        self.max
    }

    /// Level of a heat.
    pub fn level(&self, heat: u8) -> HeatLevel {
        match heat {
            h if h >= self.hot => HeatLevel::Hot,
            h if h >= self.warm => HeatLevel::Warm,
            _ => HeatLevel::Cold,
        }
    }

    /// Greatest heat that belongs to a level or a colder one.
    pub fn bound(&self, level: HeatLevel) -> u8 {
        match level {
            HeatLevel::Cold => self.warm - 1,
            HeatLevel::Warm => self.hot - 1,
            HeatLevel::Hot => self.max,
        }
    }
}

/// Settings of either design.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct HeatConfig {
    /// Where warm and hot begin.
    pub levels: HeatLevels,
    /// Time in which heat falls by one, ns; 0 = from the time between reclaims (wheel only).
    pub interval: Nanos,
    /// Scale: the bounds of the automatic interval are divided by it.
    pub time_scale: u64,
    /// Wheel: compare a memcg with the mean of its node instead of with fixed shares.
    pub relative: bool,
    /// Wheel: levels hold a third of the memcgs each, whatever their heat.
    pub quantile: bool,
}

impl Default for HeatConfig {
    fn default() -> Self {
        Self {
            levels: HeatLevels::default(),
            interval: 1_000_000_000,
            time_scale: 1,
            relative: true,
            quantile: false,
        }
    }
}

impl HeatConfig {
    /// Settings of heat as the switches have them.
    ///
    /// # Errors
    /// Levels out of order, or no decay interval where one is needed.
    pub(crate) fn of(cfg: &Config, sw: &Switches) -> Result<HeatConfig, MemcgError> {
        let bad = |field, allowed| {
            Err(MemcgError::Config {
                field,
                value: 0,
                allowed,
            })
        };
        if cfg.time_scale == 0 {
            return bad("time_scale", "1 or more");
        }
        if sw.heat_interval_ms == 0 && sw.memcg_heat == MemcgHeat::Posted {
            return bad("heat_interval_ms", "1 or more (0 is for memcg_heat=wheel)");
        }
        let interval = sw.heat_interval_ms.saturating_mul(1_000_000) / cfg.time_scale;
        let fixed = u64::from(sw.heat_interval_ms > 0);
        Ok(HeatConfig {
            levels: HeatLevels::new(sw.heat_warm, sw.heat_hot, sw.heat_max)?,
            interval: interval.max(fixed),
            time_scale: cfg.time_scale,
            relative: sw.heat_rule == HeatRule::Relative,
            quantile: sw.heat_levels == HeatLevelsBy::Quantile,
        })
    }
}
