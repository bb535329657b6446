//! What may never happen.

use crate::cases::Kind;
use crate::world::{World, FRAMES, NONE, PAGES};
use coldset_engine::Flags;
use std::fmt;

/// The property that an alarm breaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Property {
    /// Every completed store is in the page, or in the block that a refault reads.
    NoStoreLost,
    /// No page is freed while somebody can reach it.
    NoFreeInReach,
    /// No lock is passed over, let go by another, or kept for ever; the index loses nothing foreign, no
    /// folio goes astray, no assertion of the engine fails.
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
            Self::LocksAndIndex => "locks, lists and index stay sound",
            Self::EveryRunEnds => "every run ends",
            Self::QuietWriteOut => "write-out starts only when nobody can write",
        }
    }
}

/// A property broken, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alarm {
    Lost { page: u8 },
    LostLater { frame: u8 },
    FreedMapped { frame: u8 },
    FreedCached { frame: u8, cpu: u8 },
    FreedPinned { frame: u8 },
    FreedHeld { frame: u8 },
    FreedWriting { frame: u8 },
    LockForeign { frame: u8 },
    LockKept { frame: u8 },
    IndexForeign { page: u8 },
    Astray { frame: u8 },
    Check,
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
            Self::LockForeign { .. }
            | Self::LockKept { .. }
            | Self::IndexForeign { .. }
            | Self::Astray { .. }
            | Self::Check => Property::LocksAndIndex,
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
            Self::LockForeign { frame } => write!(
                out,
                "somebody acts on frame {frame} or unlocks it while another holds its lock"
            ),
            Self::LockKept { frame } => {
                write!(out, "everybody is at the end, and frame {frame} is locked")
            }
            Self::IndexForeign { page } => write!(
                out,
                "a folio is taken out of the index at page {page} where it no longer is"
            ),
            Self::Astray { frame } => write!(
                out,
                "everybody is at the end, and the folio in frame {frame} is on no list"
            ),
            Self::Check => write!(out, "an assertion of the engine fails"),
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

/// What must hold in every state, whatever the next step is. `over`: everybody is at the end.
pub(crate) fn broken(w: &World, over: bool) -> Option<Alarm> {
    for p in 0..PAGES {
        let page = &w.pages[p];
        if !page.gone && page.done & !w.view(p) != 0 {
            return Some(Alarm::Lost { page: p as u8 });
        }
    }
    for f in (0..FRAMES).filter(|&f| w.refs(f) > 0) {
        let (frame, at) = (f as u8, &w.frames[f]);
        let locked = w.has(f, Flags::LOCKED);
        if at.lock != NONE && !locked {
            return Some(Alarm::LockForeign { frame });
        }
        if over && locked {
            return Some(Alarm::LockKept { frame });
        }
        if over && !w.has(f, Flags::LRU) && !w.batched(f) {
            return Some(Alarm::Astray { frame });
        }
        if free_for_all(w, f) {
            let page = &w.pages[usize::from(at.page)];
            let entry_dirty = page.entry == frame && page.entry_dirty;
            if !entry_dirty && !page.gone && page.done & at.data & !page.block != 0 {
                return Some(Alarm::LostLater { frame });
            }
        }
    }
    None
}

/// Whoever finds such a folio may free it without writing it.
fn free_for_all(w: &World, f: usize) -> bool {
    let busy = [Flags::LOCKED, Flags::PINNED, Flags::DIRTY, Flags::WRITEBACK];
    let has_block = w.setting.kind != Kind::Anon || w.has(f, Flags::SWAPCACHE);
    w.has(f, Flags::LRU)
        && w.frames[f].uptodate
        && usize::from(w.pages[usize::from(w.frames[f].page)].frame) == f
        && !busy.iter().any(|&flag| w.has(f, flag))
        && w.frames[f].pins == 0
        && w.frames[f].io == NONE
        && has_block
}
