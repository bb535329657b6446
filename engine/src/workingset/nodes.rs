//! Index nodes that hold nothing but shadows, oldest first, and how many of them go
//! (`docs/rules/workingset.md#shadow-nodes`).

use crate::ids::LruvecId;
use std::collections::BTreeMap;

/// Objects that a shrinker takes at a time.
const SHRINK_BATCH: u64 = 128;

/// The nodes of every lruvec.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct ShadowNodes {
    /// By lruvec.
    lists: Vec<NodeList>,
    /// By key: whose list, and the place in it.
    places: BTreeMap<u64, (LruvecId, u64)>,
    /// The place that comes next.
    next: u64,
    /// Nodes that have been dropped and the host has not heard of: whose, and the key.
    dropped: Vec<(LruvecId, u64)>,
}

/// The nodes of one lruvec.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct NodeList {
    /// Keys by place: oldest first.
    order: BTreeMap<u64, u64>,
    /// Work left undone by earlier calls.
    deferred: u64,
}

impl NodeList {
    /// One call of the shrinker, which may drop what exceeds `keep`. Returns how many are to go, the oldest.
    fn due(&mut self, keep: u64, priority: u8) -> u64 {
        let can_go = (self.order.len() as u64).saturating_sub(keep);
        if can_go == 0 {
            return 0;
        }
        // They cost no I/O to make again, so half of them is asked for whatever the priority.
        let wanted = can_go / 2;
        let deferred = std::mem::take(&mut self.deferred);
        let mut left = ((deferred >> priority) + wanted).min(2 * can_go);
        let mut taken = 0;
        while left >= SHRINK_BATCH || left >= can_go {
            let batch = left.min(SHRINK_BATCH);
            taken += batch;
            left -= batch;
        }
        self.deferred = (deferred + wanted).saturating_sub(taken).min(2 * can_go);
        taken
    }
}

impl ShadowNodes {
    /// The node comes last on the list.
    pub(super) fn insert(&mut self, lruvec: LruvecId, key: u64) {
        self.remove(key);
        if self.lists.len() <= lruvec.idx() {
            self.lists.resize_with(lruvec.idx() + 1, NodeList::default);
        }
        self.lists[lruvec.idx()].order.insert(self.next, key);
        self.places.insert(key, (lruvec, self.next));
        self.next += 1;
    }

    /// The node is on no list any longer.
    #[inline]
    pub(super) fn remove(&mut self, key: u64) {
        if let Some((lruvec, place)) = self.places.remove(&key) {
            self.lists[lruvec.idx()].order.remove(&place);
        }
    }

    /// What has been dropped since this was last asked.
    pub(super) fn take_dropped(&mut self) -> Vec<(LruvecId, u64)> {
        std::mem::take(&mut self.dropped)
    }

    /// There is something to take.
    #[inline]
    pub(super) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// One call of the shrinker. Returns how many it has dropped.
    pub(super) fn shrink(&mut self, lruvec: LruvecId, keep: u64, priority: u8) -> u64 {
        let Some(list) = self.lists.get_mut(lruvec.idx()) else {
            return 0;
        };
        let mut gone = 0;
        for _ in 0..list.due(keep, priority) {
            let Some((_, key)) = list.order.pop_first() else {
                break;
            };
            self.places.remove(&key);
            self.dropped.push((lruvec, key));
            gone += 1;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of `n` nodes with the keys 0, 1, 2 and so on.
    fn list(n: u64) -> ShadowNodes {
        let mut nodes = ShadowNodes::default();
        (0..n).for_each(|key| nodes.insert(LruvecId(0), key));
        nodes
    }

    fn keys(nodes: &ShadowNodes) -> Vec<u64> {
        nodes.dropped.iter().map(|&(_, key)| key).collect()
    }

    #[test]
    fn half_of_the_shadow_nodes_go_in_whole_batches() {
        // Half of 255 is less than a batch; half of 256 is one. What is left undone weighs nothing at
        // priority 12.
        let mut nodes = list(255);
        for _ in 0..100 {
            assert_eq!(nodes.shrink(LruvecId(0), 0, 12), 0);
        }
        nodes.insert(LruvecId(0), 1000);
        assert_eq!(nodes.shrink(LruvecId(0), 0, 12), 128);
        assert_eq!(keys(&nodes), (0..128).collect::<Vec<_>>(), "oldest first");
        assert_eq!(nodes.shrink(LruvecId(0), 0, 12), 0);
        // As much as there may be stays.
        assert_eq!(list(600).shrink(LruvecId(0), 600, 12), 0);
        assert_eq!(list(600).shrink(LruvecId(0), 88, 12), 256);
    }

    /// `mm_shrink_slab_start` and `mm_shrink_slab_end` of 7.2.12 in `i_anonfile_zram_sw10`, the calls of the reclaim that
    /// dropped all nodes.
    #[test]
    fn the_shrinker_reckons_as_traced() {
        // Priority, nodes that may go, deferred before, dropped, deferred after.
        let calls = [
            (12, 189, 422, 0, 378),
            (11, 195, 376, 0, 390),
            (10, 205, 386, 0, 410),
            (9, 211, 410, 0, 422),
            (8, 211, 422, 0, 422),
            (5, 211, 422, 0, 422),
            (4, 211, 422, 128, 399),
            // As many as 90, of the 87 that there are.
            (3, 83, 399, 90, 166),
        ];
        for (priority, can_go, deferred, taken, after) in calls {
            let keep = 4;
            let mut list = NodeList {
                order: (0..can_go + keep).map(|key| (key, key)).collect(),
                deferred,
            };
            let due = list.due(keep, priority);
            assert_eq!((due, list.deferred), (taken, after), "priority {priority}");
        }
    }

    #[test]
    fn when_memory_is_very_short_all_shadow_nodes_go() {
        let mut nodes = list(100);
        (0..4).for_each(|_| assert_eq!(nodes.shrink(LruvecId(0), 0, 12), 0));
        // Deferred by now: 200, as much as twice the nodes. A quarter of that and half of the nodes are all.
        assert_eq!(nodes.shrink(LruvecId(0), 0, 2), 100);
        assert_eq!(nodes.shrink(LruvecId(0), 0, 0), 0);
    }

    #[test]
    fn a_node_that_is_used_again_begins_anew() {
        let mut nodes = list(256);
        nodes.remove(0);
        nodes.insert(LruvecId(0), 0);
        nodes.remove(1);
        nodes.insert(LruvecId(0), 256);
        assert_eq!(nodes.shrink(LruvecId(0), 0, 12), 128);
        assert_eq!(keys(&nodes), (2..130).collect::<Vec<_>>());
    }
}
