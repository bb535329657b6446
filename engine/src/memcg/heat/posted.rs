//! Heat as posted (`docs/rules/heat.md#as-posted`): one step of decay a call, however long ago the last one was.

use super::config::{HeatConfig, HeatLevel};
use super::rules::{adjusted, posted_delta, refault_rule};
use super::visit::VisitStats;
use crate::ids::Nanos;

/// Heat of one (memcg, node).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct PostedHeat {
    heat: u8,
    last_decay: Nanos,
    last_refault: i64,
}

impl PostedHeat {
    /// Cold, as of its creation.
    pub fn new(now: Nanos) -> Self {
        Self {
            heat: 0,
            last_decay: now,
            last_refault: 0,
        }
    }

    /// As of the last call.
    pub fn heat(&self) -> u8 {
        self.heat
    }

    /// At most one step down, if more than an interval has passed since the last.
    fn decay(&mut self, now: Nanos, cfg: &HeatConfig) {
        if now.saturating_sub(self.last_decay) > cfg.interval {
            self.last_decay = now;
            self.heat = adjusted(self.heat, -1, &cfg.levels);
        }
    }

    /// The level now. Decays.
    pub fn level(&mut self, now: Nanos, cfg: &HeatConfig) -> HeatLevel {
        self.decay(now, cfg);
        cfg.levels.level(self.heat)
    }

    /// A visit is over. `refaults`: the memcg's refaults of working-set pages so far, as the folded
    /// statistics have them. Decays. A step backward of the statistics reads as very many refaults.
    pub fn record(&mut self, now: Nanos, cfg: &HeatConfig, visit: &VisitStats, refaults: i64) {
        self.decay(now, cfg);
        let before = std::mem::replace(&mut self.last_refault, refaults);
        let new = refaults.wrapping_sub(before) as u64;
        let d = posted_delta(visit.scanned, visit.reclaimed).unwrap_or(cfg.levels.max() as i8);
        let d = refault_rule(d, new, visit.reclaimed);
        self.heat = adjusted(self.heat, d, &cfg.levels);
    }
}
