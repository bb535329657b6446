//! The settings of a run that was measured, as far as the lab has them.

use super::near::LIMITS;
use super::release::{ends_slices_by_timer, has_large_folios};
use super::times::{each_time, reads_most, times};
use super::{Room, PAGE};
use crate::args::{RunsArgs, TaskArgs};
use crate::error::Failure;
use coldset_lab::experiment::{Costs, DirtySettings};
use coldset_lab::replay::{
    in_virtual_time, Clock, FileDevice, Inodes, Limit, ReplaySettings, LARGE_FOLIO_ORDER,
    READ_AHEAD_KB,
};
use coldset_lab::report::ReplayResult;
use coldset_lab::runner::{
    replay_all, Low, Memory, Progress, ReplayPlan, ReplayTable, Size, SwapSpec, Variant,
};
use coldset_lab::traces::{Order, Trace};
use coldset_machine::device::{DeviceKind, ZramAlgorithm};
use coldset_machine::{FileSystem, ReadAhead, SwapConfig};
use coldset_play::machine::Description;
use coldset_play::Tasks;
use indexmap::IndexMap;
use serde_json::Value;
use std::sync::Arc;

/// Most pages of a swap area of the lab.
const SWAP_MAX: u64 = (1 << 30) - 1;
/// Most pages that the lab maps round a fault.
const FAULT_AROUND_MAX: u64 = 512;
/// What kernels map round a fault unless they are told otherwise, bytes.
const FAULT_AROUND_USUAL: u64 = 64 << 10;

/// A device whose writes take so long holds writers up: what they wait for makes the times of a run.
const SLOW_NS: u64 = 1_000_000;

/// The settings of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    pub(super) memory: Size,
    /// What that is a limit of.
    pub(super) limit: Limit,
    pub(super) swap: SwapSpec,
    pub(super) swappiness: u16,
    /// Pages.
    pub(super) fault_around: u32,
    /// It could not be read.
    pub(super) assumed: bool,
    pub(super) dirty: DirtySettings,
    pub(super) device: FileDevice,
    /// Protection of tasks.
    pub(super) low: Vec<Low>,
    /// All tasks are in one group.
    pub(super) together: bool,
    /// Tasks take the time that the trace has.
    pub(super) pace: bool,
    /// Who of the tasks comes first.
    pub(super) order: Order,
    /// Of the machine.
    pub(super) cpus: u64,
    /// What the files are on.
    pub(super) file_system: FileSystem,
    /// What the device reads ahead where the trace advises nothing else, KiB.
    pub(super) read_ahead_kb: u32,
    /// When the accesses of the run were, if that is known and does not follow from what they wait for.
    pub(super) clock: Option<Clock>,
    /// The same run by run, where each run has predictions of its own.
    pub(super) clocks: Vec<Clock>,
    /// What each run had of the machine, if that limited them.
    pub(super) rooms: Vec<Room>,
    /// An instruction took a nanosecond.
    pub(super) virtual_time: bool,
    /// The kernel ended slices by a timer.
    pub(super) timed_slices: bool,
    /// The kernel's ext4 made large folios.
    pub(super) large_folios: bool,
    /// What the run had and the lab has not.
    pub(super) without: Vec<String>,
}

impl Setting {
    /// What is as usual, of a run with this limit: no swap.
    fn usual(memory: Size) -> Self {
        Self {
            memory,
            limit: Limit::Cgroup,
            swap: SwapSpec::None,
            swappiness: 60,
            fault_around: pages_around(FAULT_AROUND_USUAL),
            assumed: false,
            dirty: DirtySettings::default(),
            device: FileDevice::default(),
            low: Vec::new(),
            together: false,
            pace: false,
            order: Order::Strict,
            cpus: 1,
            file_system: FileSystem::default(),
            read_ahead_kb: READ_AHEAD_KB,
            clock: None,
            clocks: Vec::new(),
            rooms: Vec::new(),
            virtual_time: false,
            timed_slices: false,
            large_folios: false,
            without: Vec::new(),
        }
    }

    /// Of a run in a guest: with `zram` pages of swap, and so many bytes mapped round a fault.
    pub fn of_guest(memory: Size, zram: u64, swappiness: u16, fault_around: u64) -> Self {
        Self {
            swap: zram_of(zram),
            swappiness,
            fault_around: pages_around(fault_around),
            ..Self::usual(memory)
        }
    }

