//! Statistics of lruvecs (`docs/rules/memcg.md#statistics-that-lag`): of those counters that reclaim reads of a memcg on one
//! node. With a single node they are the memcg's own.

use super::tree::MemcgTree;
use crate::counters::Counter;
use crate::ids::{MemcgId, NodeId};

/// Counters that are kept.
const KEPT: [Counter; 6] = [
    Counter::InactiveAnon,
    Counter::ActiveAnon,
    Counter::InactiveFile,
    Counter::ActiveFile,
    Counter::ActivateAnon,
    Counter::ActivateFile,
];

fn place(c: Counter) -> Option<usize> {
    KEPT.iter().position(|&kept| kept == c)
}

/// By memcg and node.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct NodeStats {
    /// Nodes of the machine.
    nodes: usize,
    /// Of the memcg, and of those released below it.
    local: Vec<[i64; KEPT.len()]>,
    /// Of the subtree as of the last fold.
    folded: Vec<[i64; KEPT.len()]>,
}

impl NodeStats {
    /// Of a tree that has no memcg yet.
    pub(super) fn new(nodes: u32) -> Self {
        Self {
            nodes: nodes as usize,
            local: Vec::new(),
            folded: Vec::new(),
        }
    }

    /// They are kept: there are several nodes.
    #[inline]
    fn are_kept(&self) -> bool {
        self.nodes > 1
    }

    fn of(&self, id: MemcgId) -> std::ops::Range<usize> {
        match self.are_kept() {
            true => id.idx() * self.nodes..(id.idx() + 1) * self.nodes,
            false => 0..0,
        }
    }

    /// Out of line: most machines have one node.
    #[inline(never)]
    fn count(&mut self, id: MemcgId, node: NodeId, c: Counter, n: i64) {
        if let Some(at) = place(c) {
            let of = self.of(id).start + node.idx();
            self.local[of][at] += n;
        }
    }

    /// A memcg is new: it has nothing.
    pub(super) fn create(&mut self, id: MemcgId) {
        let of = self.of(id);
        let len = self.local.len().max(of.end);
        self.local.resize(len, Default::default());
        self.folded.resize(len, Default::default());
        self.local[of.clone()].fill(Default::default());
        self.folded[of].fill(Default::default());
    }

    /// A memcg is released: its parent has its counts.
    pub(super) fn release(&mut self, id: MemcgId, parent: MemcgId) {
        for (from, to) in self.of(id).zip(self.of(parent)) {
            let counts = std::mem::take(&mut self.local[from]);
            add(&mut self.local[to], &counts);
        }
    }

    /// A fold begins: the sum is the memcg's own.
    pub(super) fn fold_own(&mut self, id: MemcgId) {
        let of = self.of(id);
        self.folded[of.clone()].copy_from_slice(&self.local[of]);
    }

    /// A fold adds the sum of a child.
    pub(super) fn fold_child(&mut self, parent: MemcgId, child: MemcgId) {
        for (from, to) in self.of(child).zip(self.of(parent)) {
            let sum = self.folded[from];
            add(&mut self.folded[to], &sum);
        }
    }
}

fn add(to: &mut [i64; KEPT.len()], counts: &[i64; KEPT.len()]) {
    for (to, n) in to.iter_mut().zip(counts) {
        *to += n;
    }
}

impl MemcgTree {
    /// As [`Self::count`], of something on a node. Counters that are not read by node are the memcg's alone.
    #[inline(always)]
    pub fn count_on(&mut self, id: MemcgId, node: NodeId, c: Counter, n: i64) {
        self.count(id, c, n);
        if self.by_node.are_kept() {
            self.by_node.count(id, node, c, n);
        }
    }

    /// As [`Self::folded`], on one node. Of counters that are not kept by node, on all.
    pub fn folded_on(&self, id: MemcgId, node: NodeId, c: Counter) -> i64 {
        match place(c).filter(|_| self.by_node.are_kept()) {
            Some(at) => self.by_node.folded[self.by_node.of(id).start + node.idx()][at],
            None => self.folded(id, c),
        }
    }

    /// As [`Self::live`], likewise.
    pub fn live_on(&self, id: MemcgId, node: NodeId, c: Counter) -> i64 {
        let Some(at) = place(c).filter(|_| self.by_node.are_kept()) else {
            return self.live(id, c);
        };
        let own = |k: MemcgId| self.by_node.local[self.by_node.of(k).start + node.idx()][at];
        self.preorder(id).map(own).sum()
    }
}
