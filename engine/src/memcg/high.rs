//! memory.high and swap.high: reclaim and delay of the task that exceeded them (`docs/rules/memcg.md#high`).

use super::charge::TaskMemcg;
use super::counter::PageCounter;
use super::tree::MemcgTree;
use super::{CHARGE_BATCH, MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use crate::counters::Counter;
use crate::ids::{MemcgId, Pages};

/// Fraction bits of an overage.
const PRECISION_SHIFT: u32 = 20;
/// Scaling bits of the delay.
const SCALING_SHIFT: u32 = 14;
/// Longest delay, seconds.
const MAX_DELAY_SECONDS: u64 = 2;

/// How far `usage` is above `high`, as a fraction of `high` with 20 fraction bits; 0 if it is not.
pub fn overage(usage: Pages, high: Pages) -> u64 {
    if usage <= high {
        return 0;
    }
    let over = u128::from(usage - high) << PRECISION_SHIFT;
    u64::try_from(over / u128::from(high.max(1))).unwrap_or(u64::MAX)
}

/// Delay for a charge of `n` pages at an overage, in jiffies of 1/`hz` s, before the cap of 2 s.
pub fn high_delay_jiffies(overage: u64, n: Pages, hz: u64) -> u64 {
    let square = u128::from(overage) * u128::from(overage);
    let full = square.saturating_mul(u128::from(hz)) >> (PRECISION_SHIFT + SCALING_SHIFT);
    let delay = full.saturating_mul(u128::from(n)) / u128::from(CHARGE_BATCH);
    u64::try_from(delay).unwrap_or(u64::MAX)
}

/// What the handling of memory.high needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighStep {
    /// Reclaim from `over`, target `nr`; then [`HighTask::reclaim_done`].
    Reclaim {
        /// A memcg above its high mark (event HIGH is counted).
        over: MemcgId,
        /// Target, already at least 32.
        nr: Pages,
    },
    /// Sleep so long, killable, accounted as a stall; then step on.
    Sleep {
        /// Jiffies of 1/`hz` s.
        jiffies: u64,
    },
    /// The task has ended.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HighStage {
    /// Start of a round of reclaim.
    Round,
    /// Next candidate for reclaim on the way up.
    Climb(MemcgId),
    Reclaiming(MemcgId),
    Delay,
    Slept,
    Done,
}

/// One handling of memory.high.
#[derive(Clone, Debug)]
pub struct HighTask {
    id: MemcgId,
    n: Pages,
    hz: u64,
    retries: u32,
    reclaimed: Pages,
    first: bool,
    worker: bool,
    state: HighStage,
}

impl HighTask {
    /// For a task of memcg `id`: takes over and clears `task.over_high`. `hz` is the number of
    /// jiffies in a second.
    pub fn new(id: MemcgId, task: &mut TaskMemcg, hz: u64) -> Self {
        let n = std::mem::take(&mut task.over_high);
        Self {
            id,
            n,
            hz,
            retries: MAX_RECLAIM_RETRIES,
            reclaimed: 0,
            first: true,
            worker: false,
            state: if n == 0 {
                HighStage::Done
            } else {
                HighStage::Round
            },
        }
    }

    /// The asynchronous worker for a memcg that interrupt context found above its high mark: one
    /// round of reclaim, no delay.
    pub fn worker(id: MemcgId) -> Self {
        Self {
            id,
            n: CHARGE_BATCH,
            hz: 1,
            retries: 0,
            reclaimed: 0,
            first: true,
            worker: true,
            state: HighStage::Round,
        }
    }

    /// Answers [`HighStep::Reclaim`] with the number of pages freed.
    pub fn reclaim_done(&mut self, tree: &MemcgTree, nr_reclaimed: Pages) {
        match self.state {
            HighStage::Reclaiming(over) => {
                self.reclaimed += nr_reclaimed;
                self.state = HighStage::Climb(tree[over].parent);
            }
            _ => panic!("reclaim_done without a reclaim request"),
        }
    }

    /// Continues until something must happen outside. `dying`: the task has been killed.
    pub fn step(&mut self, tree: &mut MemcgTree, dying: bool) -> HighStep {
        loop {
            match self.state {
                HighStage::Round if dying => self.state = HighStage::Done,
                HighStage::Round => {
                    self.reclaimed = 0;
                    self.state = HighStage::Climb(self.id);
                }
                HighStage::Climb(k) => self.climb(tree, k),
                HighStage::Reclaiming(over) => {
                    let nr = if self.first { self.n } else { 0 };
                    return HighStep::Reclaim {
                        over,
                        nr: nr.max(SWAP_CLUSTER_MAX),
                    };
                }
                HighStage::Delay => {
                    if let Some(jiffies) = self.delay(tree) {
                        self.state = HighStage::Slept;
                        return HighStep::Sleep { jiffies };
                    }
                }
                HighStage::Slept => self.state = HighStage::Done,
                HighStage::Done => return HighStep::Done,
            }
        }
    }

    fn climb(&mut self, tree: &mut MemcgTree, k: MemcgId) {
        if !k.is_some() || k == MemcgId::ROOT {
            self.state = if self.worker {
                HighStage::Done
            } else {
                HighStage::Delay
            };
        } else if tree[k].memory.usage > tree[k].memory.high {
            tree.event(k, Counter::EventsHigh);
            self.state = HighStage::Reclaiming(k);
        } else {
            self.state = HighStage::Climb(tree[k].parent);
        }
    }

    /// The sleep, or `None` after choosing another round or the end.
    fn delay(&mut self, tree: &mut MemcgTree) -> Option<u64> {
        let memory = max_overage(tree, self.id, |m| m.memory(), None);
        let swap = max_overage(tree, self.id, |m| m.swap(), Some(Counter::EventsSwapHigh));
        let jiffies = high_delay_jiffies(memory, self.n, self.hz)
            .saturating_add(high_delay_jiffies(swap, self.n, self.hz))
            .min(MAX_DELAY_SECONDS * self.hz);
        if jiffies <= self.hz / 100 {
            self.state = HighStage::Done;
            return None;
        }
        if self.reclaimed == 0 {
            if self.retries == 0 {
                return Some(jiffies);
            }
            self.retries -= 1;
        }
        self.first = false;
        self.state = HighStage::Round;
        None
    }
}

/// The largest overage of `id` and its ancestors below the root, with an event for each.
fn max_overage(
    tree: &mut MemcgTree,
    id: MemcgId,
    counter: impl Fn(&super::tree::Memcg) -> &PageCounter,
    event: Option<Counter>,
) -> u64 {
    let mut max = 0;
    let mut k = id;
    while k.is_some() && k != MemcgId::ROOT {
        let c = counter(&tree[k]);
        let over = overage(c.usage, c.high);
        if let Some(event) = event.filter(|_| over > 0) {
            tree.event(k, event);
        }
        max = max.max(over);
        k = tree[k].parent;
    }
    max
}
