//! What hardware a run wants.

use coldset_engine::batch::BATCH_MAX;
use coldset_engine::writeback::{DirtyParams, Threshold};
use coldset_machine::device::DeviceKind;
use coldset_machine::{FileSystem, ReadAhead, SwapConfig, Thp, ZoneSpec};

/// Settings of dirty pages, where they are not the kernel's defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DirtySettings {
    /// vm.dirty_ratio, percent of dirtyable memory.
    pub ratio: Option<u64>,
    /// vm.dirty_background_ratio, likewise.
    pub background_ratio: Option<u64>,
    /// No flusher runs of its own accord (vm.dirty_writeback_centisecs = 0).
    pub no_periodic: bool,
    /// Dirty pages of memcgs count to everybody's, as without the io controller.
    pub of_host: bool,
}

impl DirtySettings {
    /// The settings of a machine with these.
    #[must_use]
    pub fn over(self, default: DirtyParams) -> DirtyParams {
        let percent = |given: Option<u64>, default| given.map_or(default, Threshold::Percent);
        DirtyParams {
            dirty: percent(self.ratio, default.dirty),
            background: percent(self.background_ratio, default.background),
            dirty_writeback: match self.no_periodic {
                true => 0,
                false => default.dirty_writeback,
            },
            ..default
        }
    }
}

/// The kernel's default read-ahead of a device, KiB.
pub const READ_AHEAD_KB: u32 = 128;

/// Hardware and settings of its kernel, as an administrator would choose them. Sizes are those of the
/// scaled machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// What its counters begin with, where a run has several machines: `nodelay.`; empty for the one.
    pub name: String,
    /// CPUs, kept within 1 and 256. Dealt out to the nodes in equal runs.
    pub cpus: u64,
    /// Denominator of its scale; none: that of the run.
    pub scale: Option<u64>,
    /// NUMA nodes.
    pub nodes: u32,
    /// RAM in pages; none: only memcgs limit memory.
    pub ram: Option<u64>,
    /// Its zones; none: one, whose watermarks follow from its size.
    pub zones: Vec<ZoneSpec>,
    /// Free pages on the lists of CPUs are none that the marks count.
    pub cpu_lists: bool,
    /// Where anonymous pages can go.
    pub swap: SwapConfig,
    /// Devices with files, by index.
    pub devices: Vec<DeviceKind>,
    /// Small mappings share leaf tables, as in a kernel.
    pub shared_tables: bool,
    /// What a read of them takes, ns; none: what it takes devices of their kinds.
    pub read_lat_ns: Option<u64>,
    /// vm.swappiness.
    pub swappiness: u16,
    /// vm.page-cluster: a fault reads up to 2^this pages from a swap device.
    pub page_cluster: u32,
    /// vm.watermark_scale_factor: distance of the watermarks, ten-thousandths of a zone.
    pub watermark_scale_factor: u64,
    /// What reads and faults of files read ahead: as the kernel does by default, unless the experiment
    /// says otherwise, and why (`experiments/read_ahead.rs`).
    pub read_ahead: ReadAhead,
    /// Folios of an add batch, kept within 1 and 31.
    pub batch: u64,
    /// cgroup v2; v1 has no writeback by memcg.
    pub cgroup_v2: bool,
    /// What its files are on.
    pub file_system: FileSystem,
    /// Greatest order of a folio that its file systems make; 0: single pages.
    pub large_folios: u8,
    /// Huge pages of anonymous memory.
    pub thp: Thp,
    /// Dirty limits and flushers.
    pub dirty: DirtySettings,
    /// Writers are throttled at the dirty limits.
    pub dirty_balance: bool,
    /// Dirty pages of a memcg have limits and a flusher of their own.
    pub memcg_writeback: bool,
    /// Inline tasks compete for the CPU with flushers.
    pub inline_on_cpu: bool,
    /// An OOM kill ends the run.
    pub stop_at_oom: bool,
    /// The first fold of memcg statistics, ns; none: one interval after the start.
    pub fold_phase: Option<u64>,
    /// Check all invariants of the engine after every reclaim (slow).
    pub check: bool,
}

impl Default for Host {
    /// One CPU and an NVMe drive, no swap, memory without end; the kernel's defaults.
    fn default() -> Self {
        Self {
            name: String::new(),
            cpus: 1,
            scale: None,
            nodes: 1,
            ram: None,
            zones: Vec::new(),
            cpu_lists: false,
            swap: SwapConfig::None,
            devices: vec![DeviceKind::Nvme],
            shared_tables: false,
            read_lat_ns: None,
            swappiness: 60,
            page_cluster: 3,
            watermark_scale_factor: 10,
            read_ahead: ReadAhead::Windows { kb: READ_AHEAD_KB },
            batch: BATCH_MAX as u64,
            cgroup_v2: true,
            file_system: FileSystem::default(),
            large_folios: 0,
            thp: Thp::Never,
            dirty: DirtySettings::default(),
            dirty_balance: true,
            memcg_writeback: true,
            inline_on_cpu: false,
            stop_at_oom: false,
            fold_phase: None,
            check: false,
        }
    }
}
