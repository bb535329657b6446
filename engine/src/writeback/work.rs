//! Why a flusher works, and a piece of its work.

use crate::ids::{Nanos, ObjectId, Pages, WbId};
use serde::Serialize;

/// Why a flusher works.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[repr(u8)]
pub enum FlushReason {
    /// More is dirty than the background threshold.
    Background = 0,
    /// The periodic pass over old inodes.
    Periodic = 1,
    /// Reclaim met a list of dirty pages only.
    Vmscan = 2,
    /// `sync` was called: everything dirty is written.
    Sync = 3,
    /// Laptop mode: the disk is running anyway.
    LaptopTimer = 4,
    /// A file system needs space.
    FsFreeSpace = 5,
    /// Pages of a memcg are dirtied through another memcg's wb.
    ForeignFlush = 6,
}

impl FlushReason {
    /// Number of reasons.
    pub const COUNT: usize = 7;

    /// Reasons that mean "write everything": one request a wb at a time.
    pub fn is_start_all(self) -> bool {
        matches!(self, Self::Vmscan | Self::LaptopTimer | Self::FsFreeSpace)
    }

    /// The name under which wake-ups are reported.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Periodic => "periodic",
            Self::Vmscan => "vmscan",
            Self::Sync => "sync",
            Self::LaptopTimer => "laptop_timer",
            Self::FsFreeSpace => "fs_free_space",
            Self::ForeignFlush => "foreign_flush",
        }
    }
}

/// A piece of work of a flusher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Work {
    /// What woke the flusher.
    pub reason: FlushReason,
    /// When it was asked for; a sync writes what was dirty by then.
    pub asked_at: Nanos,
    /// Pages still to write; `None` = no bound.
    pub left: Option<Pages>,
    /// Something was written since b_io was last refilled.
    pub(super) wrote: bool,
    /// b_io was refilled for this work.
    pub(super) started: bool,
}

impl Work {
    pub(super) fn new(reason: FlushReason, asked_at: Nanos, left: Option<Pages>) -> Self {
        Self {
            reason,
            asked_at,
            left,
            wrote: false,
            started: false,
        }
    }
}

/// What the worker writes next: up to `pages_max` dirty pages of one inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The wb whose worker writes it.
    pub wb: WbId,
    /// Inode to write pages of.
    pub inode: ObjectId,
    /// Most pages to start writing.
    pub pages_max: Pages,
    /// What woke the flusher.
    pub reason: FlushReason,
    /// The worker reports back by now, even if the slice is not used up.
    pub deadline: Nanos,
}
