//! Going up and down the memcg tree without allocation.

use super::tree::MemcgTree;
use crate::ids::MemcgId;

impl MemcgTree {
    /// `id` and its ancestors up to the root.
    pub fn ancestors(&self, id: MemcgId) -> impl Iterator<Item = MemcgId> + '_ {
        std::iter::successors(id.is_some().then_some(id), |k| self[*k].parent())
    }

    /// True if `id` is `ancestor` or below it.
    #[inline]
    pub fn is_within(&self, id: MemcgId, ancestor: MemcgId) -> bool {
        ancestor == MemcgId::ROOT || self.ancestors(id).any(|k| k == ancestor)
    }

    /// The first of `id` and its ancestors that is online (the root always is).
    pub fn nearest_online(&self, id: MemcgId) -> MemcgId {
        self.ancestors(id)
            .find(|&k| self[k].online)
            .unwrap_or(MemcgId::ROOT)
    }

    /// Children in creation order, zombies included.
    pub fn children(&self, id: MemcgId) -> impl Iterator<Item = MemcgId> + '_ {
        let link = |k: MemcgId| k.is_some().then_some(k);
        std::iter::successors(link(self[id].first_child), move |k| {
            link(self[*k].next_sibling)
        })
    }

    /// The memcg after `pos` in pre-order below `root`; `pos` = `None` starts with the root of the
    /// walk. `None` at the end.
    #[inline]
    pub fn preorder_next(&self, root: MemcgId, pos: Option<MemcgId>) -> Option<MemcgId> {
        let Some(mut k) = pos else {
            return Some(root);
        };
        if self[k].first_child.is_some() {
            return Some(self[k].first_child);
        }
        while k != root {
            if self[k].next_sibling.is_some() {
                return Some(self[k].next_sibling);
            }
            k = self[k].parent;
        }
        None
    }

    /// `root` and everything below it: parents before children, children in creation order.
    pub fn preorder(&self, root: MemcgId) -> impl Iterator<Item = MemcgId> + '_ {
        std::iter::successors(Some(root), move |&k| self.preorder_next(root, Some(k)))
    }

    /// Deepest first descendant: where a post-order walk of `id` starts.
    pub(super) fn leftmost(&self, mut id: MemcgId) -> MemcgId {
        while self[id].first_child.is_some() {
            id = self[id].first_child;
        }
        id
    }
}
