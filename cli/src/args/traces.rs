//! Traces: `replay`, `inspect`, `convert`.

use super::forms::OutArgs;
use clap::{Args, ValueEnum};
use coldset_lab::bounds::Count;
use coldset_lab::traces::Order;
use std::path::PathBuf;

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// Yes.
    On,
    /// No.
    Off,
}

/// Huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThpArg {
    /// Wherever they fit.
    Always,
    /// None.
    Never,
}

/// Time between accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaceArg {
    /// As the trace has it.
    Trace,
    /// None.
    None,
}

/// Whose dirty pages are limited together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirtyLimitsArg {
    /// Those of the cgroup.
    Memcg,
    /// Everybody's.
    Host,
}

/// What the limit of a replay is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LimitArg {
    /// What the cgroup may use.
    Cgroup,
    /// What is free in the machine.
    Machine,
}

/// Whose write context inodes belong to at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InodesArg {
    /// That of the cgroup that writes first.
    FirstWriter,
    /// The machine's.
    Root,
}

impl From<InodesArg> for coldset_lab::replay::Inodes {
    fn from(arg: InodesArg) -> Self {
        match arg {
            InodesArg::FirstWriter => Self::FirstWriter,
            InodesArg::Root => Self::Root,
        }
    }
}

/// What files are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileSystemArg {
    /// As most machines have it.
    Ext4,
    /// As phones have it.
    F2fs,
}

impl From<FileSystemArg> for coldset_guest::file_system::FileSystem {
    fn from(arg: FileSystemArg) -> Self {
        match arg {
            FileSystemArg::Ext4 => Self::Ext4,
            FileSystemArg::F2fs => Self::F2fs,
        }
    }
}

impl From<FileSystemArg> for coldset_machine::FileSystem {
    fn from(arg: FileSystemArg) -> Self {
        match arg {
            FileSystemArg::Ext4 => Self::Ext4,
            FileSystemArg::F2fs => Self::F2fs,
        }
    }
}

/// How reads of files are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccessArg {
    /// As pread calls
    Read,
    /// Through a mapping
    Mapped,
}

/// Which bounds to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BoundsArg {
    /// Exact LRU and OPT
    Exact,
    /// None
    None,
}

/// How a trace is read.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// Format of the trace [default: recognised by name and content; see: coldset lab list]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// ARC traces: blocks in a page (1 for OLTP, 8 for P3 and P6)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub blocks_per_page: u32,
    /// How reads of files are done (no effect on pageops, which says so itself)
    #[arg(long, value_enum, default_value = "read")]
    pub access: AccessArg,
    /// perf, ftrace, blkparse: which events or actions are accesses, separated by commas
    /// [default: all that can be; blkparse: Q]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub events: Vec<String>,
    /// What the columns of a CSV hold, in their order: page, offset (bytes), sector (512 bytes), size (bytes),
    /// sectors, op, object, task, key, time or - (both passed over); separated by commas, semicolons or blanks
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub columns: Vec<String>,
    /// All accesses by one task, and so one memcg: for traces of many short processes
    #[arg(long)]
    pub one_task: bool,
    /// Refuse the trace at its first bad line [default: perf, ftrace, fio, blkparse and lackey
    /// leave bad lines out and report them]
    #[arg(long)]
    pub strict: bool,
}

/// Arguments of `replay`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab replay data/sqlite.pageops.zst
  coldset lab replay data/sqlite.pageops.zst --memory 25% --variants classic,base,v5,fifo
  coldset lab replay data/sqlite.pageops.zst --report sqlite.html
  coldset lab replay P6.lis --blocks-per-page 8 --memory 64MiB --json -
  coldset lab replay trace.pageops --memory 64MiB --clock 0:0,32768:6.58,65536:12.1 --fold-phases 8
  zcat trace.gz | coldset lab replay - --format lirs --memory 1000pages
  coldset lab replay yesterday.journal --variants classic,base,v5
  coldset lab replay dd.fio --memory 128MiB --large-folios on --device delay:1s --dirty-ratio 95
  perf script --show-lost-events -F comm,pid,tid,cpu,time,event,trace | coldset lab replay - --one-task

A journal of the pager (Pool::record, COLDSET_JOURNAL) is recognised by its beginning. It is first
replayed exactly over the policy it was recorded with (exit code 1 if a decision differs), then as a
trace: misses, and the hits that the policy saw. Accesses between two sweeps count once; hits that
no sweep saw are not in it. The limit is the pool's budget; groups are tasks.

