//! Memcg statistics and their lag (`docs/rules/memcg.md#statistics-that-lag`).
//!
//! An update touches the memcg's own counters only. Hierarchical values are recomputed by a *fold*;
//! between folds every reader that the kernel would let read lagging values reads [`MemcgTree::folded`].

use super::error::MemcgError;
use super::tree::MemcgTree;
use crate::counters::{Counter, CounterSet};
use crate::ids::{MemcgId, Nanos};

/// Pending updates per CPU above which a reader folds first.
const READ_FOLD_THRESHOLD: u64 = 64;

impl MemcgTree {
    /// Adds `n` (units of the counter, may be negative) to the memcg's own count. The hot path.
    #[inline(always)]
    pub fn count(&mut self, id: MemcgId, c: Counter, n: i64) {
        let l = &mut self.local[id.idx()];
        l.set.add(c, n);
        l.pending += n.unsigned_abs();
    }

    /// The memcg's own counts.
    #[inline]
    pub fn local(&self, id: MemcgId) -> &CounterSet {
        &self.local[id.idx()].set
    }

    /// The hierarchical value at this moment: the sum over the subtree, released memcgs included.
    /// Costs one visit per memcg of the subtree.
    pub fn live(&self, id: MemcgId, c: Counter) -> i64 {
        self.preorder(id).map(|k| self.local[k.idx()].get(c)).sum()
    }

    /// The hierarchical value as of the last fold: what lagging readers see.
    #[inline]
    pub fn folded(&self, id: MemcgId, c: Counter) -> i64 {
        self.folded[id.idx()][c]
    }

    /// Recomputes the hierarchical values of all memcgs.
    pub fn fold(&mut self) {
        self.fold_subtree(MemcgId::ROOT);
    }

    /// Recomputes the hierarchical values of `root` and everything below it; ancestors keep theirs.
    pub fn fold_subtree(&mut self, root: MemcgId) {
        let mut pos = Some(root);
        while let Some(k) = pos {
            let l = &mut self.local[k.idx()];
            l.pending = 0;
            l.write_to(&mut self.folded[k.idx()]);
            self.by_node.fold_own(k);
            pos = self.preorder_next(root, pos);
        }
        let mut k = self.leftmost(root);
        while k != root {
            let (parent, next) = (self[k].parent, self[k].next_sibling);
            let (to, from) = pair(&mut self.folded, parent.idx(), k.idx());
            to.add_all(from);
            self.by_node.fold_child(parent, k);
            k = if next.is_some() {
                self.leftmost(next)
            } else {
                parent
            };
        }
        if root == MemcgId::ROOT {
            // memory.events of the root have no hierarchical value.
            for &c in super::events::HIERARCHICAL_EVENTS {
                self.folded[0].0[c as usize] = self.local[0].set[c];
            }
        }
    }

    /// Folds everything if a fold is due at `now`; returns whether it did. Folds happen at
    /// `fold_phase + k * fold_interval`; missed ones are not made up for.
    pub fn maybe_fold(&mut self, now: Nanos) -> bool {
        if now < self.next_fold {
            return false;
        }
        let late = now - self.next_fold;
        self.next_fold += (late / self.cfg.fold_interval + 1) * self.cfg.fold_interval;
        self.fold();
        true
    }

    /// Time of the next periodic fold.
    pub fn next_fold(&self) -> Nanos {
        self.next_fold
    }

    /// memory.stat as a user reads it: folds the subtree first if more than 64 updates per CPU are
    /// pending in it, then returns the hierarchical values.
    pub fn read_stat(&mut self, id: MemcgId) -> Result<&CounterSet, MemcgError> {
        if !self.exists(id) {
            return Err(MemcgError::Unknown(id));
        }
        let pending: u64 = self.preorder(id).map(|k| self.local[k.idx()].pending).sum();
        if pending > READ_FOLD_THRESHOLD * u64::from(self.cfg.nr_cpus) {
            self.fold_subtree(id);
        }
        Ok(&self.folded[id.idx()])
    }

    /// Hands the counts of a memcg that is being released to its parent.
    pub(super) fn inherit_stat(&mut self, id: MemcgId) {
        let l = std::mem::take(&mut self.local[id.idx()]);
        let parent = self.nodes[id.idx()].parent;
        self.by_node.release(id, parent);
        let parent = &mut self.local[parent.idx()];
        let heir = parent.inherited.get_or_insert_with(Box::default);
        heir.add_all(&l.set);
        if let Some(inherited) = &l.inherited {
            heir.add_all(inherited);
        }
        parent.pending += l.pending;
    }
}

/// Two different elements of a slice, the first mutable.
fn pair(sets: &mut [CounterSet], to: usize, from: usize) -> (&mut CounterSet, &CounterSet) {
    if to < from {
        let (a, b) = sets.split_at_mut(from);
        (&mut a[to], &b[0])
    } else {
        let (a, b) = sets.split_at_mut(to);
        (&mut b[0], &a[from])
    }
}
