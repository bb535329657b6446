//! What any policy can be measured against: the exact misses of LRU and of Belady's
//! optimal replacement (OPT) for a sequence of page references and a capacity in pages.
//!
//! Both are demand paging: a referenced page that is absent is always brought in, and
//! when no page frame is free one resident page is given up before. A page that is gone for good
//! (unmapped, or cut off its file) frees its frame. Nothing else (dirty pages, batches, kernel
//! memory) exists here. A miss is a reference that has to read its page
//! ([`Count::Reads`]), or any to an absent page ([`Count::Absences`]); OPT is the minimum of what is counted. Reading
//! ahead reads no less, so OPT is a bound for policies with read-ahead, too, if their misses are the pages they read.

mod builder;
mod leaving;
mod lru;
mod opt;
mod positions;
mod sequence;
mod stack;
#[cfg(test)]
mod tests;

pub use leaving::Leaving;
pub use lru::{lru, lru_misses};
pub use opt::opt;
pub use sequence::{Count, Sequence, TooLong};
pub use stack::lru_at;

/// Outcome of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// References that found their page resident, or had nothing to read.
    pub hits: u64,
    /// The others, first touches included.
    pub misses: u64,
    /// First touches that are misses: no policy avoids them.
    pub compulsory: u64,
}

impl Bound {
    fn new(sequence: &Sequence, misses: u64) -> Bound {
        Bound {
            hits: sequence.len() as u64 - misses,
            misses,
            compulsory: sequence.compulsory().into(),
        }
    }

    /// With room for everything, or for nothing; none: it depends.
    fn trivial(sequence: &Sequence, capacity: u32) -> Option<Bound> {
        match capacity {
            0 => Some(Bound::new(sequence, sequence.reading())),
            _ if capacity < sequence.room() => None,
            _ => Some(Bound::new(sequence, sequence.compulsory().into())),
        }
    }

    /// References of all kinds, first touches included.
    pub fn references(&self) -> u64 {
        self.hits + self.misses
    }

    /// Misses of pages that were there before.
    pub fn refaults(&self) -> u64 {
        self.misses - self.compulsory
    }
}
