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

/// The stocks of one CPU.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Stocks {
    pub(super) slots: Vec<Stock>,
    /// The slot that makes room next if all are taken.
    next: usize,
}

/// What a CPU has charged ahead for one memcg.
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

impl Stocks {
    /// For so many memcgs at a time.
    pub(super) fn new(memcgs: u32) -> Self {
        Self {
            slots: vec![Stock::default(); memcgs.max(1) as usize],
            next: 0,
        }
    }

    /// Where the pages of a memcg are, or could be: its own slot, a free one, or the one whose turn it is.
    pub(super) fn place(&mut self, id: MemcgId) -> usize {
        let of = |memcg| self.slots.iter().position(|s| s.memcg == memcg);
        of(id).or_else(|| of(MemcgId::NONE)).unwrap_or_else(|| {
            let at = self.next;
            self.next = (at + 1) % self.slots.len();
            at
        })
    }
}