Sizes: 64MiB, 512KiB, 1.5GiB, 300pages, or 25%: a share of the trace's different pages (in --low, of the
limit).
Swap: none, zram:SIZE[:lz4|lzo|lzo-rle|zstd], or a device (nvme:1GiB; see: coldset lab list).
JSON: {\"variants\": {NAME: {COUNTER: {\"mean\", \"ci95\", \"per_seed\"}}}, \"bounds\": {...}}; with several
limits, {\"replays\": [...]}. \"settings\" has what it was made with, by option. per_seed lists the phases of --fold-phases. Of formats with bad lines, \"reading\"
has their number and the first of them. A variant that is killed for lack of memory is a result: exit code 0. It
has \"killed_after\" (accesses), no \"miss_ratio\", and its other counters are those until then; in CSV
their names begin with until_killed. How to record a trace: docs/how-to/record-a-trace.md.")]
pub struct ReplayArgs {
    /// Trace, plain or packed (gzip, zstd, xz), or journal; "-" reads standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Do not hold the trace in memory: its file is read again for each replay, and exact LRU and OPT are left
    /// out [default: from 134 million accesses on]
    #[arg(long)]
    pub stream: bool,
    /// Variants, separated by commas; each may carry switches (NAME+SWITCH=VALUE)
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "classic,base,v5"
    )]
    pub variants: Vec<String>,
    /// Set a switch in all variants (see: coldset lab list --switches)
    #[arg(long, value_name = "SWITCH=VALUE")]
    pub set: Vec<String>,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// Limits, separated by commas: a size or a share of the pages [default: 10%,25%,50%]
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub memory: Vec<String>,
    /// What the limits are limits of: the cgroup's memory (memory.max), or the machine's, of which so much is free when the
    /// replay begins. Then kswapd reclaims, and there is no other limit
    #[arg(long, value_enum, default_value = "cgroup")]
    pub limit: LimitArg,
    /// With --limit machine: its watermarks, pages, as in /proc/zoneinfo; of several zones each with its part of the memory and
    /// what it holds back (protection), lowest first: 9000:533,666,799,770/3000:128,470,812, with // between nodes; a fifth number of a zone
    /// is the batch of its CPUs' lists, if not 63 [default: as a machine has them that has no other memory]
    #[arg(long, value_name = "MIN,LOW,HIGH")]
    pub watermarks: Option<String>,
    /// Index nodes and page tables count against the limit [default: on; off for journals]
    #[arg(long, value_enum)]
    pub kernel_memory: Option<OnOff>,
    /// Anonymous pages of the program itself, always in use
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub own_pages: u32,
    /// Swap area [default: zram as large as the trace if it has anonymous memory, else none]
    #[arg(long, value_name = "none|KIND:SIZE")]
    pub swap: Option<String>,
    /// 0 (file pages, as long as there are any) to 200 (anonymous pages rather than files); kernels read it in their own ways
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(0..=200))]
    pub swappiness: u16,
    /// Window mapped round a file fault, a power of two of pages; 4KiB is none
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4KiB",
        allow_hyphen_values = true
    )]
    pub fault_around: String,
    /// Read ahead beyond each request
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub read_ahead: String,
    /// Largest window of the page cache's read-ahead for preads and mapped files, as of a block device;
    /// pages then keep the numbers of the trace [default: 128 for traces that say what programs asked for, with
    /// advice, as exported ones do; 0 for others, which contain read-ahead already]
    #[arg(long, value_name = "N", conflicts_with = "read_ahead", value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub read_ahead_kb: Option<u32>,
    /// Device of the files: a kind (see: coldset lab list), or delay:TIME, an NVMe drive whose writes take
    /// so much longer [default: nvme]
    #[arg(long, value_name = "KIND|delay:TIME", allow_hyphen_values = true)]
    pub device: Option<String>,
    /// What the files are on: a write takes the mark of a page away on f2fs, and leaves it on ext4
    #[arg(long, value_enum, default_value = "ext4")]
    pub file_system: FileSystemArg,
    /// A file system that makes folios of up to 256 pages where that much is written at once; where the
    /// trace does not say what a call was, writes of neighbouring whole pages are one of up to 1 MiB
    #[arg(long, value_enum, default_value = "off")]
    pub large_folios: OnOff,
    /// Extents that each file consists of on its device. An inode has room for four; of more, blocks of the file system
    /// have the places, and come into the page cache when they are needed first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub extents: u32,
    /// With --extents: nobody else looks up blocks of the file system, so a CPU holds the last 16, which then cannot leave
    /// memory; off: others push them out before memory is short
    #[arg(long, value_enum, default_value = "off")]
    pub hold_blocks: OnOff,
    /// Huge pages of anonymous memory: always, a fault gets 2 MiB where all of that is empty and there is
    /// memory for it without reclaim; never, single pages
    #[arg(long, value_enum, default_value = "never")]
    pub thp: ThpArg,
    /// Where writers are throttled: percent of the memory that a memcg has for dirty pages, its page cache
    /// and what it may still charge [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub dirty_ratio: Option<u64>,
    /// Where flushers start, percent of the same; half of --dirty-ratio if it is not less [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub dirty_background_ratio: Option<u64>,
    /// Whose dirty pages are limited and flushed together: those of the cgroup, or everybody's, as where the io
    /// controller is not there
    #[arg(long, value_enum, default_value = "memcg")]
    pub dirty_limits: DirtyLimitsArg,
    /// Whose dirty limits the files are under when the replay begins: those of the cgroup that writes to them first, or the
    /// machine's, as files are that somebody outside of it has just made
    #[arg(long, value_enum, default_value = "first-writer")]
    pub inodes: InodesArg,
    /// When accesses begin at the earliest, in seconds, linear between the points; statistics are read at each. One that is
    /// held up, as writers are, delays those after it. Behind the points, read:SECONDS: what a read of the device took in the
    /// recording; without it reads take no time, as the points contain it. Points of the form ACCESS:SECONDS:0.41s also say how
    /// long the tasks had been asleep: then accesses between two points take the same time besides their sleeps. (ACCESS:SECONDS:READS:
    /// how many reads there had been, where no more is known.) Last, fold:SECONDS: when the kernel folded all statistics first, of
    /// the times that are 2 s apart
    #[arg(long, value_name = "ACCESS:SECONDS,...", allow_hyphen_values = true)]
    pub clock: Option<String>,
    /// Time that tasks compute or sleep between accesses, of traces that have it
    #[arg(long, value_enum, default_value = "none")]
    pub pace: PaceArg,
    /// Order of accesses across tasks: strict, one at a time, as in the trace; within:N, all at once, nobody more than N
    /// accesses ahead of the last; per-task, all at once. Threads of a process are one task when it is strict
    #[arg(long, value_name = "ORDER", default_value_t = Order::Strict, conflicts_with_all = ["clock", "own_pages"])]
    pub order: Order,
    /// CPUs of the machine, for tasks that are under way at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "order", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub cpus: u64,
    /// The trace is of a machine so much smaller than the one it stands for, as an experiment at this scale: reclaim takes
    /// the shares of lists that it takes there, and times of flushers shrink
    #[arg(
        long,
        value_name = "1/N",
        default_value = "1",
        allow_hyphen_values = true
    )]
    pub scale: String,
    /// Set a cost of the machine (see: coldset lab params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub cost: Vec<String>,
    /// Replays with phases of the statistics fold spread over its interval (2 s); means over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub fold_phases: u64,
    /// Without --clock: misses from one statistics fold to the next [default: an eighth of the limit]
    #[arg(
        long,
        value_name = "SIZE",
        conflicts_with = "clock",
        allow_hyphen_values = true
    )]
    pub fold_every: Option<String>,
    /// Exact LRU and OPT beside the policies
    #[arg(long, value_enum, default_value = "exact")]
    pub bounds: BoundsArg,
    /// Protection (memory.low) of a task's memcg; every task then has its own
    #[arg(long, value_name = "TASK=SIZE")]
    pub low: Vec<String>,
    /// Output and threads.
    #[command(flatten)]
    pub out: OutArgs,
}

