//! Arguments of `advise`.

use super::forms::{FormArgs, JobsArgs, ReportArgs};
use super::traces::{DirtyLimitsArg, OnOff, TraceArgs};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `advise`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab advise data/sqlite.pageops.zst
  coldset lab advise data/sqlite.pageops.zst --memory 70%,50%,4MiB --for v618,v72,v73
  coldset lab advise trace.perf --today 4GiB --memory 3GiB,2GiB --json -
  coldset lab advise data/sqlite.pageops.zst --report advice.html
  coldset lab advise data/sqlite.pageops.zst --today 1GiB --memory 8MiB,4MiB

Shares are of today's memory: all pages of the trace, the most that it has in memory at a time
(--today peak; memory that is given back and ends of files that are cut off no longer count), or a size. If
that is far more than the trace uses, give sizes: half of it would still be room for all. The first kernel of
--for is what the sentences are about; the others are compared with it.

Every size is replayed with four others up to 0.4 % away (a page at least). A difference that does not
stand out from what they do is called none: the 95 % interval of the ratio over these limits is across 1,
or it is 0.5 % or less, or a batch of reclaim (32 pages) or less.")]
pub struct AdviseArgs {
    /// Trace, plain or packed (gzip, zstd, xz); "-" reads standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// Sizes to try, separated by commas: each a size or a share of today's memory [default: 70%,50%,30%, without
    /// those below 133 pages]
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub memory: Vec<String>,
    /// Today's memory: pages (all of the trace), peak, or a size
    #[arg(
        long,
        value_name = "pages|peak|SIZE",
        default_value = "pages",
        allow_hyphen_values = true
    )]
    pub today: String,
    /// Kernels and policies, separated by commas; each may carry switches (NAME+SWITCH=VALUE)
    #[arg(
        long = "for",
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "v73,v618"
    )]
    pub kernels: Vec<String>,
    /// Swap area [default: zram as large as the trace if it has anonymous memory, else none]
    #[arg(long, value_name = "none|KIND:SIZE")]
    pub swap: Option<String>,
    /// 0 (file pages, as long as there are any) to 200 (anonymous pages rather than files); kernels read it in their own ways
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(0..=200))]
    pub swappiness: u16,
    /// Device of the files: a kind (see: coldset lab list) [default: nvme]
    #[arg(long, value_name = "KIND|delay:TIME", allow_hyphen_values = true)]
    pub device: Option<String>,
    /// Largest window of the page cache's read-ahead, as of a block device (Linux: 128), for traces of what a program asked
    /// for; others contain it [default: 128 for traces with advice, as exported ones have; 0 for others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub read_ahead_kb: Option<u32>,
    /// Whose dirty pages are limited and flushed together: those of the cgroup, or everybody's, as where the io
    /// controller is not there
    #[arg(long, value_enum, default_value = "memcg")]
    pub dirty_limits: DirtyLimitsArg,
    /// Index nodes and page tables count against the limit
    #[arg(long, value_enum, default_value = "on")]
    pub kernel_memory: OnOff,
    /// JSON, tables.
    #[command(flatten)]
    pub form: FormArgs,
    /// The page.
    #[command(flatten)]
    pub page: ReportArgs,
    /// Threads.
    #[command(flatten)]
    pub threads: JobsArgs,
}
