//! The machine under a replay, as one asks for it.

use super::{Clock, FileDevice, FileExtents};
use crate::experiment::{Costs, DirtySettings};
use crate::traces::{About, Order};
use coldset_machine::{FileSystem, ReadAhead, Thp, ZoneSpec};

/// Whose write context inodes belong to (`docs/rules/writeback.md#owners`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Inodes {
    /// That of the memcg that dirties them first.
    #[default]
    FirstWriter,
    /// The root's: somebody outside of all memcgs has just written them.
    Root,
}

/// What there is as much of as a replay's limit says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Limit {
    /// What the cgroup may use (memory.max).
    #[default]
    Cgroup,
    /// What is free in the machine when the replay begins: nothing is limited, kswapd reclaims, and tasks that find less
    /// than the lowest mark reclaim for themselves.
    Machine {
        /// Its zones, which have that much memory between them in the proportion of their pages; none: one, whose
        /// watermarks follow from that much.
        zones: Vec<ZoneSpec>,
    },
}

/// What a trace is replayed on: settings that do not depend on the variant, the limit or the trace.
#[derive(Clone, Debug)]
pub struct ReplaySettings {
    /// What the limit is one of.
    pub limit: Limit,
    /// Index nodes and page tables are charged to the memcg, and so count against its limit.
    pub kernel_memory: bool,
    /// Anonymous pages of the program itself, always accessed.
    pub own_pages: u32,
    /// vm.swappiness, 0 to 200.
    pub swappiness: u16,
    /// Pages mapped round a fault of a file; 1: none.
    pub fault_around: u32,
    /// What buffered reads read ahead.
    pub read_ahead: ReadAhead,
    /// The device that the files are on.
    pub device: FileDevice,
    /// What the files are on.
    pub file_system: FileSystem,
    /// Greatest order of a folio that its file system makes of what a call writes or reads ahead; 0: single pages.
    pub large_folios: u8,
    /// How its file system keeps where the pages of files are.
    pub extents: FileExtents,
    /// Huge pages of anonymous memory.
    pub thp: Thp,
    /// Dirty limits and flushers.
    pub dirty: DirtySettings,
    /// Whose write context the inodes of the files belong to when the replay begins.
    pub inodes: Inodes,
    /// Time by access; none: the machine's own time.
    pub clock: Option<Clock>,
    /// Tasks take the time that the trace has between their accesses.
    pub pace: bool,
    /// Who of the tasks comes first. Where several are under way at once, there is no clock and there are no pages of the
    /// program itself: time passes as it does for them.
    pub order: Order,
    /// CPUs for tasks that are under way at once.
    pub cpus: u64,
    /// A program with a clock competes for its CPU with flushers; off: they have another.
    pub shares_cpu: bool,
    /// Denominator of the scale: shares of lists and times of flushers are those of a machine so many times the size.
    pub scale: u64,
    /// Costs of the machine.
    pub costs: Costs,
}

impl Default for ReplaySettings {
    /// Kernel memory counted, everything else as little as can be: no clock, no read-ahead, one task at a time.
    fn default() -> Self {
        Self {
            limit: Limit::Cgroup,
            kernel_memory: true,
            own_pages: 0,
            swappiness: 60,
            fault_around: 1,
            read_ahead: ReadAhead::default(),
            device: FileDevice::default(),
            file_system: FileSystem::default(),
            large_folios: 0,
            extents: FileExtents::default(),
            thp: Thp::Never,
            dirty: DirtySettings::default(),
            inodes: Inodes::default(),
            clock: None,
            pace: false,
            order: Order::Strict,
            cpus: 1,
            shares_cpu: false,
            scale: 1,
            costs: Costs::default(),
        }
    }
}

impl ReplaySettings {
    /// Tasks are tasks of the simulated machine, and take the time that they take there: several may be under way at once,
    /// or kswapd beside one.
    pub(super) fn in_machine_time(&self) -> bool {
        self.order.is_at_once() || self.limit != Limit::Cgroup
    }

    /// Successive writes of neighbouring whole pages are one call: large folios depend on how much is written at once, and
    /// a trace that does not say what programs asked for has a line for each page.
    pub(super) fn joins_writes_of(&self, trace: &About) -> bool {
        self.large_folios > 0 && !trace.has_calls()
    }
}
