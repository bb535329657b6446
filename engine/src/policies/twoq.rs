//! 2Q: a new folio must be asked for again after it has left a short queue before it is kept among
//! those in use.
//!
//! T. Johnson, D. Shasha, "2Q: a low overhead high performance buffer management replacement
//! algorithm", VLDB 1994. The full version; Kin is a quarter of the capacity and Kout a half of it, as
//! the authors found best.

use super::{Ghosts, ListPolicy, Pages, Queue};
use crate::ids::FolioId;

/// Folios used once, first in, first out.
const A1IN: usize = 0;
/// Folios that came back, in the order of last use.
const AM: usize = 1;

/// Two lists, and the ghosts of the first.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct TwoQ {
    lists: [Queue; 2],
    a1out: Ghosts,
    capacity: u64,
}

impl ListPolicy for TwoQ {
    fn queues(&self) -> &[Queue] {
        &self.lists
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.lists
    }

    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        self.capacity = p.capacity();
        let kin = self.capacity / 4;
        let from = if self.lists[A1IN].pages() > kin || self.lists[AM].is_empty() {
            A1IN
        } else {
            AM
        };
        self.lists[from].tail()
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.list(id) == AM && p.listed(id) {
            self.lists[AM].move_head(p, id);
        }
    }

    fn evicted(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.list(id) == A1IN {
            self.a1out.push(p.eviction(), p.size(id));
            self.a1out.shrink(self.capacity / 2);
        }
    }

    fn refault(&mut self, p: &mut Pages<'_>, id: FolioId) -> bool {
        let known = self.a1out.take(p.eviction());
        p.set_list(id, if known { AM } else { A1IN });
        known
    }

    fn forget(&mut self, eviction: u64) {
        self.a1out.take(eviction);
    }

    fn ghosts(&self) -> Vec<&Ghosts> {
        vec![&self.a1out]
    }
}
