//! Walks over a subtree during reclaim (`docs/rules/memcg.md#walks`): private, or sharing one position per (walk
//! root, node) with all other reclaimers.

use super::record::SharedIter;
use super::tree::MemcgTree;
use crate::ids::{MemcgId, NodeId};

/// How a walk finds its next memcg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkMode {
    /// Everything, from the start, with a private position (kswapd, retries with full walk).
    Full,
    /// The rest of the cycle that concurrent walkers share (direct and limit reclaim).
    Partial,
}

/// One walk. The memcg it stands on is pinned: end a walk by exhausting it or with
/// [`MemcgTree::iter_break`].
#[derive(Debug)]
pub struct WalkCursor {
    mode: WalkMode,
    root: MemcgId,
    node: NodeId,
    prev: Option<MemcgId>,
    generation: u32,
    ended: bool,
}

impl WalkCursor {
    /// A walk of `root`'s subtree for reclaim on `node`.
    pub fn new(mode: WalkMode, root: MemcgId, node: NodeId) -> Self {
        Self {
            mode,
            root,
            node,
            prev: None,
            generation: 0,
            ended: false,
        }
    }

    /// The memcg the walk stands on.
    pub fn current(&self) -> Option<MemcgId> {
        self.prev
    }

    /// The root of the walk.
    pub fn root(&self) -> MemcgId {
        self.root
    }
}

impl MemcgTree {
    /// The next memcg of the walk, pinned until the next call or [`Self::iter_break`]; `None` at
    /// the end. Zombies are included.
    pub fn iter_next(&mut self, cursor: &mut WalkCursor) -> Option<MemcgId> {
        if cursor.ended {
            return None;
        }
        let next = match cursor.mode {
            WalkMode::Full => self.preorder_next(cursor.root, cursor.prev),
            WalkMode::Partial => self.shared_next(cursor),
        };
        if let Some(id) = next {
            self.nodes[id.idx()].pins += 1;
        }
        if let Some(prev) = cursor.prev.take() {
            self.unhold(prev);
        }
        cursor.prev = next;
        cursor.ended = next.is_none();
        next
    }

    /// Ends a walk early. A partial walk's shared position stays where it is.
    pub fn iter_break(&mut self, cursor: &mut WalkCursor) {
        if let Some(prev) = cursor.prev.take() {
            self.unhold(prev);
        }
        cursor.ended = true;
    }

    fn shared_next(&mut self, cursor: &mut WalkCursor) -> Option<MemcgId> {
        let slot = self.iter_slot(cursor.root, cursor.node);
        loop {
            let SharedIter {
                position,
                generation,
            } = self.iters[slot];
            if cursor.prev.is_none() {
                cursor.generation = generation;
            } else if cursor.generation != generation {
                return None; // someone else completed the cycle
            }
            let pos = position.is_some().then_some(position);
            let next = self.preorder_next(cursor.root, pos);
            let it = &mut self.iters[slot];
            it.position = next.unwrap_or(MemcgId::NONE);
            if next.is_none() {
                it.generation = it.generation.wrapping_add(1);
                if cursor.prev.is_none() {
                    continue; // a new-comer sees at least one memcg
                }
            }
            return next;
        }
    }

    fn iter_slot(&self, root: MemcgId, node: NodeId) -> usize {
        debug_assert!(node.0 < self.cfg.nr_nodes);
        root.idx() * self.cfg.nr_nodes as usize + node.idx()
    }

    /// Resets every shared position that stands on `id`, which is about to be released, and those
    /// of walks rooted there. Only ancestors' walks can stand on it.
    pub(super) fn reset_iters(&mut self, id: MemcgId) {
        let nodes = self.cfg.nr_nodes as usize;
        let mut k = id;
        while k.is_some() {
            for it in &mut self.iters[k.idx() * nodes..][..nodes] {
                if it.position == id {
                    it.position = MemcgId::NONE;
                }
            }
            k = self[k].parent;
        }
        self.iters[id.idx() * nodes..][..nodes].fill(SharedIter::default());
    }
}
