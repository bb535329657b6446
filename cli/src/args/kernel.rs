//! `coldset kernel`.

use super::forms::{CsvArgs, FormArgs, PointsArgs, ReportArgs, ScansArgs};
use super::runs::RunsArgs;
use super::{DirtyLimitsArg, FileSystemArg, LimitArg, OnOff, TaskArgs, TraceArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Commands on kernels in virtual machines.
#[allow(clippy::large_enum_variant, reason = "there is one, for a moment")]
#[derive(Subcommand, Debug)]
pub enum KernelCommand {
    /// Do what a trace says on other kernels, each in a virtual machine
    Play(KernelPlayArgs),
    /// List the kernels that are to be had
    #[command(after_help = "\
Examples:
  coldset kernel list

Asks apt, with package lists of its own, which are renewed once a day. What is printed goes after --kernel.")]
    List,
}

/// Kernels, and how the trace is played on them.
#[derive(Args, Clone, Debug)]
pub struct GuestArgs {
    /// Kernels, separated by commas: debian:VERSION, or a bootable file
    #[arg(
        long,
        value_name = "KERNEL,...",
        value_delimiter = ',',
        required = true
    )]
    pub kernel: Vec<String>,
    /// Modules of a kernel given as a file: its /lib/modules/VERSION
    #[arg(long, value_name = "DIR")]
    pub modules: Option<PathBuf>,
    /// Limit of the cgroup: a size, or a share of the different pages of the trace
    #[arg(long, value_name = "SIZE")]
    pub memory: String,
    /// What --memory is a limit of: the cgroup's memory, or the machine's, of which so much is free before the first access.
    /// Then kswapd reclaims, and there is no other limit
    #[arg(long, value_enum, default_value = "cgroup")]
    pub limit: LimitArg,
    /// Tasks.
    #[command(flatten)]
    pub tasks: TaskArgs,
    /// The multi-gen LRU [default: as the kernel has it]
    #[arg(long, value_enum)]
    pub multi_gen: Option<OnOff>,
    /// Swap on zram; "none": no swap [default: the size of the trace, if it has anonymous memory]
    #[arg(long, value_name = "SIZE")]
    pub zram: Option<String>,
    /// vm.swappiness
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(0..=200))]
    pub swappiness: u16,
    /// Mapped around a fault, a power of two of pages; 4KiB is none
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub fault_around: String,
    /// Read-ahead of the guest's disk, for traces that say what programs asked for (coldset lab export)
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub read_ahead_kb: u32,
    /// What the guest's files are on
    #[arg(long, value_enum, default_value = "ext4")]
    pub file_system: FileSystemArg,
    /// Flush the CPU's translations each N mapped accesses of a task; 0: never
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub exact_access: u32,
    /// Points.
    #[command(flatten)]
    pub points: PointsArgs,
    /// Runs.
    #[command(flatten)]
    pub runs: RunsArgs,
    /// CPUs of a guest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub cpus: u32,
    /// Memory of a guest, MiB; dirty limits depend on it [default: what the run needs]
    #[arg(long, value_name = "MIB")]
    pub guest_memory: Option<u64>,
    /// NUMA nodes of a guest, which share its memory and CPUs equally
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub guest_nodes: u32,
    /// Where writers are throttled: vm.dirty_ratio [default: the kernel's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub dirty_ratio: Option<u64>,
    /// Where flushers start: vm.dirty_background_ratio [default: the kernel's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub dirty_background_ratio: Option<u64>,
    /// Whose dirty pages are limited and flushed together: those of the cgroup, or everybody's, as where the io
    /// controller is not in the hierarchy of the memory controller; guests then have it in cgroup v1
    #[arg(long, value_enum, default_value = "memcg")]
    pub dirty_limits: DirtyLimitsArg,
    /// The kernel's monitor of accesses (DAMON), which Debian's kernels have on. It clears accessed bits, in an emulated
    /// guest tens of times as often for each access as on a machine, and the lab has none
    #[arg(long, value_enum, default_value = "off")]
    pub monitor: OnOff,
    /// More words of the kernel's command line, such as sysctl.vm.page-cluster=0
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        allow_hyphen_values = true
    )]
    pub append: String,
    /// A nanosecond an instruction, and a disk inside the guest
    #[arg(long)]
    pub virtual_time: bool,
    /// Time of a request to the disk inside the guest, us (with --virtual-time)
    #[arg(
        long,
        value_name = "US",
        default_value_t = 80,
        requires = "virtual_time"
    )]
    pub disk_us: u64,
    /// Stop a guest that has shown no progress for so many seconds
    #[arg(long, value_name = "S", default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
}

/// Arguments of `kernel play`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset kernel play trace.pageops --memory 16MiB --kernel debian:6.18,debian:7.2
  coldset kernel play trace.pageops --memory 16MiB --kernel debian:7.2 --variants v72,base,v5 --report 72.html
  coldset kernel play trace.pageops --memory 16MiB --kernel arch/x86/boot/bzImage --modules DIR/lib/modules/7.3.0
  coldset kernel play trace.pageops --memory 16MiB --kernel debian:7.2 --virtual-time --disk-us 80
  coldset kernel play trace.pageops --memory 16MiB --kernel debian:7.2 --low 0=4MiB --order per-task --cpus 2

A guest has one program, this one, and an empty disk. Packages of kernels are fetched with apt into a folder of the
user's (COLDSET_CACHE, XDG_CACHE_HOME) and unpacked there; nothing is installed. QEMU runs with KVM where the CPU has
it; in software, computing is some thirty times slower, and counters are as good.

With --virtual-time an instruction takes a nanosecond and a disk inside the guest --disk-us a request, so that
two runs agree.

debian:VERSION is Debian's small kernel for virtual machines, which has no f2fs; debian:VERSION-amd64 is the whole one,
as in debian:6.18-amd64.

Needs: qemu-system-x86, e2fsprogs (f2fs-tools for --file-system f2fs); for debian:VERSION apt and dpkg. Exit codes:
0 played, 2 usage, 3 environment.")]
pub struct KernelPlayArgs {
    /// Trace, plain or packed (gzip, zstd, xz); "-" reads standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// The guests.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// Scans.
    #[command(flatten)]
    pub scans: ScansArgs,
    /// Variants to replay in the lab, beside what was measured
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub variants: Vec<String>,
    /// JSON, tables.
    #[command(flatten)]
    pub form: FormArgs,
    /// CSV.
    #[command(flatten)]
    pub rows: CsvArgs,
    /// The page.
    #[command(flatten)]
    pub page: ReportArgs,
}
