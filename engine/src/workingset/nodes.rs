//! Index nodes that hold nothing but shadows, oldest first, and how many of them go
//! (`docs/rules/workingset.md#shadow-nodes`).

use crate::ids::LruvecId;
use foldhash::fast::FixedState;
use std::collections::{HashMap, VecDeque};

/// Objects that a shrinker takes at a time.
const SHRINK_BATCH: u64 = 128;

/// The nodes of every lruvec.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "state", serde(from = "Lists", into = "Lists"))]
pub(crate) struct ShadowNodes {
    /// By lruvec.
    lists: Vec<NodeList>,
    /// By key: whose list, and the place in it.
    places: HashMap<u64, (LruvecId, u64), FixedState>,
    /// Nodes that have been dropped and the host has not heard of: whose, and the key.
    dropped: Vec<(LruvecId, u64)>,
}

/// What [`ShadowNodes`] are saved as: places are found again.
#[cfg(feature = "state")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Lists {
    lists: Vec<NodeList>,
    dropped: Vec<(LruvecId, u64)>,
}

#[cfg(feature = "state")]
impl From<ShadowNodes> for Lists {
    fn from(ShadowNodes { lists, dropped, .. }: ShadowNodes) -> Self {
        Self { lists, dropped }
    }
}

#[cfg(feature = "state")]
impl From<Lists> for ShadowNodes {
    fn from(Lists { lists, dropped }: Lists) -> Self {
        let mut places = HashMap::default();
        for (list, lruvec) in lists.iter().zip((0..).map(LruvecId)) {
            let kept = list.order.iter().zip(list.gone..);
            let kept = kept.filter_map(|(key, place)| Some(((*key)?, (lruvec, place))));
            places.extend(kept);
        }
        Self {
            lists,
            places,
            dropped,
        }
    }
}

/// The nodes of one lruvec.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct NodeList {
    /// Keys, oldest first; none where one has left the list.
    order: VecDeque<Option<u64>>,
    /// Places that were before the first of `order`.
    gone: u64,
    /// Keys.
    len: u64,
    /// Work left undone by earlier calls.
    deferred: u64,
}

impl NodeList {
    /// Adds the youngest. Returns its place.
    fn push(&mut self, key: u64) -> u64 {
        self.order.push_back(Some(key));
        self.len += 1;
        self.gone + self.order.len() as u64 - 1
    }

    /// Takes the key at a place off the list.
    fn remove(&mut self, place: u64) {
        self.order[(place - self.gone) as usize] = None;
        self.len -= 1;
    }

    /// Most places are of keys that have left.
    fn is_sparse(&self) -> bool {
        self.order.len() as u64 > 2 * self.len + SHRINK_BATCH
    }

    /// Gives the keys new places, one after the other.
    fn close_up(&mut self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.order.retain(Option::is_some);
        self.order.iter().flatten().copied().zip(self.gone..)
    }

    /// Takes the oldest off.
    fn pop(&mut self) -> Option<u64> {
        while let Some(first) = self.order.pop_front() {
            self.gone += 1;
            if first.is_some() {
                self.len -= 1;
                return first;
            }
        }
        None
    }

    /// One call of the shrinker, which may drop what exceeds `keep`. Returns how many are to go, the oldest.
    fn due(&mut self, keep: u64, priority: u8) -> u64 {
        let can_go = self.len.saturating_sub(keep);
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
        let place = self.lists[lruvec.idx()].push(key);
        self.places.insert(key, (lruvec, place));
    }

    /// The node is on no list any longer.
    #[inline]
    pub(super) fn remove(&mut self, key: u64) {
        if let Some((lruvec, place)) = self.places.remove(&key) {
            let list = &mut self.lists[lruvec.idx()];
            list.remove(place);
            if list.is_sparse() {
                let moved = list.close_up();
                self.places
                    .extend(moved.map(|(key, place)| (key, (lruvec, place))));
            }
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
            let Some(key) = list.pop() else {
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
    use proptest::prelude::*;

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
                len: can_go + keep,
                deferred,
                ..NodeList::default()
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

    proptest! {
        /// Lists with gaps are lists without: beside vectors from which keys are taken out.
        #[test]
        fn nodes_leave_as_they_came(
            steps in prop::collection::vec((0u8..8, 0u32..3, 0u64..300), 1..3000),
        ) {
            let (mut nodes, mut model) = (ShadowNodes::default(), vec![Vec::new(); 3]);
            for (step, list, key) in steps {
                match step {
                    0 => {
                        let gone = nodes.shrink(LruvecId(list), key, 12) as usize;
                        let kept: Vec<u64> = model[list as usize].drain(..gone).collect();
                        let dropped = nodes.take_dropped();
                        prop_assert!(dropped.iter().copied().eq(kept.into_iter().map(|k| (LruvecId(list), k))));
                    }
                    1..=5 => {
                        nodes.insert(LruvecId(list), key);
                        model.iter_mut().for_each(|l| l.retain(|&k| k != key));
                        model[list as usize].push(key);
                    }
                    _ => {
                        nodes.remove(key);
                        model.iter_mut().for_each(|l| l.retain(|&k| k != key));
                    }
                }
                for (list, model) in nodes.lists.iter().zip(&model) {
                    prop_assert_eq!(list.len, model.len() as u64);
                    prop_assert!(list.order.len() as u64 <= 2 * list.len + SHRINK_BATCH);
                }
            }
            let keys = nodes.lists.iter().map(|l| l.order.iter().flatten().copied().collect::<Vec<_>>());
            prop_assert!(keys.eq(model.into_iter().take(nodes.lists.len())));
            #[cfg(feature = "state")]
            {
                let saved = serde_json::to_string(&nodes).unwrap();
                let again: ShadowNodes = serde_json::from_str(&saved).unwrap();
                prop_assert_eq!(again.places, nodes.places);
            }
        }
    }
}
