//! What machine to simulate.

use crate::device::{DeviceError, DeviceKind};
use crate::io::file_system::FileSystem;
use crate::io::read_ahead::ReadAhead;
use crate::params::Params;
use coldset_engine::memcg::MemcgError;
use coldset_engine::swap::zram::ZramError;
use coldset_engine::writeback::{DirtyParamError, DirtyParams};
use coldset_engine::{Config, Switches};

/// Swap of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SwapConfig {
    /// None: anonymous memory cannot leave.
    #[default]
    None,
    /// zram: compressed pages in the memory of the machine.
    Zram {
        /// Slots (pages).
        pages: u32,
        /// Algorithm by name.
        algorithm: String,
    },
    /// A swap area on a device of its own.
    Disk {
        /// Slots (pages).
        pages: u32,
        /// The device that swap is on.
        device: DeviceKind,
    },
}

/// Transparent huge pages of anonymous memory, as `/sys/kernel/mm/transparent_hugepage/enabled` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Thp {
    /// Single pages.
    #[default]
    Never,
    /// Wherever a fault finds 2 MiB empty, and memory for them without reclaim.
    Always,
}

/// Free pages of RAM at which the kernel does something (`docs/rules/zones.md#watermarks`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Requests reclaim for themselves.
    pub min: u64,
    /// kswapd is woken.
    pub low: u64,
    /// kswapd stops.
    pub high: u64,
}

impl Marks {
    /// They are in order, and of less than this much memory.
    pub(crate) fn check(self, memory: u64) -> Result<(), MachineError> {
        let Self { min, low, high } = self;
        match 0 < min && min < low && low < high && high < memory {
            true => Ok(()),
            false => Err(MachineError::Range {
                what: "watermarks",
                value: format!("{min},{low},{high}"),
                range: "three numbers of pages, each greater than the one before, and less memory than there is",
            }),
        }
    }
}

/// A zone of a machine, where it is told (`docs/rules/zones.md#several-zones`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneSpec {
    /// Its node.
    pub node: u32,
    /// Its part of the machine's memory, pages.
    pub pages: u64,
    /// Its watermarks.
    pub marks: Marks,
    /// Pages that it holds back beside them, as long as a higher zone would do (`protection` in `/proc/zoneinfo`).
    pub reserve: u64,
    /// Pages that move at once between it and the lists of its CPUs (`batch` in `/proc/zoneinfo`); none: `pcp_batch_pages`.
    pub batch: Option<u64>,
}

