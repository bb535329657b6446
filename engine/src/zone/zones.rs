//! The zones of a machine, by node.

use super::{Mark, Zone, ZoneClass};
use crate::ids::{NodeId, Pages};

/// Zones of all nodes, as many a node, in ascending class. None at all: memory is limited by memcgs
/// only.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Zones {
    all: Vec<Zone>,
    per_node: usize,
}

impl Zones {
    /// None yet, for nodes with `per_node` zones each.
    pub(crate) fn new(per_node: u8) -> Self {
        Self {
            all: Vec::new(),
            per_node: per_node.into(),
        }
    }

    /// Gives the machine its zones: those of node 0 in ascending class, then those of node 1, ...
    ///
    /// # Panics
    /// If they are not as many a node as `Config::nr_zones` says, or not in that order.
    pub fn set(&mut self, zones: Vec<Zone>) {
        for (i, z) in zones.iter().enumerate() {
            assert_eq!(z.node.idx(), i / self.per_node, "node of zone {i}");
        }
        assert_eq!(zones.len() % self.per_node, 0, "zones of the last node");
        self.all = zones;
    }

    /// Memory is limited by memcgs only.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those of all nodes.
    #[inline]
    pub fn all(&self) -> &[Zone] {
        &self.all
    }

    /// Those of all nodes.
    #[inline]
    pub fn all_mut(&mut self) -> &mut [Zone] {
        &mut self.all
    }

    /// Those of a node.
    #[inline]
    pub fn of(&self, node: NodeId) -> &[Zone] {
        let at = node.idx() * self.per_node;
        self.all.get(at..at + self.per_node).unwrap_or(&[])
    }

    /// Those of a node.
    #[inline]
    pub fn of_mut(&mut self, node: NodeId) -> &mut [Zone] {
        let at = node.idx() * self.per_node;
        self.all.get_mut(at..at + self.per_node).unwrap_or(&mut [])
    }

    /// Class of the zone at a position of a node.
    pub(crate) fn class(&self, node: NodeId, zone: u8) -> ZoneClass {
        let zones = self.of(node);
        zones
            .get(usize::from(zone).min(zones.len().saturating_sub(1)))
            .map_or(ZoneClass::Normal, |z| z.class)
    }

    /// Gives pages back to the zone at a position of a node.
    #[inline]
    pub fn give(&mut self, node: NodeId, zone: u8, pages: Pages) {
        self.give_at(node.idx() * self.per_node + usize::from(zone), pages);
    }

    /// Gives pages back to the zone at a position among those of all nodes. Nothing, if memory is limited by memcgs only.
    #[inline]
    pub fn give_at(&mut self, position: usize, pages: Pages) {
        if let Some(z) = self.all.get_mut(position) {
            z.give(pages);
        }
    }

    /// Node and position on it of the zone at a position among those of all nodes.
    #[inline]
    pub fn place(&self, position: usize) -> (NodeId, u8) {
        let node = NodeId((position / self.per_node) as u32);
        (node, (position % self.per_node) as u8)
    }

    /// Every managed zone up to `zone` is above its high mark by more than `margin` pages.
    pub(crate) fn above_high(&self, node: NodeId, zone: u8, margin: Pages) -> bool {
        let class = self.class(node, zone);
        self.of(node)
            .iter()
            .filter(|z| z.class <= class && z.managed > 0)
            .all(|z| z.free > z.mark(Mark::High) + margin)
    }
}
