//! Replaying a trace of page accesses over policy variants.

mod at_once;
pub mod clock;
mod costs;
mod counters;
mod folds;
pub mod inspect;
pub mod outside;

mod pace;
mod player;
pub mod run;
mod settings;
mod stage;
mod steps;
#[cfg(test)]
mod twins;

pub use crate::experiment::READ_AHEAD_KB;
pub use clock::Clock;
pub use costs::{in_virtual_time, DEVIATIONS};
pub use inspect::{Command, LruvecDump};
pub use outside::OutsidePolicy;
pub use player::SeriesPoint;
pub use run::{replay, Replay, ReplayError, TASKS_COUNTED};
pub use settings::{Inodes, Limit, ReplaySettings};

pub use coldset_machine::EXTENTS_IN_INODE;

use crate::experiment::{Host, RunInput};
use crate::rig::Rig;
use coldset_engine::Switches;
use coldset_machine::device::DeviceKind;
use coldset_machine::{MachineError, SwapConfig, ZoneSpec};

/// The device of the files of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileDevice {
    /// What it is.
    pub kind: DeviceKind,
    /// How much longer each of its writes takes behind a delay target, ns.
    pub delay_write_ns: Option<u64>,
}

impl Default for FileDevice {
    /// A consumer NVMe drive.
    fn default() -> Self {
        Self {
            kind: DeviceKind::Nvme,
            delay_write_ns: None,
        }
    }
}

/// How many runs of pages the files of a replay consist of on their device. A file of more runs than its inode has room
/// for has blocks that say where they are (`docs/rules/index-blocks.md`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileExtents {
    /// By number of the object.
    pub of: Vec<u32>,
    /// Of all other files.
    pub others: u32,
    /// Nobody else looks up blocks of the file system: a CPU holds those it has looked up last.
    pub held: bool,
}

impl Default for FileExtents {
    /// Files in one piece.
    fn default() -> Self {
        Self {
            of: Vec::new(),
            others: 1,
            held: false,
        }
    }
}

impl FileExtents {
    /// Runs of the object with this number.
    pub(crate) fn number(&self, object: usize) -> u32 {
        self.of.get(object).copied().unwrap_or(self.others)
    }
}

/// How a trace is replayed.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// What it is replayed on.
    pub settings: ReplaySettings,
    /// The memcg's limit, pages.
    pub memory: u64,
    /// Where anonymous pages can go.
    pub swap: SwapConfig,
    /// A store to anonymous memory loads its page first, as `x += 1` does on an emulated CPU: whoever
    /// faults, faults for a load.
    pub loads_first: bool,
    /// Seed of what is random in the machine: bins of the memcg LRU, devices.
    pub seed: u64,
    /// Phase of the fold of memcg statistics, ns.
    pub fold_phase: u64,
    /// Without a clock: fold whenever this many accesses have missed, for the machine's own time is too
    /// short for the fold every 2 s (`docs/rules/memcg.md`); 0 = by time only.
    pub fold_every: u64,
    /// The first of these folds comes after this many misses.
    pub fold_first: u64,
    /// memory.low of the memcg of a task, pages. With any, every task has a memcg of its own.
    pub low: Vec<(u16, u64)>,
    /// Where tasks have memcgs of their own, making those charges the limited one, and what the CPU keeps of that
    /// charge is not given back before the tasks begin (`docs/rules/memcg.md#charging`).
    pub groups_charged: bool,
    /// memory.max of the memcg of a task, pages; likewise.
    pub max: Vec<(u16, u64)>,
    /// Run the invariant checks after every reclaim (slow).
    pub check: bool,
    /// Assignments `switch=value` on top of the variant.
    pub set: Vec<String>,
    /// Decides in place of the variant's policy. Accesses come in the order of the trace then.
    pub outside: Option<OutsidePolicy>,
    /// Record a series point at each listed point of the clock.
    pub series: bool,
    /// Samples to take at equal distances over the accesses; 0 = none. They change nothing.
    pub sample_points: usize,
    /// Debug commands at the end, for every memcg, in order.
    pub commands: Vec<Command>,
    /// Record what the lists hold in the end, after the commands.
    pub inspect: bool,
    /// Write down what tasks scan.
    pub scans: bool,
}

