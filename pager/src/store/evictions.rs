//! When the page of a swap slot was evicted last, counted in evictions: what a kernel calls its refault distance.

use crate::sys::memory::Table;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts modulo 2^32: what has been away for longer seems young once more.
#[derive(Debug)]
pub struct Evictions {
    now: AtomicU32,
    /// Zero: never, or nobody asks.
    last: Table<AtomicU32>,
}

impl Evictions {
    /// None yet, of pages of `slots` slots.
    ///
    /// # Errors
    /// Address space.
    pub fn new(slots: u32) -> io::Result<Self> {
        Ok(Self {
            now: AtomicU32::new(1),
            last: Table::new(slots as usize)?,
        })
    }

    /// So many pages more have been evicted, of whatever.
    pub fn add(&self, pages: u64) {
        self.now.fetch_add(pages as u32, Relaxed);
    }

    /// The page of a slot is evicted now.
    pub fn note(&self, slot: u32) {
        self.last[slot as usize].store(self.now.load(Relaxed).max(1), Relaxed);
    }

    /// Nobody asks when the page of a slot was evicted.
    pub fn forget(&self, slot: u32) {
        self.last[slot as usize].store(0, Relaxed);
    }

    /// Pages that have been evicted since that of a slot was, if that is known.
    pub fn since(&self, slot: u32) -> Option<u64> {
        match self.last[slot as usize].load(Relaxed) {
            0 => None,
            last => Some(self.now.load(Relaxed).wrapping_sub(last).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_in_evictions_and_survive_the_end_of_the_counter() {
        let e = Evictions::new(3).unwrap();
        e.note(0);
        e.add(7);
        e.note(1);
        assert_eq!([0, 1, 2].map(|s| e.since(s)), [Some(7), Some(0), None]);
        e.add(u64::from(u32::MAX) - 8);
        e.note(2);
        e.add(3);
        assert_eq!(e.since(2), Some(3));
        e.forget(2);
        assert_eq!(e.since(2), None);
    }
}