    /// With these dirty limits, and a device whose requests take so long, ns; none: an NVMe drive.
    #[must_use]
    pub fn with_device(self, dirty: DirtySettings, ns: Option<u64>) -> Self {
        let device = ns.map_or(self.device, |ns| FileDevice {
            kind: DeviceKind::Delayed,
            delay_write_ns: Some(ns),
        });
        Self {
            dirty,
            device,
            ..self
        }
    }

    /// Of a run on the machine that is described, with at most `swap_max` bytes of its swap.
    pub fn of_machine(memory: Size, machine: &Description, swap_max: Option<u64>) -> Self {
        let areas = &machine.swap;
        let kib: u64 = areas.iter().map(|(_, kib)| kib).sum();
        let pages = swap_max.map_or(kib / 4, |most| (kib / 4).min(most / PAGE));
        let zram = |(name, _): &&(String, u64)| name.starts_with("/dev/zram");
        let of_zram = areas.iter().filter(zram).count();
        let swap = match (pages, of_zram) {
            (0, _) => SwapSpec::None,
            (_, 0) => SwapSpec::Disk(Size::Pages(pages.min(SWAP_MAX)), DeviceKind::Nvme),
            _ => zram_of(pages),
        };
        let usual = Self::usual(memory);
        let around = machine.fault_around.map(pages_around);
        let device = machine.device.as_ref();
        let read_ahead_kb = device.map(|(_, kib)| (*kib).min(1 << 16) as u32);
        let mut setting = Self {
            swap,
            swappiness: machine.swappiness.unwrap_or(usual.swappiness),
            fault_around: around.unwrap_or(usual.fault_around),
            assumed: around.is_none(),
            read_ahead_kb: read_ahead_kb.unwrap_or(usual.read_ahead_kb),
            ..usual
        };
        if of_zram > 0 && of_zram < areas.len() {
            setting.leave_out("swap on another device beside zram");
        }
        setting
    }

    /// With this read-ahead of the device, KiB.
    #[must_use]
    pub fn with_read_ahead(self, kb: u32) -> Self {
        Self {
            read_ahead_kb: kb,
            ..self
        }
    }

    /// With files on this.
    #[must_use]
    pub fn with_file_system(self, file_system: FileSystem) -> Self {
        Self {
            file_system,
            ..self
        }
    }

    /// On so many CPUs.
    #[must_use]
    pub fn with_cpus(self, cpus: u64) -> Self {
        Self { cpus, ..self }
    }

    /// In virtual time, where an instruction takes a nanosecond.
    #[must_use]
    pub fn in_virtual_time(self) -> Self {
        Self {
            virtual_time: true,
            ..self
        }
    }

    /// Of a run on the kernel whose label begins with its release.
    #[must_use]
    pub fn on_kernel(self, label: &str) -> Self {
        Self {
            timed_slices: ends_slices_by_timer(label),
            large_folios: has_large_folios(label),
            ..self
        }
    }

    /// With tasks that are played as these arguments say.
    ///
    /// # Errors
    /// A protection that is none.
    pub fn with_tasks(mut self, args: &TaskArgs) -> Result<Self, Failure> {
        let protection = args.protection()?;
        self.low = protection.tasks;
        if protection.whole.is_some() {
            self.leave_out("memory.low of the whole");
        }
        self.pace = args.pace();
        self.together = args.tasks() != Tasks::Processes;
        self.order = args.order;
        Ok(self)
    }

    /// Limited by the machine's free memory, as in guests of `--limit machine`.
    #[must_use]
    pub fn limited_by_machine(self) -> Self {
        let limit = Limit::Machine { zones: Vec::new() };
        Self { limit, ..self }
    }

    /// With the marks and the memory that the machine had in these runs, if it is what limited them.
    #[must_use]
    pub fn on_machine_of(self, played: &Value) -> Self {
        if self.limit == Limit::Cgroup {
            return self;
        }
        match Room::of(played) {
            Some(room) => self.with_rooms(room, Room::of_each(played).unwrap_or_default()),
            None => self,
        }
    }

    /// With this memory of the machine: on average, and that of each run, or none.
    #[must_use]
    pub fn with_rooms(self, mean: Room, rooms: Vec<Room>) -> Self {
        Self {
            memory: Size::Pages(mean.pages()),
            limit: mean.limit(),
            rooms,
            ..self
        }
    }

    /// The memory of the machine, if that is the limit and is known.
    pub(super) fn room(&self) -> Option<Room> {
        match &self.limit {
            Limit::Machine { zones } if !zones.is_empty() => Some(Room {
                zones: zones.clone(),
            }),
            _ => None,
        }
    }

