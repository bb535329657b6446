//! How hot a memcg is: which memcg should give up memory first (`docs/rules/heat.md`).
//!
//! Two answers stand beside the [memcg LRU](super::MemcgLru) and the plain walk. [`PostedHeat`] is
//! the design as it was posted: a number for each (memcg, node), and up to three walks over the
//! hierarchy, cold memcgs first. [`DecayWheel`] is ours: the same numbers as a ring of FIFO buckets,
//! so that the coldest memcg is found without a walk, and decay that follows from the time elapsed.
//!
//! Time always comes in as an argument.

mod clock;
mod config;
mod links;
mod posted;
mod rules;
mod score;
mod visit;
mod wheel;

#[cfg(test)]
mod tests;

pub use clock::{EpochClock, AUTO_MAX, AUTO_MIN};
pub use config::{HeatConfig, HeatLevel, HeatLevels, RING};
pub use posted::PostedHeat;
pub use rules::{adjusted, posted_delta, refault_rule};
pub use score::{Means, Score, ONE};
pub use visit::VisitStats;
pub use wheel::{DecayWheel, WheelCall};

use crate::ids::MemcgId;
use std::collections::BTreeMap;

/// Heat of all memcgs of one node.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeHeat {
    /// As posted, by memcg index; empty unless that policy is on.
    pub posted: Vec<PostedHeat>,
    /// The wheels by root of the walk; made when reclaim first needs them.
    pub wheels: BTreeMap<MemcgId, DecayWheel>,
}

impl NodeHeat {
    /// A memcg went offline.
    pub fn offline(&mut self, id: MemcgId) {
        for wheel in self.wheels.values_mut() {
            wheel.offline(id);
        }
    }

    /// A memcg is released.
    pub fn release(&mut self, id: MemcgId) {
        self.wheels.remove(&id);
        for wheel in self.wheels.values_mut() {
            wheel.remove(id);
        }
    }
}
