//! FIFO: first in, first out, without a second chance. The floor to compare with, and the smallest
//! policy.
//!
//! L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
//! Journal 5(2), 1966.

use super::{ListPolicy, Pages, Queue};
use crate::ids::FolioId;

/// One list; new folios at the head, victims at the tail.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Fifo {
    list: [Queue; 1],
}

impl ListPolicy for Fifo {
    fn queues(&self) -> &[Queue] {
        &self.list
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.list
    }

    fn victim(&mut self, _p: &mut Pages<'_>) -> Option<FolioId> {
        self.list[0].tail()
    }

    fn wants_uses(&self) -> bool {
        false
    }

    fn file_first(&self) -> bool {
        true
    }
}
