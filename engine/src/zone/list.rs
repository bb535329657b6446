//! The zones that a request may use, in the order in which it tries them (`docs/rules/zones.md#several-nodes`).

use super::Zone;

/// Most zones of a node.
const MOST: usize = 8;

/// Positions of a node's zones from the highest down, at the end of this.
const DOWN: [u8; MOST] = [7, 6, 5, 4, 3, 2, 1, 0];

/// Zones of a machine and the order in which a request tries some of them.
#[derive(Debug)]
pub struct ZoneList<'a> {
    zones: &'a mut [Zone],
    order: &'a [u8],
}

impl<'a> ZoneList<'a> {
    /// `order`: positions in `zones`, the best first.
    pub fn new(zones: &'a mut [Zone], order: &'a [u8]) -> Self {
        Self { zones, order }
    }

    /// Those of a node alone, which come lowest first: a request prefers the highest.
    ///
    /// # Panics
    /// If they are more than eight.
    pub fn of_node(zones: &'a mut [Zone]) -> Self {
        let order = &DOWN[MOST - zones.len()..];
        Self { zones, order }
    }

    /// Position of the first zone that `will_do`.
    #[inline]
    pub fn find(&mut self, mut will_do: impl FnMut(&mut Zone) -> bool) -> Option<usize> {
        let mut order = self.order.iter().map(|at| usize::from(*at));
        order.find(|at| will_do(&mut self.zones[*at]))
    }

    /// Does something to each of them.
    pub fn for_each(&mut self, mut to: impl FnMut(&mut Zone)) {
        for at in self.order {
            to(&mut self.zones[usize::from(*at)]);
        }
    }
}