/// What a machine is made of.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// CPUs, at most 256.
    pub cpus: u16,
    /// The engine's sizes. CPUs and tick are those of this configuration and of the costs.
    pub engine: Config,
    /// The engine's behaviour.
    pub switches: Switches,
    /// Every cost, by name.
    pub params: Params,
    /// RAM in pages that user memory can take; none = limited by memcgs only.
    pub ram: Option<u64>,
    /// Its zones by node, those of a node lowest first, whose pages add up to all of it; none: one zone of each node, whose
    /// marks follow from its size.
    pub zones: Vec<ZoneSpec>,
    /// Free pages that CPUs keep on lists of their own are none that the marks count. Off at a scale, where they would be
    /// too many.
    pub cpu_lists: bool,
    /// Where anonymous memory can go.
    pub swap: SwapConfig,
    /// Devices with files, by index.
    pub devices: Vec<DeviceKind>,
    /// Mappings of less than a leaf table lie next to each other and share leaf tables, as in a kernel. Without, each has
    /// its own: at a scale they may stand for large ones.
    pub shared_tables: bool,
    /// What a read of any of them takes before its transfer, ns; none: what it takes devices of their kinds.
    pub read_lat_ns: Option<u64>,
    /// Dirty limits and flusher timing at full scale; their tick is that of the costs, their times
    /// shrink with [`Config::time_scale`].
    pub dirty: DirtyParams,
    /// Writers are throttled at the dirty limits.
    pub dirty_balance: bool,
    /// Dirty pages of a memcg have a flusher and limits of their own (cgroup v2 with its io
    /// controller); off, and always under v1: the machine's.
    pub memcg_writeback: bool,
    /// Pages mapped around a file fault, a power of two; 1 = none.
    pub fault_around: u32,
    /// What reads and faults of files read ahead, on all devices ([`crate::World::set_read_ahead`]: of one).
    pub read_ahead: ReadAhead,
    /// Pages that a fault reads from a swap device at most, as a power of two (`vm.page-cluster`, 3
    /// in Linux): neighbours in the mapping that are in swap, too. 0 = none are read ahead.
    pub page_cluster: u32,
    /// Distance of the watermarks in ten-thousandths of a zone (`vm.watermark_scale_factor`, 10 in Linux).
    pub watermark_scale_factor: u64,
    /// Neighbours that a fault maps count as hits, which lets faults read round them for longer (up to
    /// 7.1; `docs/rules/read-ahead.md`).
    pub neighbours_are_hits: bool,
    /// Windows that a mark starts end at a multiple of four pages, or of larger folios (6.18; `docs/rules/read-ahead.md#kernels`).
    pub windows_are_cut: bool,
    /// Of the cached pages before a miss, one less than the largest window has is counted (up to 7.1).
    pub counts_one_less: bool,
    /// The swap cache is not bypassed for synchronous swap devices (7.0; `docs/rules/swap.md`).
    pub swap_cache_always: bool,
    /// Compressed contents of a page are kept on the page's node if it has room (6.16); off: on that of the CPU that reclaims
    /// (`docs/rules/swap.md#zram`).
    pub compressed_near_page: bool,
    /// Inline tasks occupy a CPU while they work; off: they have one of their own (`docs/rules/machine.md#a-guests-cpu`).
    pub inline_on_cpu: bool,
    /// What the files are on, on all devices.
    pub file_system: FileSystem,
    /// Greatest order of a folio that the file systems of all devices make, up to 9; 0 = single pages
    /// ([`crate::World::set_large_folios`]: of one; `docs/rules/large-folios.md`).
    pub large_folios: u8,
    /// Faults in anonymous memory get huge pages (`docs/rules/huge-pages.md`).
    pub thp: Thp,
    /// Index nodes and page tables are charged to the memcg.
    pub kernel_memory: bool,
    /// A CPU that leaves an address space stays in its mask until a flush trims it (6.14 and later);
    /// off: it leaves the mask when it loads another (`docs/rules/tlb.md`).
    pub lazy_cpumask: bool,
    /// Seed of devices and of everything random in the machine.
    pub seed: u64,
    /// An OOM kill stops the simulation ([`crate::World::ooms`] tells of it).
    pub stop_at_oom: bool,
    /// Run the engine's invariant checks after every reclaim.
    pub check: bool,
    /// Samples over virtual time to keep at most ([`crate::samples`]); 0 = none are taken.
    pub sample_points: usize,
}

impl MachineConfig {
    /// One CPU, one NVMe drive, no swap, everything at its default.
    pub fn new(switches: Switches) -> Self {
        Self {
            cpus: 1,
            lazy_cpumask: !switches.is_612(),
            neighbours_are_hits: !switches.counters_72,
            windows_are_cut: !switches.is_612(),
            counts_one_less: !switches.counters_72,
            swap_cache_always: switches.swap_cache_always,
            compressed_near_page: !switches.is_612(),
            inline_on_cpu: false,
            engine: Config::default(),
            switches,
            params: Params::default(),
            ram: None,
            zones: Vec::new(),
            cpu_lists: false,
            swap: SwapConfig::None,
            devices: vec![DeviceKind::Nvme],
            shared_tables: false,
            read_lat_ns: None,
            dirty: DirtyParams::default(),
            dirty_balance: true,
            memcg_writeback: true,
            fault_around: 16,
            read_ahead: ReadAhead::default(),
            page_cluster: 3,
            watermark_scale_factor: 10,
            file_system: FileSystem::default(),
            large_folios: 0,
            thp: Thp::Never,
            kernel_memory: false,
            seed: 1,
            stop_at_oom: false,
            check: false,
            sample_points: 0,
        }
    }
}

/// Why a machine cannot be built or an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Settings of memcgs that cannot work.
    #[error(transparent)]
    Memcg(#[from] MemcgError),
    /// Dirty limits that cannot work.
    #[error(transparent)]
    Dirty(#[from] DirtyParamError),
    /// zram settings.
    #[error(transparent)]
    Zram(#[from] ZramError),
    /// A device failed.
    #[error("{0}; the data in memory is kept, retry or use another device")]
    Device(DeviceError),
    /// A setting that cannot work.
    #[error("{what}: {value} is out of range; use {range}")]
    Range {
        /// Name of the setting.
        what: &'static str,
        /// The value given.
        value: String,
        /// What is possible.
        range: &'static str,
    },
}

/// Why an operation of a task did not complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpError {
    /// Memory could not be had, or the task was killed for it.
    #[error("out of memory")]
    NoMemory,
    /// The device failed.
    #[error("device error: {0}")]
    Device(DeviceError),
    /// The mapping is gone.
    #[error("the address is not mapped any more; map the object again")]
    Unmapped,
}
