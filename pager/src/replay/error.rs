//! What a replay comes to, or what is wrong with a journal.

use std::io;

/// What is wrong with a journal, or with the engine that replays it.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read.
    #[error("reading the journal: {0}; check the path and its permissions")]
    Io(#[from] io::Error),
    /// It is not a journal, or not even its beginning is there.
    #[error("not a journal: {0}; record one with Pool::record or COLDSET_JOURNAL")]
    Format(String),
    /// It was written in another format.
    #[error(
        "the journal has format {0}, this version reads format 4; record it again, or replay it with \
         the version of coldset that wrote it"
    )]
    Version(String),
    /// Its bytes are not those that were written.
    #[error("the journal is damaged: {0}; copy it again from where it was recorded")]
    Damaged(String),
    /// An operation that cannot have been recorded.
    #[error("journal damaged at operation {at}: {what}; copy it again from where it was recorded")]
    DamagedAt {
        /// Operations before it.
        at: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The engine decided otherwise than when it was recorded.
    #[error(
        "operation {at}: {what}; the journal was written by another engine (version {written_by}), \
         or is not what was written: replay it with that version"
    )]
    Diverged {
        /// Operations before it.
        at: u64,
        /// What differs.
        what: String,
        /// Version of this crate that wrote the journal.
        written_by: String,
    },
}

/// A page that the engine gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Number of the region, in order of creation, from 1.
    pub region: u32,
    /// Page of it.
    pub page: u32,
}

/// What a replay came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Operations told.
    pub operations: u64,
    /// Decisions: requests of reclaim that were the recorded ones.
    pub requests: u64,
    /// Pages given up, in order, each as recorded.
    pub victims: Vec<Victim>,
    /// The journal has no end: the program was killed or the disk was full. All that is there has
    /// been replayed.
    pub truncated: bool,
    /// It begins in the middle of its pool's life.
    pub from_state: bool,
}
