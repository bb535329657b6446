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
        ancestor == MemcgId::ROOT || ancestor == id || self.ancestors(id).any(|k| k == ancestor)
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

    /// All memcgs hang together as a tree does, whatever the numbers in it say. For trees that come
    /// from outside: walks of others may not end.
    pub fn links_are_sound(&self) -> bool {
        let n = self.nodes.len();
        let within = |id: MemcgId| !id.is_some() || id.idx() < n;
        let all = self.nodes.iter().all(|m| {
            let links = [m.parent, m.first_child, m.last_child, m.next_sibling];
            links.into_iter().all(within) && within(m.prev_sibling)
        });
        let per_node = n * self.cfg.nr_nodes as usize;
        if n == 0 || !all || self.local.len() != n || self.folded.len() != n {
            return false;
        }
        if self.iters.len() != per_node || self.nodes[0].parent.is_some() {
            return false;
        }
        // Each is the child of the one whose list it is on, and on one list.
        let mut seen = vec![false; n];
        let mut open = vec![MemcgId::ROOT];
        seen[0] = true;
        while let Some(id) = open.pop() {
            let mut child = self[id].first_child;
            let mut last = MemcgId::NONE;
            while child.is_some() {
                if std::mem::replace(&mut seen[child.idx()], true) || self[child].parent != id {
                    return false;
                }
                open.push(child);
                last = child;
                child = self[child].next_sibling;
            }
            if self[id].last_child != last {
                return false;
            }
        }
        (0..n as u32).all(|id| seen[id as usize] == self.exists(MemcgId(id)))
    }

    /// Deepest first descendant: where a post-order walk of `id` starts.
    pub(super) fn leftmost(&self, mut id: MemcgId) -> MemcgId {
        while self[id].first_child.is_some() {
            id = self[id].first_child;
        }
        id
    }
}
