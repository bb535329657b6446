//! Slots in the order in which they were filled: a list linked through tables, so that any slot
//! leaves it at once and untouched slots take no memory.

use crate::sys::memory::Table;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The list. Changed under one lock.
#[derive(Debug)]
pub struct Ages {
    /// Neighbours, each a slot + 1; 0 = none.
    older: Table<AtomicU32>,
    younger: Table<AtomicU32>,
    /// When it joined, in seconds.
    since: Table<AtomicU32>,
    oldest: u32,
    youngest: u32,
}

impl Ages {
    /// An empty list for `slots` slots.
    ///
    /// # Errors
    /// Address space.
    pub fn new(slots: u32) -> io::Result<Self> {
        Ok(Self {
            older: Table::new(slots as usize)?,
            younger: Table::new(slots as usize)?,
            since: Table::new(slots as usize)?,
            oldest: 0,
            youngest: 0,
        })
    }

    fn has(&self, slot: u32) -> bool {
        self.oldest == slot + 1 || self.older[slot as usize].load(Relaxed) != 0
    }

    /// Appends a slot that is not in it.
    pub fn push(&mut self, slot: u32, now: u32) {
        debug_assert!(!self.has(slot), "slot {slot} is listed");
        let at = slot as usize;
        self.since[at].store(now, Relaxed);
        self.older[at].store(self.youngest, Relaxed);
        self.younger[at].store(0, Relaxed);
        match self.youngest {
            0 => self.oldest = slot + 1,
            y => self.younger[y as usize - 1].store(slot + 1, Relaxed),
        }
        self.youngest = slot + 1;
    }

    /// Takes a slot out if it is in it.
    pub fn remove(&mut self, slot: u32) {
        if !self.has(slot) {
            return;
        }
        let at = slot as usize;
        let older = self.older[at].swap(0, Relaxed);
        let younger = self.younger[at].swap(0, Relaxed);
        match older {
            0 => self.oldest = younger,
            o => self.younger[o as usize - 1].store(younger, Relaxed),
        }
        match younger {
            0 => self.youngest = older,
            y => self.older[y as usize - 1].store(older, Relaxed),
        }
    }

    /// Takes the oldest slot out if it joined at `before` or earlier.
    pub fn pop(&mut self, before: u32) -> Option<u32> {
        let slot = self.oldest.checked_sub(1)?;
        if self.since[slot as usize].load(Relaxed) > before {
            return None;
        }
        self.remove(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_is_a_queue_from_which_any_slot_may_leave(
            ops in prop::collection::vec((0u8..4, 0u32..16), 1..300)
        ) {
            let mut ages = Ages::new(16).unwrap();
            let mut oracle: VecDeque<(u32, u32)> = VecDeque::new();
            for (now, (op, slot)) in ops.into_iter().enumerate() {
                let now = now as u32;
                match op {
                    0 | 1 => {
                        ages.remove(slot);
                        oracle.retain(|o| o.0 != slot);
                        if op == 0 {
                            ages.push(slot, now);
                            oracle.push_back((slot, now));
                        }
                    }
                    _ => {
                        let before = now.saturating_sub(slot);
                        let due = oracle.front().is_some_and(|o| o.1 <= before);
                        let expected = due.then(|| oracle.pop_front().unwrap().0);
                        prop_assert_eq!(ages.pop(before), expected);
                    }
                }
                let youngest = oracle.back().map_or(0, |o| o.0 + 1);
                prop_assert_eq!(ages.youngest, youngest);
            }
        }
    }
}