    /// At the times of the runs that were measured: what the kernel does by time (flushers, the fold of statistics) comes
    /// between the same accesses. Those of each run for the predictions of that run, where there are some; else their mean.
    /// Not where the order, or a slow device, makes the times.
    #[must_use]
    pub fn at_times_of(self, played: &Value, runs: RunsArgs) -> Self {
        let slow =
            self.device.delay_write_ns.is_some_and(|ns| ns >= SLOW_NS) && !reads_most(played);
        if self.order.is_at_once() || self.pace || slow {
            return self;
        }
        let of_each = runs.near == Some(LIMITS) || !self.rooms.is_empty();
        let clocks = of_each.then(|| each_time(played)).flatten();
        self.with_clocks(times(played), clocks.unwrap_or_default())
    }

    /// At these times: one for all predictions, if they are known, and those of each run, or none.
    #[must_use]
    pub fn with_clocks(self, mean: Option<Clock>, clocks: Vec<Clock>) -> Self {
        // The limit that was asked for is in the middle.
        let own = clocks.get(LIMITS as usize / 2).cloned();
        Self {
            clock: own.or(mean),
            clocks,
            ..self
        }
    }

    /// The run had this, and the prediction has not.
    pub fn leave_out(&mut self, what: impl Into<String>) {
        self.without.push(what.into());
    }

    pub(super) fn plan(&self, trace: &Trace, variants: Vec<Variant>) -> ReplayPlan {
        ReplayPlan {
            settings: ReplaySettings {
                limit: self.limit.clone(),
                pace: self.pace,
                order: self.order,
                cpus: self.cpus,
                read_ahead: match trace.has_advice() {
                    true => ReadAhead::Windows {
                        kb: self.read_ahead_kb,
                    },
                    false => ReadAhead::default(),
                },
                swappiness: self.swappiness,
                fault_around: self.fault_around,
                dirty: self.dirty,
                // Whoever plays makes the files outside of the group.
                inodes: Inodes::Root,
                device: self.device,
                file_system: self.file_system,
                large_folios: self.folio_order(trace),
                clock: self.clock.clone(),
                costs: self.costs(),
                shares_cpu: self.virtual_time && self.cpus == 1,
                ..ReplaySettings::default()
            },
            swap: Some(self.swap.clone()),
            low: self.low.clone(),
            ..ReplayPlan::new(variants, self.memory)
        }
    }

    /// Greatest order of a folio of its files. A trace that says nothing of calls is played page by page, and not read
    /// ahead.
    pub(super) fn folio_order(&self, trace: &Trace) -> u8 {
        let large = self.large_folios && self.file_system == FileSystem::Ext4;
        match large && trace.has_calls() {
            true => LARGE_FOLIO_ORDER,
            false => 0,
        }
    }

    /// Those of the CPUs that it ran on.
    pub(super) fn costs(&self) -> Costs {
        match self.virtual_time {
            true => in_virtual_time(self.timed_slices),
            false => Costs::default(),
        }
    }

    /// A table for each limit of the plan.
    pub(super) fn replays(
        &self,
        trace: &Trace,
        plan: &ReplayPlan,
    ) -> Result<Vec<ReplayTable>, Failure> {
        let joined = (self.together && trace.tasks > 1).then(|| match self.order.is_at_once() {
            true => trace.of_one_process(),
            false => trace.of_one_task(),
        });
        let trace = joined.as_ref().unwrap_or(trace);
        Ok(replay_all(trace, plan, |_| Progress::silent())?)
    }

    pub(super) fn table(&self, trace: &Trace) -> ReplayTable {
        ReplayTable {
            memory: Memory {
                size: self.memory,
                pages: self.memory.pages_of(trace.unique_pages),
            },
            // An area that the lab cannot have is none that it shows.
            swap: self
                .swap
                .config(trace.unique_pages)
                .unwrap_or(SwapConfig::None),
            result: ReplayResult::default(),
            series: IndexMap::new(),
            curves: Arc::default(),
            alone: IndexMap::new(),
            scans: IndexMap::new(),
        }
    }
}

pub(super) fn zram_of(pages: u64) -> SwapSpec {
    match pages.min(SWAP_MAX) {
        0 => SwapSpec::None,
        pages => SwapSpec::Zram(Size::Pages(pages), ZramAlgorithm::Lz4),
    }
}

/// As the kernel takes it: the power of two below, a page at least.
pub(super) fn pages_around(bytes: u64) -> u32 {
    let pages = (bytes / PAGE).clamp(1, FAULT_AROUND_MAX);
    1 << pages.ilog2()
}