/// Arguments of `mrc`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab mrc data/sqlite.pageops.zst
  coldset lab mrc data/sqlite.pageops.zst --policies lru,arc,sieve,opt --points 30
  coldset lab mrc trace.pageops --sizes 1%,5%,64MiB --csv curves.csv
  coldset lab mrc large.oracleGeneral.zst --sample 1% --report curves.html

A miss is a reference for which a page is read from a file or from swap, as in lab replay: not the first
touch of an anonymous page, nor the write of a whole page. With --count absences, every reference to an
absent page is one, as in the literature.

List policies (fifo to sieve) are caches of pages alone: a reference hits or brings its page in, for which
one page leaves when memory is full. They follow their papers; docs/how-to/miss-ratio-curves.md has the
parameters and what the papers leave open. Kernel policies (classic, v5, ...) are replayed as lab replay
does, under limits from 128 pages on. opt is Belady's optimal replacement. lru, or lru-stack, is computed
for all sizes in one pass.

With --sample, only references to some of the pages are looked at (SHARDS): up to 16 samples of that
share of the pages each. Ratios are printed with their error: half of the 95 % interval over the
samples, and twice what halving the samples changes.")]
pub struct MrcArgs {
    /// Trace, plain or packed (gzip, zstd, xz), or journal; "-" reads standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Policies, separated by commas: variants, opt, lru-stack
    /// [default: fifo,clock,lru,2q,slru,arc,s3fifo,sieve,classic,v5,opt]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub policies: Vec<String>,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// Number of sizes, from 1/256 of the pages to all of them
    #[arg(long, value_name = "N", default_value_t = coldset_lab::mrc::POINTS_DEFAULT, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub points: u32,
    /// Sizes, separated by commas: each a size or a share of the pages
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        conflicts_with = "points",
        allow_hyphen_values = true
    )]
    pub sizes: Vec<String>,
    /// What is a miss: reads, what has to be read; absences, every reference to an absent page
    #[arg(long, value_name = "reads|absences", default_value_t = Count::Reads)]
    pub count: Count,
    /// Index nodes and page tables count against the limits of kernel policies
    #[arg(long, value_enum, default_value = "on")]
    pub kernel_memory: OnOff,
    /// Estimate from samples of this share of the pages each, 0.0001 to 0.25
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub sample: Option<String>,
    /// No plot below the table
    #[arg(long)]
    pub no_plot: bool,
    /// Output and threads.
    #[command(flatten)]
    pub out: OutArgs,
}

