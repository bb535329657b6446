//! All lruvecs of a machine, by id.

use super::Lruvec;
use crate::ids::{LruvecId, MemcgId, NodeId};
use std::ops::{Index, IndexMut};

/// The lruvecs of every memcg, one a node.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Lruvecs {
    /// Index = memcg * nodes + node.
    all: Vec<Lruvec>,
    nr_nodes: u32,
}

impl Lruvecs {
    /// None yet, for memcgs with `nr_nodes` lruvecs each.
    pub(crate) fn new(nr_nodes: u32) -> Self {
        Self {
            all: Vec::new(),
            nr_nodes,
        }
    }

    /// The lruvec of a memcg on a node.
    #[inline]
    pub(crate) fn id(&self, memcg: MemcgId, node: NodeId) -> LruvecId {
        LruvecId(memcg.0 * self.nr_nodes + node.0)
    }

    /// Enters an empty lruvec in the place of its memcg and node, which may have had another before.
    /// Memcgs come in the order of their ids.
    pub(crate) fn put(&mut self, lruvec: Lruvec) {
        let at = self.id(lruvec.memcg, lruvec.node).idx();
        if at < self.all.len() {
            self.all[at] = lruvec;
        } else {
            debug_assert_eq!(at, self.all.len());
            self.all.push(lruvec);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// In the order of their ids, to change.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Lruvec> {
        self.all.iter_mut()
    }

    /// In the order of their ids.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Lruvec> {
        self.all.iter()
    }
}

impl Index<LruvecId> for Lruvecs {
    type Output = Lruvec;

    #[inline]
    fn index(&self, id: LruvecId) -> &Lruvec {
        &self.all[id.idx()]
    }
}

impl IndexMut<LruvecId> for Lruvecs {
    #[inline]
    fn index_mut(&mut self, id: LruvecId) -> &mut Lruvec {
        &mut self.all[id.idx()]
    }
}
