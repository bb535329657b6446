//! A NUMA node: its memory, its reclaim flags and its sleepers.

use crate::ids::{LruType, NodeId};
use crate::lruvec::LruList;
use crate::memcg::heat::NodeHeat;
use crate::memcg::MemcgLru;

pub use crate::constants::MAX_RECLAIM_RETRIES;

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
    /// kswapd met only folios under writeback.
    pub flag_writeback: bool,
    /// kswapd met only dirty folios (before 6.19).
    pub flag_dirty: bool,
    /// Pages dirty or under writeback.
    write_pending: u64,
    /// Consecutive kswapd runs that freed nothing.
    kswapd_failures: u32,
    /// Pages on each list, all memcgs and zones.
    lru: [i64; 5],
    /// Isolated pages by type (classic).
    isolated: [u64; 2],
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

    /// Pages on each list, in the order of [`LruList::ALL`].
    pub(crate) fn list_sizes(&self) -> [i64; 5] {
        self.lru
    }

    /// Pages come onto a list or leave it.
    #[inline]
    pub(crate) fn resize_list(&mut self, list: LruList, pages: i64) {
        self.lru[list.idx()] += pages;
    }

    /// Pages of a type that reclaimers hold isolated (classic).
    pub(crate) fn isolated(&self, t: LruType) -> u64 {
        self.isolated[t.idx()]
    }

    /// Folios of a type leave for reclaim or come back.
    pub(crate) fn resize_isolated(&mut self, t: LruType, pages: i64) {
        let isolated = &mut self.isolated[t.idx()];
        *isolated = isolated
            .checked_add_signed(pages)
            .expect("isolated pages come back once");
    }

    /// Pages dirty or under writeback.
    pub fn write_pending(&self) -> u64 {
        self.write_pending
    }

    /// Pages become dirty or go under writeback, or the reverse.
    pub(crate) fn resize_pending(&mut self, pages: i64) {
        self.write_pending = self
            .write_pending
            .checked_add_signed(pages)
            .expect("what is cleaned was dirty");
    }

    /// Consecutive kswapd runs that freed nothing.
    pub fn kswapd_failures(&self) -> u32 {
        self.kswapd_failures
    }

    /// So many runs of kswapd freed nothing that it stays asleep.
    pub fn hopeless(&self) -> bool {
        self.kswapd_failures >= MAX_RECLAIM_RETRIES
    }

    /// A run of kswapd ended without having freed anything.
    pub(crate) fn kswapd_failed(&mut self) {
        self.kswapd_failures += 1;
    }

    /// Reclaim freed something here: kswapd has hope again.
    pub(crate) fn progress(&mut self) {
        self.kswapd_failures = 0;
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