/// Arguments of `inspect`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab inspect data/sqlite.pageops.zst
  coldset lab inspect data/sqlite.pageops.zst --variants classic,v5 --memory 10% --at 50000
  coldset lab inspect trace.pageops --age 1 --evict 3:1000 --json -

A generation's line: number, time since its birth, anonymous and file pages (- : the type has no
such generation any more). --age and --evict apply to every memcg, aging first; they need multi-gen
variants.")]
pub struct InspectArgs {
    /// Trace, plain or packed (gzip, zstd, xz); "-" reads standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Variants, separated by commas; each may carry switches (NAME+SWITCH=VALUE)
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "base"
    )]
    pub variants: Vec<String>,
    /// Set a switch in all variants (see: coldset lab list --switches)
    #[arg(long, value_name = "SWITCH=VALUE")]
    pub set: Vec<String>,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// Limit: a size or a share of the pages
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "25%",
        allow_hyphen_values = true
    )]
    pub memory: String,
    /// Swap area [default: zram as large as the trace if it has anonymous memory, else none]
    #[arg(long, value_name = "none|KIND:SIZE")]
    pub swap: Option<String>,
    /// 0 (file pages, as long as there are any) to 200 (anonymous pages rather than files); kernels read it in their own ways
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(0..=200))]
    pub swappiness: u16,
    /// Look after this many accesses [default: all]
    #[arg(long, value_name = "ACCESSES", value_parser = clap::value_parser!(u64).range(1..))]
    pub at: Option<u64>,
    /// Create this many youngest generations before looking
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=64))]
    pub age: u8,
    /// Evict generations up to SEQ, at most PAGES, before looking
    #[arg(long, value_name = "SEQ:PAGES", value_parser = evict)]
    pub evict: Vec<(u64, u64)>,
    /// Write the result as JSON ("-": to standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
}

fn evict(text: &str) -> Result<(u64, u64), String> {
    text.split_once(':')
        .and_then(|(seq, pages)| Some((seq.parse().ok()?, pages.parse().ok()?)))
        .ok_or_else(|| "write a generation and a number of pages, for example 3:1000".into())
}
/// Arguments of `convert`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab convert P6.lis P6.pageops.zst --blocks-per-page 8
  xzcat trace.xz | coldset lab convert - trace.pageops --format lirs
  coldset lab convert session.perf session.pageops.zst --strict
  coldset lab convert yesterday.journal accesses.pageops.zst")]
pub struct ConvertArgs {
    /// Trace of any known format, or journal; \"-\" reads standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// File to write, packed if its name ends in .zst
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// Write what was read and written as JSON ("-": to standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
}
