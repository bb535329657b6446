//! What may never happen.

use super::state::{State, FRAMES, NONE, PAGES};
use std::fmt;

/// The property that an alarm breaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Property {
    /// Every completed store is in the page, or in the block that a refault reads.
    NoStoreLost,
    /// No page is freed while somebody can reach it.
    NoFreeInReach,
    /// No lock is taken twice, let go by another, or kept for ever; the index loses nothing foreign.
    LocksAndIndex,
    /// Every run ends.
    EveryRunEnds,
    /// Reclaim starts write-out only of a folio that nobody can write without a fault, once, and to
    /// a block that is its own.
    QuietWriteOut,
}

impl Property {
    /// In the order of the reports.
    pub const ALL: [Property; 5] = [
        Property::NoStoreLost,
        Property::NoFreeInReach,
        Property::LocksAndIndex,
        Property::EveryRunEnds,
        Property::QuietWriteOut,
    ];

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoStoreLost => "no store is lost",
            Self::NoFreeInReach => "no page is freed while it can be reached",
            Self::LocksAndIndex => "locks and index stay sound",
            Self::EveryRunEnds => "every run ends",
            Self::QuietWriteOut => "write-out starts only when nobody can write",
        }
    }
}

/// A property broken, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    Lost { page: u8 },
    LostLater { frame: u8 },
    FreedMapped { frame: u8 },
    FreedCached { frame: u8, cpu: u8 },
    FreedPinned { frame: u8 },
    FreedHeld { frame: u8 },
    FreedWriting { frame: u8 },
    LockedTwice { frame: u8 },
    LockForeign { frame: u8 },
    LockKept { frame: u8 },
    IndexForeign { page: u8 },
    UnmapReachable { page: u8, cpu: u8 },
    Stuck,
    Spins,
    WriteMapped { frame: u8 },
    WriteCached { frame: u8, cpu: u8 },
    WritePinned { frame: u8 },
    WriteTwice { frame: u8 },
    WriteForeign { page: u8 },
}

impl Alarm {
    /// Which property it breaks.
    pub fn property(self) -> Property {
        match self {
            Self::Lost { .. } | Self::LostLater { .. } => Property::NoStoreLost,
            Self::FreedMapped { .. }
            | Self::FreedCached { .. }
            | Self::FreedPinned { .. }
            | Self::FreedHeld { .. }
            | Self::FreedWriting { .. }
            | Self::UnmapReachable { .. } => Property::NoFreeInReach,
            Self::LockedTwice { .. }
            | Self::LockForeign { .. }
            | Self::LockKept { .. }
            | Self::IndexForeign { .. } => Property::LocksAndIndex,
            Self::Stuck | Self::Spins => Property::EveryRunEnds,
            Self::WriteMapped { .. }
            | Self::WriteCached { .. }
            | Self::WritePinned { .. }
            | Self::WriteTwice { .. }
            | Self::WriteForeign { .. } => Property::QuietWriteOut,
        }
    }

    /// A write-out that was not quiet loses something only later, or not at all: the search goes
    /// on and names it only if nothing worse is found.
    pub fn mild(self) -> bool {
        self.property() == Property::QuietWriteOut
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { page } => write!(
                out,
                "a store to page {page} is lost: neither its folio nor its block holds it"
            ),
            Self::LostLater { frame } => write!(
                out,
                "a store to frame {frame} is lost: its folio is back on the LRU and counts as clean, but its block lacks the store"
            ),
            Self::FreedMapped { frame } => write!(out, "frame {frame} is freed while it is mapped"),
            Self::FreedCached { frame, cpu } => write!(
                out,
                "frame {frame} is freed while CPU {cpu} can still reach it by a stale translation"
            ),
            Self::FreedPinned { frame } => {
                write!(out, "frame {frame} is freed while it is pinned for DMA")
            }
            Self::FreedHeld { frame } => {
                write!(out, "frame {frame} is freed while somebody holds a reference")
            }
            Self::FreedWriting { frame } => {
                write!(out, "frame {frame} is freed while its write-out is under way")
            }
            Self::LockedTwice { frame } => {
                write!(out, "an actor takes the lock of frame {frame} twice")
            }
            Self::LockForeign { frame } => write!(
                out,
                "an actor lets go of the lock of frame {frame}, which it does not hold"
            ),
            Self::LockKept { frame } => {
                write!(out, "an actor ends and still holds the lock of frame {frame}")
            }
            Self::IndexForeign { page } => write!(
                out,
                "a folio is taken out of the index at page {page} where it no longer is"
            ),
            Self::UnmapReachable { page, cpu } => write!(
                out,
                "page {page} has been unmapped, but CPU {cpu} can still reach it by a stale translation"
            ),
            Self::Stuck => write!(out, "nobody can go on, and not everybody is at the end"),
            Self::Spins => write!(out, "these steps can repeat for ever"),
            Self::WriteMapped { frame } => {
                write!(out, "write-out of frame {frame} starts while it is mapped")
            }
            Self::WriteCached { frame, cpu } => write!(
                out,
                "write-out of frame {frame} starts while CPU {cpu} can still write by a stale translation"
            ),
            Self::WritePinned { frame } => write!(
                out,
                "write-out of frame {frame} starts while a device may write into it"
            ),
            Self::WriteTwice { frame } => write!(
                out,
                "write-out of frame {frame} starts while another is under way"
            ),
            Self::WriteForeign { page } => write!(
                out,
                "a write-out goes to the block of page {page}, which has been given back"
            ),
        }
    }
}

/// What must hold in every state, whatever the next step is.
pub(super) fn broken(s: &State) -> Option<Alarm> {
    for p in 0..PAGES {
        let page = &s.pages[p];
        if !page.gone && page.done & !s.view(p) != 0 {
            return Some(Alarm::Lost { page: p as u8 });
        }
    }
    for f in 0..FRAMES {
        // Whoever finds such a folio may free it without writing it.
        let frame = &s.frames[f];
        let free_for_all = frame.used
            && frame.on_lru
            && frame.uptodate
            && frame.page != NONE
            && frame.lock == NONE
            && frame.pins == 0
            && !frame.dirty
            && !frame.writeback;
        if free_for_all {
            let page = &s.pages[usize::from(frame.page)];
            let entry_dirty = usize::from(page.entry) == f && page.entry_dirty;
            if !entry_dirty && !page.gone && page.done & frame.data & !page.block != 0 {
                return Some(Alarm::LostLater { frame: f as u8 });
            }
        }
    }
    None
}
