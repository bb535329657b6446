//! The shrinker of index nodes that hold nothing but shadows (`docs/rules/workingset.md#shadow-nodes`).
//!
//! The host owns the index. It says which of its nodes hold shadows only, by a key that is its own business,
//! and empties those that the shrinker drops.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::LruvecId;
use crate::lruvec::{LruList, LruvecLists};
use crate::rules::OfMemcg;

impl Engine {
    /// Does this kernel drop nodes that hold shadows only? Otherwise the host need not tell.
    #[inline]
    pub fn drops_shadow_nodes(&self) -> bool {
        self.rules.shadow_nodes_kept.is_some()
    }

    /// All entries of this node of the host's index are shadows now, the last of them left by an eviction
    /// from `lruvec`.
    pub fn shadow_node(&mut self, lruvec: LruvecId, key: u64) {
        self.shadow_nodes.insert(lruvec, key);
    }

    /// A page has entered this node, or the node has gone.
    #[inline]
    pub fn not_shadow_node(&mut self, key: u64) {
        self.shadow_nodes.remove(key);
    }

    /// Nodes have been dropped since the host last asked.
    #[inline]
    pub fn has_dropped_shadow_nodes(&self) -> bool {
        self.shadow_nodes.has_dropped()
    }

    /// Which they are, and on whose list they were. Their shadows are lost: the host empties them before it does anything else.
    pub fn take_dropped_shadow_nodes(&mut self) -> Vec<(LruvecId, u64)> {
        self.shadow_nodes.take_dropped()
    }

    /// Reclaim has visited this lruvec: the shrinker is called.
    pub(crate) fn shrink_shadow_nodes(&mut self, lruvec: LruvecId, priority: u8) {
        let Some(kept) = self.rules.shadow_nodes_kept else {
            return;
        };
        let memcg = self.memcg_of(lruvec);
        let of = self.memcgs.local(memcg);
        let slab = of[Counter::KernelPages].max(0) - of[Counter::KernelOther].max(0);
        let lv = &self.lruvecs[lruvec];
        let keep = kept(OfMemcg {
            lists: LruList::ALL.iter().map(|&list| lv.size_all(list)).sum(),
            // Which node it is on is not kept.
            slab: slab.max(0) as u64 / u64::from(self.config().nr_nodes),
            generations: matches!(lv.lists, LruvecLists::MultiGen(_)),
        });
        let gone = self.shadow_nodes.shrink(lruvec, keep, priority);
        if gone > 0 {
            self.count(memcg, Counter::WorkingsetNodereclaim, gone as i64);
        }
    }
}
