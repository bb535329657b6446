//! What any policy can be measured against: the exact misses of LRU and of Belady's
//! optimal replacement (OPT) for a sequence of page references and a capacity in pages.
//!
//! Both are demand paging: a referenced page that is absent is always brought in, and
//! when no page frame is free one resident page is given up before. Nothing else (dirty
//! pages, read-ahead, batches, kernel memory) exists here. References to pages that
//! cannot be evicted do not belong in the sequence, and their frames not in the capacity.

mod lru;
mod opt;
mod positions;
mod sequence;
mod stack;
#[cfg(test)]
mod tests;

pub use lru::lru;
pub use opt::opt;
pub use sequence::{Sequence, TooLong};
pub use stack::lru_at;

/// Outcome of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// References that found their page resident.
    pub hits: u64,
    /// References that did not, first touches included.
    pub misses: u64,
    /// First touches: misses that no policy without read-ahead avoids.
    pub compulsory: u64,
}

impl Bound {
    fn new(sequence: &Sequence, misses: u64) -> Bound {
        Bound {
            hits: sequence.len() as u64 - misses,
            misses,
            compulsory: u64::from(sequence.unique()),
        }
    }

    /// References of all kinds, first touches included.
    pub fn references(&self) -> u64 {
        self.hits + self.misses
    }

    /// Misses of pages that were resident before.
    pub fn refaults(&self) -> u64 {
        self.misses - self.compulsory
    }
}
