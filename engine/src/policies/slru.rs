//! SLRU: a hit moves a folio to a protected segment; what does not fit there gets another chance.
//!
//! R. Karedla, J. S. Love, B. G. Wherry, "Caching strategies to improve disk system performance", IEEE
//! Computer 27(3), 1994. The protected segment has four fifths of the capacity; it is cut to that when a
//! victim is wanted.

use super::{ListPolicy, Pages, Queue};
use crate::ids::FolioId;

/// New folios, and those that were pushed out of the protected segment.
const PROBATION: usize = 0;
/// Folios that were hit.
const PROTECTED: usize = 1;

/// Two lists in the order of last use.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Slru {
    lists: [Queue; 2],
}

impl ListPolicy for Slru {
    fn queues(&self) -> &[Queue] {
        &self.lists
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.lists
    }

    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        while self.lists[PROTECTED].pages() > p.capacity() * 4 / 5 {
            let id = self.lists[PROTECTED].tail()?;
            self.lists[PROTECTED].remove(p, id);
            p.set_list(id, PROBATION);
            self.lists[PROBATION].push_head(p, id);
        }
        self.lists[PROBATION]
            .tail()
            .or(self.lists[PROTECTED].tail())
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.listed(id) {
            self.remove(p, id);
            p.set_list(id, PROTECTED);
            self.insert(p, id);
        } else {
            p.set_list(id, PROTECTED);
        }
    }
}
