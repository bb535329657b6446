//! What all actors share, and what each remembers: plain data that can be hashed.
//!
//! Two pages of one shared, writable mapping whose contents live in a block each (a swap slot, or
//! a block of a file), and one address space that runs on two CPUs. A store is a bit: page contents
//! are the set of stores they hold, so that a lost store is a missing bit.

use super::others::{Truncate, Writer};
use super::reclaim::Reclaim;
use super::threads::Program;
use std::hash::{Hash, Hasher};

/// Pages of the mapping.
pub(super) const PAGES: usize = 2;
/// Frames of memory: two that hold the pages, two to come back into.
pub(super) const FRAMES: usize = 4;
/// CPUs on which the address space has run.
pub(super) const CPUS: usize = 2;
/// Actors at most, the reclaimer among them.
pub(super) const ACTORS: usize = 4;
/// "No frame" and "no page".
pub(super) const NONE: u8 = 0xff;

/// A frame and the folio in it (one page each).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    /// Page of the mapping it belongs to, or [`NONE`] once it has left the index.
    pub page: u8,
    /// Block its write-out goes to; [`NONE`] if none is on its way.
    pub io: u8,
    /// References: index 1, each mapping entry 1, each holder 1. 0 in the index: frozen.
    pub refs: u8,
    /// Pins for DMA as the kernel counts them, those of a pinner that is yet to look again included.
    pub pins: u8,
    /// Actor that holds the folio lock.
    pub lock: u8,
    /// Stores it holds.
    pub data: u8,
    /// In use, as opposed to free memory.
    pub used: bool,
    /// Contents are there.
    pub uptodate: bool,
    /// On the list of the LRU.
    pub on_lru: bool,
    /// Marked dirty.
    pub dirty: bool,
    /// Under writeback.
    pub writeback: bool,
    /// The device has read it already and the end of the I/O is to come.
    pub io_read: bool,
    /// A device may write into it: a pin that has been confirmed.
    pub dma: bool,
}

impl Frame {
    pub const FREE: Frame = Frame {
        page: NONE,
        io: NONE,
        refs: 0,
        pins: 0,
        lock: NONE,
        data: 0,
        used: false,
        uptodate: false,
        on_lru: false,
        dirty: false,
        writeback: false,
        io_read: false,
        dma: false,
    };
}

/// A page of the mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    /// Index of the mapping: the frame that holds it, or [`NONE`].
    pub frame: u8,
    /// Page-table entry: the frame, or [`NONE`].
    pub entry: u8,
    /// The entry is dirty.
    pub entry_dirty: bool,
    /// Stores in its block.
    pub block: u8,
    /// Stores that have completed.
    pub done: u8,
    /// Cut off by truncation: no new accesses.
    pub gone: bool,
    /// Its block has been given back.
    pub block_gone: bool,
}

// Hashing is most of the work of the search: one word for each of these.
impl Hash for Frame {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let bits = [
            self.used,
            self.uptodate,
            self.on_lru,
            self.dirty,
            self.writeback,
            self.io_read,
            self.dma,
        ];
        let bits = bits.iter().fold(0, |all, &b| all << 1 | u8::from(b));
        to.write_u64(u64::from_le_bytes([
            self.page, self.io, self.refs, self.pins, self.lock, self.data, bits, 0,
        ]));
    }
}

impl Hash for Page {
    fn hash<H: Hasher>(&self, to: &mut H) {
        to.write_u64(u64::from_le_bytes([
            self.frame,
            self.entry,
            u8::from(self.entry_dirty),
            self.block,
            self.done,
            u8::from(self.gone),
            u8::from(self.block_gone),
            0,
        ]));
    }
}

/// A translation that a CPU has cached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Cached {
    /// The frame.
    pub frame: u8,
    /// The CPU knows the entry as dirty: a store needs no look at the page table.
    pub dirty: bool,
}

/// An actor's program counter and registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Task {
    /// No actor in this place.
    Absent,
    /// A reclaimer.
    Reclaim(Reclaim),
    /// A thread of the program.
    Program(Program),
    /// Truncation.
    Truncate(Truncate),
    /// An asynchronous writer.
    Writer(Writer),
    /// Nothing to do but let the device fail that many times.
    Device(u8),
}

/// A state of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    pub frames: [Frame; FRAMES],
    pub pages: [Page; PAGES],
    /// By CPU, then page.
    pub tlb: [[Option<Cached>; PAGES]; CPUS],
    /// The address space may have translations that a reclaimer has yet to flush.
    pub mm_pending: bool,
    pub tasks: [Task; ACTORS],
}

impl State {
    /// Some entry of the page table maps the frame.
    pub fn mapped(&self, f: usize) -> bool {
        self.pages.iter().any(|p| usize::from(p.entry) == f)
    }

    /// The CPU, if any, that may still reach the frame by a cached translation: to write without a
    /// look at the page table, or at all.
    pub fn cached(&self, f: usize, to_write: bool) -> Option<usize> {
        (0..CPUS).find(|&c| {
            self.tlb[c]
                .iter()
                .flatten()
                .any(|t| usize::from(t.frame) == f && (t.dirty || !to_write))
        })
    }

    /// What a load of page `p` that starts now would find in the end.
    pub fn view(&self, p: usize) -> u8 {
        match self.pages[p].frame {
            NONE => self.pages[p].block,
            f if self.frames[usize::from(f)].uptodate => self.frames[usize::from(f)].data,
            _ => self.pages[p].block,
        }
    }
}
