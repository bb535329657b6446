//! `coldset play`.

use super::forms::{CsvArgs, FormArgs, PointsArgs, ReportArgs, ScansArgs};
use super::runs::RunsArgs;
use super::{LimitArg, TaskArgs, TraceArgs};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `play`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset play data/sqlite.pageops.zst --memory 25%
  coldset play data/sqlite.pageops.zst --memory 64MiB --variants v618,v72   predictions beside it
  coldset play trace.pageops --memory 64MiB --exact-access 64 --repeat 3 --json play.json
  coldset play trace.pageops --memory 64MiB --variants v618 --report play.html
  coldset play trace.pageops --memory 64MiB --order per-task --low 0=16MiB

The files of the trace are made in --dir, with contents that are checked by every read, and removed in the
end. Every task of the trace is a process, in a memory cgroup of its own below the limited one if there are
several, and does one access after the other; the trace stays outside. Tasks take turns as the trace has it,
or, with --order per-task, run at once. At most 256 can be processes or threads; --tasks one takes any
number. Reads of files have random advice, so that the kernel reads what the trace says; mapped files are
read round a fault as the device's read-ahead says.

A CPU that still translates an address by itself sets no accessed bit, and the kernel clears bits without a flush. With
--exact-access N a worker flushes its translations each N mapped accesses: the simulated machine has no such memory.

It takes a memory cgroup: root, or one that is delegated (systemd-run --user --scope -p Delegate=yes ...).

Exit codes: 0 played, 2 usage, 3 environment. A worker that the kernel kills for lack of memory is a result.")]
pub struct PlayArgs {
    /// Trace, plain or packed (gzip, zstd, xz); "-" reads standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// Limit of the cgroup: a size, or a share of the different pages of the trace
    #[arg(long, value_name = "SIZE")]
    pub memory: String,
    /// What --memory is a limit of: the cgroup's memory, or, in guests of `kernel play`, the machine's free memory
    #[arg(long, value_enum, default_value = "cgroup", hide = true)]
    pub limit: LimitArg,
    /// memory.high (cgroup v2)
    #[arg(long, value_name = "SIZE")]
    pub high: Option<String>,
    /// Tasks.
    #[command(flatten)]
    pub tasks: TaskArgs,
    /// Most swap the cgroup may use
    #[arg(long, value_name = "SIZE")]
    pub swap_max: Option<String>,
    /// A memory cgroup that is there, in place of one made for the run
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Where the files of the trace are made
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Flush the CPU's translations each N mapped accesses of a task; 0: never
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub exact_access: u32,
    /// Points.
    #[command(flatten)]
    pub points: PointsArgs,
    /// Scans.
    #[command(flatten)]
    pub scans: ScansArgs,
    /// Runs.
    #[command(flatten)]
    pub runs: RunsArgs,
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

/// Arguments of the worker of `play`: what it is told.
#[derive(Args, Debug)]
pub struct PlayWorkerArgs {
    /// Folder, flushes, tasks, objects
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub orders: Vec<String>,
}
