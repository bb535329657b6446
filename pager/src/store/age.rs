//! Slots in the order in which they were filled: lists linked through tables, so that any slot
//! leaves its list at once and untouched slots take no memory.

use crate::sys::memory::Table;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Which list a slot is in. It is in one at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// Pages that are as small as they get.
    Final,
    /// Pages that may get smaller.
    Untried,
}

/// The ends of a list, each a slot + 1; 0 = none.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    oldest: u32,
    youngest: u32,
}

/// The lists. Changed under one lock.
#[derive(Debug)]
pub struct Ages {
    /// Neighbours, each a slot + 1; 0 = none.
    older: Table<AtomicU32>,
    younger: Table<AtomicU32>,
    /// When it joined, in seconds, and which list: twice the one and the other.
    since: Table<AtomicU32>,
    ends: [Ends; 2],
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
            ends: Default::default(),
        })
    }

    /// The list it is in.
    fn list_of(&self, slot: u32) -> Option<List> {
        let at = slot as usize;
        let list = match self.since[at].load(Relaxed) & 1 {
            0 => List::Final,
            _ => List::Untried,
        };
        let has = self.older[at].load(Relaxed) != 0 || self.ends[list as usize].oldest == slot + 1;
        has.then_some(list)
    }

    /// Appends a slot that is in none.
    pub fn push(&mut self, list: List, slot: u32, now: u32) {
        debug_assert!(self.list_of(slot).is_none(), "slot {slot} is listed");
        let at = slot as usize;
        let ends = &mut self.ends[list as usize];
        let since = now << 1 | list as u32;
        // Where all are zero the table takes no memory.
        if self.since[at].load(Relaxed) != since {
            self.since[at].store(since, Relaxed);
        }
        self.older[at].store(ends.youngest, Relaxed);
        self.younger[at].store(0, Relaxed);
        match ends.youngest {
            0 => ends.oldest = slot + 1,
            y => self.younger[y as usize - 1].store(slot + 1, Relaxed),
        }
        ends.youngest = slot + 1;
    }

    /// Takes a slot out of its list, and says which that was, if it is in one.
    pub fn remove(&mut self, slot: u32) -> Option<List> {
        let list = self.list_of(slot)?;
        let ends = &mut self.ends[list as usize];
        let older = self.older[slot as usize].swap(0, Relaxed);
        let younger = self.younger[slot as usize].swap(0, Relaxed);
        match older {
            0 => ends.oldest = younger,
            o => self.younger[o as usize - 1].store(younger, Relaxed),
        }
        match younger {
            0 => ends.youngest = older,
            y => self.older[y as usize - 1].store(older, Relaxed),
        }
        Some(list)
    }

    /// Moves a slot to the young end of its list, if it is in one.
    pub fn renew(&mut self, slot: u32, now: u32) {
        if let Some(list) = self.remove(slot) {
            self.push(list, slot, now);
        }
    }

    /// Takes the oldest untried slot out of its list if it joined at `before` or earlier.
    pub fn pop(&mut self, before: u32) -> Option<u32> {
        let slot = self.ends[List::Untried as usize].oldest.checked_sub(1)?;
        if self.since[slot as usize].load(Relaxed) >> 1 > before {
            return None;
        }
        self.remove(slot);
        Some(slot)
    }

    /// A list, oldest first.
    pub fn oldest(&self, list: List) -> impl Iterator<Item = u32> + '_ {
        let next = |&slot: &u32| self.younger[slot as usize].load(Relaxed).checked_sub(1);
        std::iter::successors(self.ends[list as usize].oldest.checked_sub(1), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn lists_are_queues_from_which_any_slot_may_leave(
            ops in prop::collection::vec((0u8..6, 0u32..16, any::<bool>()), 1..300)
        ) {
            let mut ages = Ages::new(16).unwrap();
            let mut oracle = [VecDeque::<(u32, u32)>::new(), VecDeque::new()];
            for (now, (op, slot, last)) in ops.into_iter().enumerate() {
                let now = now as u32;
                let list = if last { List::Final } else { List::Untried };
                let was = oracle.iter().position(|q| q.iter().any(|o| o.0 == slot));
                match op {
                    0..=2 => {
                        prop_assert_eq!(ages.remove(slot).map(|l| l as usize), was);
                        oracle.iter_mut().for_each(|q| q.retain(|o| o.0 != slot));
                        if op > 0 {
                            ages.push(list, slot, now);
                            oracle[list as usize].push_back((slot, now));
                        }
                    }
                    3 => {
                        ages.renew(slot, now);
                        if let Some(q) = was.map(|at| &mut oracle[at]) {
                            q.retain(|o| o.0 != slot);
                            q.push_back((slot, now));
                        }
                    }
                    _ => {
                        let before = now.saturating_sub(slot);
                        let q = &mut oracle[List::Untried as usize];
                        let due = q.front().is_some_and(|o| o.1 <= before);
                        let expected = due.then(|| q.pop_front().unwrap().0);
                        prop_assert_eq!(ages.pop(before), expected);
                    }
                }
                for list in [List::Untried, List::Final] {
                    let all: Vec<u32> = oracle[list as usize].iter().map(|o| o.0).collect();
                    prop_assert_eq!(ages.oldest(list).collect::<Vec<_>>(), all);
                }
            }
        }
    }
}
