//! The parts of the memcg OOM killer that only need the tree (`docs/rules/zones.md#out-of-memory`). Tasks, badness and the
//! OOM lock are the host's.

use super::tree::MemcgTree;
use super::COSTLY_ORDER;
use crate::counters::Counter;
use crate::ids::{MemcgId, Pages};

/// What the OOM killer finds under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomStart {
    /// The charge is too large to kill for: fail.
    TooLarge,
    /// There is room by now: success without a kill.
    Room,
    /// Pick a victim from the memcg's subtree.
    Kill,
}

impl MemcgTree {
    /// To be asked when the OOM lock is taken, for a charge of 2^`order` pages refused by `over`.
    pub fn oom_start(&self, over: MemcgId, order: u32) -> OomStart {
        if order > COSTLY_ORDER {
            OomStart::TooLarge
        } else if self[over].memory().margin() >= 1 << order {
            OomStart::Room
        } else {
            OomStart::Kill
        }
    }

    /// The amount that badness is measured against: memory.max plus usable swap, pages.
    pub fn oom_total_pages(&self, over: MemcgId, total_swap: Pages) -> Pages {
        let m = &self[over];
        m.memory().max() + m.swap().max().min(total_swap)
    }

    /// The memcg all of whose tasks die with the victim: the highest of the victim's memcg and its
    /// ancestors up to `over` with memory.oom.group; `None` if only the victim dies. Counts nothing.
    pub fn oom_group(&self, victim: MemcgId, over: MemcgId) -> Option<MemcgId> {
        let mut group = None;
        for k in self.ancestors(victim).filter(|&k| k != MemcgId::ROOT) {
            if self[k].oom_group {
                group = Some(k);
            }
            if k == over {
                break;
            }
        }
        group
    }

    /// Counts the kill of one task of `memcg`.
    pub fn oom_killed(&mut self, memcg: MemcgId) {
        self.event(memcg, Counter::EventsOomKill);
    }
}
