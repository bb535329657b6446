//! A NUMA node: its memory, its reclaim flags and its sleepers.

use crate::ids::NodeId;
use crate::lruvec::LruList;
use crate::memcg::heat::NodeHeat;
use crate::memcg::MemcgLru;

/// Fruitless kswapd runs after which it stays asleep (`docs/rules/reclaim-loop.md#entry-points`).
pub const MAX_RECLAIM_RETRIES: u32 = 16;

/// Why a reclaimer sleeps (`docs/rules/writeback.md#what-reclaim-tells`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ThrottleReason {
    /// Too much writeback is in flight.
    Writeback = 0,
    /// Too many folios are isolated.
    Isolated = 1,
    /// Nothing could be freed.
    NoProgress = 2,
    /// Everything dirty is congested.
    Congested = 3,
}

/// Reclaim state of one node.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Node {
    /// Number of the node.
    pub id: NodeId,
    /// Order in which root reclaim visits multi-gen memcgs.
    pub memcg_lru: MemcgLru,
    /// Heat of memcgs here, if a policy keeps it.
    pub heat: NodeHeat,
    /// Pages dirty or under writeback.
    pub write_pending: u64,
    /// kswapd met only folios under writeback.
    pub flag_writeback: bool,
    /// kswapd met only dirty folios (before 6.19).
    pub flag_dirty: bool,
    /// Consecutive kswapd runs that freed nothing.
    pub kswapd_failures: u32,
    /// Pages on each list, all memcgs and zones.
    pub(crate) lru: [i64; 5],
    /// Isolated pages by type (classic).
    pub(crate) isolated: [u64; 2],
    /// Tasks asleep, by reason.
    sleepers: [u64; 4],
    /// Pages whose writeback ended while someone slept, since the first of them did.
    written_since: u64,
}

impl Node {
    /// A node without memory.
    pub fn new(id: NodeId, seed: u64) -> Self {
        Self {
            id,
            memcg_lru: MemcgLru::new(seed),
            heat: NodeHeat::default(),
            write_pending: 0,
            flag_writeback: false,
            flag_dirty: false,
            kswapd_failures: 0,
            lru: [0; 5],
            isolated: [0; 2],
            sleepers: [0; 4],
            written_since: 0,
        }
    }

    /// Pages on a list, all memcgs.
    pub fn lru_pages(&self, list: LruList) -> u64 {
        self.lru[list.idx()].max(0) as u64
    }

    /// A task begins to sleep. The first one that sleeps for writeback starts the count.
    pub(crate) fn sleep(&mut self, reason: ThrottleReason) {
        if reason == ThrottleReason::Writeback && self.sleepers[reason as usize] == 0 {
            self.written_since = 0;
        }
        self.sleepers[reason as usize] += 1;
    }

    /// It woke up, for whatever reason.
    pub(crate) fn awake(&mut self, reason: ThrottleReason) {
        self.sleepers[reason as usize] -= 1;
    }

    /// Tasks asleep for a reason.
    pub fn sleeping(&self, reason: ThrottleReason) -> u64 {
        self.sleepers[reason as usize]
    }

    /// Writeback of `n` pages ended. (wake all sleepers, someone slept).
    pub fn writeback_ended(&mut self, n: u64) -> (bool, bool) {
        let sleepers = self.sleeping(ThrottleReason::Writeback);
        if sleepers == 0 {
            return (false, false);
        }
        self.written_since += n;
        (self.written_since > 32 * sleepers, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_throttle_for_writeback() {
        let mut n = Node::new(NodeId(0), 1);
        n.sleep(ThrottleReason::Writeback);
        n.sleep(ThrottleReason::Writeback);
        assert!(!n.writeback_ended(64).0);
        assert!(n.writeback_ended(1).0);
        n.sleep(ThrottleReason::Writeback);
        assert!(
            !n.writeback_ended(31).0,
            "threshold is 96 now, the count goes on"
        );
        assert!(n.writeback_ended(1).0);
    }
}
