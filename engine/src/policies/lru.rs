//! LRU: the folio that has not been used for the longest time goes.
//!
//! R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger, "Evaluation techniques for storage
//! hierarchies", IBM Systems Journal 9(2), 1970.

use super::{ListPolicy, Pages, Queue};
use crate::ids::FolioId;

/// One list in the order of last use. Every hit takes the lru_lock, which is why no kernel does it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Lru {
    list: [Queue; 1],
}

impl ListPolicy for Lru {
    fn queues(&self) -> &[Queue] {
        &self.list
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.list
    }

    fn victim(&mut self, _p: &mut Pages<'_>) -> Option<FolioId> {
        self.list[0].tail()
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.listed(id) {
            self.list[0].move_head(p, id);
        }
    }
}
