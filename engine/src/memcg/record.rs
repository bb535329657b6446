//! What the tree keeps beside each memcg and each CPU.

use crate::counters::{Counter, CounterSet};
use crate::ids::{MemcgId, Pages};

/// Counters of one memcg alone.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct LocalStat {
    pub(super) set: CounterSet,
    /// Sum of the absolute updates since the last fold.
    pub(super) pending: u64,
    /// Hierarchical counts of released children.
    pub(super) inherited: Option<Box<CounterSet>>,
}

impl LocalStat {
    pub(super) fn get(&self, c: Counter) -> i64 {
        self.set[c] + self.inherited.as_ref().map_or(0, |i| i[c])
    }

    pub(super) fn write_to(&self, out: &mut CounterSet) {
        out.clone_from(&self.set);
        if let Some(inherited) = &self.inherited {
            out.add_all(inherited);
        }
    }
}

/// The position that partial walks of one (walk root, node) share.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct SharedIter {
    pub(super) position: MemcgId,
    pub(super) generation: u32,
}

impl Default for SharedIter {
    fn default() -> Self {
        Self {
            position: MemcgId::NONE,
            generation: 0,
        }
    }
}

/// The stock of one CPU.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Stock {
    pub(super) memcg: MemcgId,
    pub(super) pages: Pages,
}

impl Default for Stock {
    fn default() -> Self {
        Self {
            memcg: MemcgId::NONE,
            pages: 0,
        }
    }
}
