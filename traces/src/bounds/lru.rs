//! Least recently used, exactly.

use super::{Bound, Sequence};

/// End of the list, or no position.
const NONE: u32 = u32::MAX;

/// Doubly linked list through two arrays indexed by page, most recent first.
struct Recency {
    newer: Vec<u32>,
    older: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Recency {
    fn push(&mut self, page: u32) {
        self.newer[page as usize] = NONE;
        self.older[page as usize] = self.newest;
        match self.newest {
            NONE => self.oldest = page,
            newest => self.newer[newest as usize] = page,
        }
        self.newest = page;
    }

    fn remove(&mut self, page: u32) {
        let (newer, older) = (self.newer[page as usize], self.older[page as usize]);
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
    }

    fn remove_oldest(&mut self, resident: &mut [bool]) {
        let victim = self.oldest;
        self.remove(victim);
        resident[victim as usize] = false;
    }
}

/// Misses of LRU with `capacity` page frames, in time linear in the references.
pub fn lru(sequence: &Sequence, capacity: u32) -> Bound {
    if let Some(bound) = Bound::trivial(sequence, capacity) {
        return bound;
    }
    let mut misses = 0;
    lru_misses(sequence, capacity, |_| misses += 1);
    Bound::new(sequence, misses)
}

/// Tells the position of each miss of LRU with `capacity` page frames, at least one, in order.
pub fn lru_misses(sequence: &Sequence, capacity: u32, mut missed: impl FnMut(usize)) {
    let pages = sequence.unique() as usize;
    let mut list = Recency {
        newer: vec![NONE; pages],
        older: vec![NONE; pages],
        newest: NONE,
        oldest: NONE,
    };
    let mut resident = vec![false; pages];
    let (mut taken, mut leaving) = (sequence.taken(), sequence.leaving());
    let mut used = 0;
    for (position, &page) in sequence.keys().iter().enumerate() {
        for gone in leaving.before(position) {
            if std::mem::take(&mut resident[gone as usize]) {
                list.remove(gone);
                used -= 1;
            }
        }
        // One reference at a time is served in any case.
        let frames = capacity.saturating_sub(taken.at(position)).max(1);
        while used > frames {
            list.remove_oldest(&mut resident);
            used -= 1;
        }
        if std::mem::replace(&mut resident[page as usize], true) {
            list.remove(page);
        } else {
            if !sequence.is_free(position) {
                missed(position);
            }
            if used == frames {
                list.remove_oldest(&mut resident);
            } else {
                used += 1;
            }
        }
        list.push(page);
    }
}
