//! S3-FIFO: three FIFO queues. New folios pass through a small one, those that are used there or come
//! back go to the main one.
//!
//! J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO queues are all you need for cache eviction",
//! SOSP 2023. The small queue has a tenth of the capacity and the ghosts nine, two uses in the small
//! queue promote, as in the paper. One rule is not in it, but in the authors' simulator, libCacheSim: until
//! memory is full for the first time, what does not fit into the small queue goes to the main one.

use super::{Ghosts, ListPolicy, Pages, Queue};
use crate::ids::FolioId;

/// The queue that new folios enter.
const SMALL: usize = 0;
/// Folios in use.
const MAIN: usize = 1;
/// Uses in the small queue that promote.
const PROMOTE: u32 = 2;

/// The queues; uses, up to three, are counted in the folio.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct S3Fifo {
    queues: [Queue; 2],
    ghost: Ghosts,
    capacity: u64,
}

impl S3Fifo {
    /// Memory has just become full. What came in before had nothing to compete with: the first fill the
    /// small queue and the others the main one, as in the authors' simulator.
    fn divide(&mut self, p: &mut Pages<'_>, small: u64) {
        while self.queues[SMALL].pages() > small {
            let id = self.queues[SMALL].head().expect("holds pages");
            self.queues[SMALL].remove(p, id);
            p.set_list(id, MAIN);
            self.queues[MAIN].push_tail(p, id);
        }
    }
}

impl ListPolicy for S3Fifo {
    fn queues(&self) -> &[Queue] {
        &self.queues
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.queues
    }

    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        let first = std::mem::replace(&mut self.capacity, p.capacity()) == 0;
        let small = (self.capacity / 10).max(1);
        if first {
            self.divide(p, small);
        }
        if self.queues[SMALL].pages() >= small {
            while let Some(id) = self.queues[SMALL].tail() {
                if p.refs(id) < PROMOTE {
                    return Some(id);
                }
                self.queues[SMALL].remove(p, id);
                p.set_list(id, MAIN);
                p.set_refs(id, 0);
                self.queues[MAIN].push_head(p, id);
            }
        }
        while let Some(id) = self.queues[MAIN].tail() {
            match p.refs(id) {
                0 => return Some(id),
                refs => p.set_refs(id, refs - 1),
            }
            self.queues[MAIN].move_head(p, id);
        }
        self.queues[SMALL].tail()
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, p.refs(id) + 1);
    }

    /// In the main queue the bit of the page table, cleared there, stands for the count.
    fn referenced(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.list(id) == SMALL {
            self.accessed(p, id);
        }
    }

    fn evicted(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.list(id) == SMALL {
            self.ghost.push(p.eviction(), p.size(id));
            self.ghost.shrink(self.capacity * 9 / 10);
        }
    }

    fn refault(&mut self, p: &mut Pages<'_>, id: FolioId) -> bool {
        let known = self.ghost.take(p.eviction());
        p.set_list(id, if known { MAIN } else { SMALL });
        known
    }

    fn forget(&mut self, eviction: u64) {
        self.ghost.take(eviction);
    }

    fn ghosts(&self) -> Vec<&Ghosts> {
        vec![&self.ghost]
    }
}