impl ReplayOptions {
    /// A limit of `memory` pages, everything else at its default.
    pub fn new(memory: u64) -> Self {
        Self {
            settings: ReplaySettings::default(),
            memory,
            swap: SwapConfig::None,
            loads_first: false,
            seed: 1,
            fold_phase: 2_000_000_000,
            fold_every: memory / FOLD_SHARE,
            fold_first: memory / FOLD_SHARE,
            groups_charged: false,
            low: Vec::new(),
            max: Vec::new(),
            check: false,
            set: Vec::new(),
            outside: None,
            series: false,
            sample_points: 0,
            commands: Vec::new(),
            inspect: false,
            scans: false,
        }
    }
}

impl ReplayOptions {
    /// The machine to replay on.
    pub(crate) fn rig(&self, variant: &str, switches: Switches) -> Result<Rig, MachineError> {
        let on = &self.settings;
        let mut input = RunInput {
            deviations: DEVIATIONS,
            scale: on.scale,
            costs: on.costs.clone(),
            seed: self.seed,
            ..RunInput::new(variant, switches)
        };
        for (name, value) in [
            ("fault_around_max_ptes", on.fault_around.into()),
            ("kernel_memory_enabled", on.kernel_memory.into()),
        ] {
            input.costs.set(name, value).expect("a row of the table");
        }
        if let Some(ns) = on.device.delay_write_ns {
            let row = input.costs.set("delay_write_ns", ns);
            row.expect("a row of the table");
        }
        let (ram, zones) = match &on.limit {
            Limit::Cgroup => (None, Vec::new()),
            Limit::Machine { zones } => (Some(self.memory), shared(self.memory, zones)),
        };
        let host = Host {
            cpus: on.cpus,
            nodes: zones.last().map_or(1, |z| z.node + 1),
            ram,
            zones,
            cpu_lists: on.scale == 1,
            swap: self.swap.clone(),
            swappiness: on.swappiness,
            read_ahead: on.read_ahead,
            devices: vec![on.device.kind],
            shared_tables: true,
            read_lat_ns: on.clock.as_ref().and_then(Clock::read_ns),
            file_system: on.file_system,
            large_folios: on.large_folios,
            thp: on.thp,
            dirty: on.dirty,
            memcg_writeback: !on.dirty.of_host,
            inline_on_cpu: on.shares_cpu,
            fold_phase: Some(self.fold_phase),
            check: self.check,
            ..Host::default()
        };
        Rig::new(&input, host)
    }
}

/// Greatest order of a folio with large folios on: 256 pages, as ext4 was seen to make
/// (`docs/rules/large-folios.md`).
pub const LARGE_FOLIO_ORDER: u8 = 8;

/// Zones of so much memory, in the proportion of these.
fn shared(memory: u64, zones: &[ZoneSpec]) -> Vec<ZoneSpec> {
    let all: u64 = zones.iter().map(|z| z.pages).sum();
    let part = |pages: u64| u128::from(memory) * u128::from(pages) / u128::from(all.max(1));
    let (mut below, mut ends) = (0, 0);
    let mut each = Vec::with_capacity(zones.len());
    for z in zones {
        below += z.pages;
        let end = part(below) as u64;
        let pages = end - std::mem::replace(&mut ends, end);
        each.push(ZoneSpec { pages, ..*z });
    }
    each
}

/// Without a clock, statistics are folded each time this share of the limit has been missed:
/// limit/8 (`docs/rules/memcg.md`).
pub const FOLD_SHARE: u64 = 8;

/// Least limit of a replay, pages: room for the kernel's own pages and one batch of reclaim.
pub const MEMORY_MIN: u64 = 128;
