//! Doubly linked lists threaded through the folio table. Head = newest, tail = next victim.

use super::table::FolioTable;
use crate::ids::FolioId;

/// Ends and length (in folios) of one list. A folio is on at most one list.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct List {
    head: FolioId,
    tail: FolioId,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: FolioId::NONE,
            tail: FolioId::NONE,
            len: 0,
        }
    }
}

impl List {
    /// Folios on the list.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if no folio is on the list.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The next victim.
    #[inline]
    pub fn tail(&self) -> Option<FolioId> {
        self.tail.is_some().then_some(self.tail)
    }

    /// The newest folio.
    #[inline]
    pub fn head(&self) -> Option<FolioId> {
        self.head.is_some().then_some(self.head)
    }

    /// Adds at the newest end.
    #[inline]
    pub fn push_head(&mut self, t: &mut FolioTable, id: FolioId) {
        let old = self.head;
        let f = &mut t[id];
        debug_assert!(!f.next.is_some() && !f.prev.is_some());
        f.next = old;
        f.prev = FolioId::NONE;
        if old.is_some() {
            t[old].prev = id;
        } else {
            self.tail = id;
        }
        self.head = id;
        self.len += 1;
    }

    /// Adds at the victims' end.
    #[inline]
    pub fn push_tail(&mut self, t: &mut FolioTable, id: FolioId) {
        let old = self.tail;
        let f = &mut t[id];
        debug_assert!(!f.next.is_some() && !f.prev.is_some());
        f.prev = old;
        f.next = FolioId::NONE;
        if old.is_some() {
            t[old].next = id;
        } else {
            self.head = id;
        }
        self.tail = id;
        self.len += 1;
    }

    /// Adds next to `at`, which is on the list, on its older side.
    #[inline]
    pub fn push_behind(&mut self, t: &mut FolioTable, at: FolioId, id: FolioId) {
        let older = t[at].next;
        if !older.is_some() {
            return self.push_tail(t, id);
        }
        let f = &mut t[id];
        debug_assert!(!f.next.is_some() && !f.prev.is_some());
        (f.prev, f.next) = (at, older);
        t[at].next = id;
        t[older].prev = id;
        self.len += 1;
    }

    /// Takes `id` off this list.
    #[inline]
    pub fn remove(&mut self, t: &mut FolioTable, id: FolioId) {
        let f = &mut t[id];
        let (next, prev) = (f.next, f.prev);
        f.next = FolioId::NONE;
        f.prev = FolioId::NONE;
        if prev.is_some() {
            t[prev].next = next;
        } else {
            debug_assert_eq!(self.head, id);
            self.head = next;
        }
        if next.is_some() {
            t[next].prev = prev;
        } else {
            debug_assert_eq!(self.tail, id);
            self.tail = prev;
        }
        self.len -= 1;
    }

    /// Takes the next victim off the list.
    #[inline]
    pub fn pop_tail(&mut self, t: &mut FolioTable) -> Option<FolioId> {
        let id = self.tail()?;
        self.remove(t, id);
        Some(id)
    }

    /// Identifiers from the newest to the oldest.
    pub fn iter<'a>(&self, t: &'a FolioTable) -> impl Iterator<Item = FolioId> + 'a {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let id = at.is_some().then_some(at)?;
            at = t[id].next;
            Some(id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::table::NewFolio;
    use crate::folio::Flags;
    use crate::ids::{LruvecId, ObjectId};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_like_a_deque(ops in prop::collection::vec((0u8..5, 0u32..32), 1..200)) {
            let mut t = FolioTable::with_capacity(32);
            for i in 0..32 {
                t.alloc(NewFolio::page(LruvecId(0), ObjectId(0), i, Flags::empty()));
            }
            let mut list = List::default();
            let mut model: VecDeque<FolioId> = VecDeque::new();
            for (op, n) in ops {
                let id = FolioId(n);
                match (op, model.contains(&id)) {
                    (0, false) => { list.push_head(&mut t, id); model.push_front(id); }
                    (1, false) => { list.push_tail(&mut t, id); model.push_back(id); }
                    (2, true) => { list.remove(&mut t, id); model.retain(|&m| m != id); }
                    (4, false) if !model.is_empty() => {
                        let at = n as usize % model.len();
                        list.push_behind(&mut t, model[at], id);
                        model.insert(at + 1, id);
                    }
                    (3, _) => prop_assert_eq!(list.pop_tail(&mut t), model.pop_back()),
                    _ => {}
                }
                prop_assert_eq!(list.iter(&t).collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(list.len(), model.len());
            }
        }
    }
}
