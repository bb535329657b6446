//! CLOCK: first in, first out, but what has been used since goes round once more.
//!
//! F. J. Corbató, "A paging experiment with the Multics system", MIT Project MAC Report MAC-M-384,
//! 1968.
//!
//! The hand of the clock is the tail of the list: what it passes goes to the head.

use super::{ListPolicy, Pages, Queue};
use crate::ids::FolioId;

/// One list; the reference bit is kept in the folio, or in the page-table entries that map it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Clock {
    list: [Queue; 1],
}

impl ListPolicy for Clock {
    fn queues(&self) -> &[Queue] {
        &self.list
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.list
    }

    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        loop {
            let id = self.list[0].tail()?;
            if p.refs(id) == 0 {
                return Some(id);
            }
            p.set_refs(id, 0);
            self.list[0].move_head(p, id);
        }
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, 1);
    }

    /// The bit was in the page table and has been cleared there: one round more.
    fn referenced(&mut self, _p: &mut Pages<'_>, _id: FolioId) {}
}
