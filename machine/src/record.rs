//! What simulated tasks do to memory and files, told to whoever records it.

use crate::io::read_ahead::Advice;
use crate::sim::TaskId;
use coldset_engine::{MmId, ObjectId};

/// What a task does. Pages are those of the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It begins.
    Begin,
    /// Loads or stores of one page after the other, by a mapping.
    Touch {
        /// What is mapped.
        object: ObjectId,
        /// It is anonymous memory.
        anon: bool,
        /// The first page.
        page: u32,
        /// How many.
        pages: u32,
        /// They are stores.
        write: bool,
    },
    /// One call that reads from a file.
    Read {
        /// The file.
        object: ObjectId,
        /// The advice that its descriptor has.
        advice: Advice,
        /// The first page.
        page: u32,
        /// How many.
        pages: u32,
    },
    /// One call that writes to a file.
    Write {
        /// The file.
        object: ObjectId,
        /// The first page.
        page: u32,
        /// How many.
        pages: u32,
        /// Whole pages, not a byte of each.
        whole: bool,
    },
    /// fsync of a file.
    Fsync(ObjectId),
    /// The file ends before this page.
    Truncate(ObjectId, u32),
    /// A mapping of the object is gone.
    Unmap(ObjectId),
    /// The address space is gone.
    Exit,
    /// A part of the work begins.
    Phase(u32),
}

/// A deed, and who did it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The task.
    pub task: TaskId,
    /// Its address space.
    pub mm: MmId,
    /// Time that it has computed or slept for since it began, ns.
    pub own_ns: u64,
    /// What it did.
    pub deed: Deed,
}

/// Takes what tasks do, in the order in which they begin it.
pub type Recorder = Box<dyn FnMut(Record)>;
