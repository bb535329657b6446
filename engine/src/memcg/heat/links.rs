//! FIFO lists of memcgs, threaded through one array: each memcg is on one list at most. Which one
//! the owner knows, so that a whole list can be appended to another in one step.

use crate::ids::MemcgId;

/// Links of one memcg.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Link {
    prev: MemcgId,
    next: MemcgId,
}

const UNLINKED: Link = Link {
    prev: MemcgId::NONE,
    next: MemcgId::NONE,
};

#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct Ends {
    head: MemcgId,
    tail: MemcgId,
    len: u32,
}

const EMPTY: Ends = Ends {
    head: MemcgId::NONE,
    tail: MemcgId::NONE,
    len: 0,
};

/// `N` lists.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Lists<const N: usize> {
    #[cfg_attr(feature = "state", serde(with = "crate::state::array"))]
    ends: [Ends; N],
    links: Vec<Link>,
}

impl<const N: usize> Lists<N> {
    pub(super) fn new() -> Self {
        Self {
            ends: [EMPTY; N],
            links: Vec::new(),
        }
    }

    /// Makes room for a memcg.
    pub(super) fn reserve(&mut self, id: MemcgId) {
        if self.links.len() <= id.idx() {
            self.links.resize(id.idx() + 1, UNLINKED);
        }
    }

    #[inline]
    pub(super) fn head(&self, list: usize) -> Option<MemcgId> {
        let head = self.ends[list].head;
        head.is_some().then_some(head)
    }

    pub(super) fn len(&self, list: usize) -> u32 {
        self.ends[list].len
    }

    pub(super) fn push_tail(&mut self, list: usize, id: MemcgId) {
        let ends = &mut self.ends[list];
        let prev = std::mem::replace(&mut ends.tail, id);
        ends.len += 1;
        if prev.is_some() {
            self.links[prev.idx()].next = id;
        } else {
            ends.head = id;
        }
        self.links[id.idx()] = Link {
            prev,
            next: MemcgId::NONE,
        };
    }

    pub(super) fn push_head(&mut self, list: usize, id: MemcgId) {
        let ends = &mut self.ends[list];
        let next = std::mem::replace(&mut ends.head, id);
        ends.len += 1;
        if next.is_some() {
            self.links[next.idx()].prev = id;
        } else {
            ends.tail = id;
        }
        self.links[id.idx()] = Link {
            prev: MemcgId::NONE,
            next,
        };
    }

    /// Appends all of `from` to `to`.
    pub(super) fn splice(&mut self, from: usize, to: usize) {
        let moved = std::mem::replace(&mut self.ends[from], EMPTY);
        if moved.len == 0 {
            return;
        }
        let ends = &mut self.ends[to];
        let prev = std::mem::replace(&mut ends.tail, moved.tail);
        ends.len += moved.len;
        self.links[moved.head.idx()].prev = prev;
        if prev.is_some() {
            self.links[prev.idx()].next = moved.head;
        } else {
            ends.head = moved.head;
        }
    }

    /// Takes a memcg off the list it is on.
    pub(super) fn unlink(&mut self, list: usize, id: MemcgId) {
        let l = std::mem::replace(&mut self.links[id.idx()], UNLINKED);
        let ends = &mut self.ends[list];
        ends.len -= 1;
        if l.prev.is_some() {
            self.links[l.prev.idx()].next = l.next;
        } else {
            ends.head = l.next;
        }
        if l.next.is_some() {
            self.links[l.next.idx()].prev = l.prev;
        } else {
            ends.tail = l.prev;
        }
    }

    /// The members of a list from its head on.
    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = MemcgId> + '_ {
        std::iter::successors(self.head(list), move |id| {
            let next = self.links[id.idx()].next;
            next.is_some().then_some(next)
        })
    }

    /// Checks the links of all lists; `at` says on which list a memcg should be. Returns how many
    /// memcgs are on lists.
    ///
    /// # Panics
    /// If a list, its links, its length or its members disagree.
    pub(super) fn check(&self, at: impl Fn(MemcgId) -> Option<usize>) -> usize {
        let mut linked = 0;
        for (n, ends) in self.ends.iter().enumerate() {
            let (mut prev, mut len) = (MemcgId::NONE, 0);
            for id in self.iter(n) {
                assert_eq!(self.links[id.idx()].prev, prev, "before memcg {}", id.0);
                assert_eq!(at(id), Some(n), "list of memcg {}", id.0);
                prev = id;
                len += 1;
                assert!(len <= ends.len, "list {n} is longer than {}", ends.len);
            }
            assert_eq!((len, prev), (ends.len, ends.tail), "end of list {n}");
            linked += len as usize;
        }
        linked
    }
}
