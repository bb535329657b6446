//! SIEVE: a hand goes from old to new over a FIFO list and takes the first folio that has not been
//! used since it last passed. Those that have stay where they are.
//!
//! Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is simpler than LRU: an efficient
//! turn-key eviction algorithm for web caches", NSDI 2024.

use super::{ListPolicy, Pages, Queue};
use crate::folio::{Flags, FolioTable};
use crate::ids::FolioId;

/// One list in order of insertion, and the hand.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Sieve {
    list: [Queue; 1],
    /// Where the next search begins; none: at the tail.
    hand: Option<FolioId>,
}

impl ListPolicy for Sieve {
    fn queues(&self) -> &[Queue] {
        &self.list
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.list
    }

    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        loop {
            let id = self.hand.or(self.list[0].tail())?;
            if p.refs(id) == 0 {
                self.hand = Some(id);
                return Some(id);
            }
            p.set_refs(id, 0);
            self.hand = p.newer(id);
        }
    }

    fn remove(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if self.hand == Some(id) {
            self.hand = p.newer(id);
        }
        self.list[0].remove(p, id);
    }

    /// To where it was: the hand has just passed.
    fn put_back(&mut self, p: &mut Pages<'_>, id: FolioId) {
        match self.hand {
            Some(hand) => self.list[0].push_behind(p, hand, id),
            None => self.list[0].push_head(p, id),
        }
    }

    /// Under the hand.
    fn insert_oldest(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, 0);
        match self.hand {
            Some(hand) => {
                self.list[0].push_behind(p, hand, id);
                self.hand = Some(id);
            }
            None => self.list[0].push_tail(p, id),
        }
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, 1);
    }

    /// The bit was in the page table and has been cleared there.
    fn referenced(&mut self, _p: &mut Pages<'_>, _id: FolioId) {}

    fn check(&self, folios: &FolioTable) {
        if let Some(hand) = self.hand {
            // A batch may be about to move it.
            assert!(!folios[hand].has(Flags::DEAD), "the hand is at {hand:?}");
            let mut on_list = self.list[0].list().iter(folios);
            assert!(on_list.any(|id| id == hand), "the hand has left the list");
        }
    }
}
