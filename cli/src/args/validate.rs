//! `coldset lab validate`.

use super::kernel::GuestArgs;
use super::{FormArgs, TraceArgs, WorkArgs};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `validate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab validate trace.pageops --memory 16MiB --kernel debian:6.18,debian:7.2
  coldset lab validate trace.pageops --memory 25% --kernel debian:7.2 --repeat 5 --json -
  coldset lab validate trace.pageops --memory 16MiB --kernel debian:7.2 --near 9 --virtual-time
  coldset lab validate trace.pageops --memory 16MiB --kernel debian:7.2=base
  coldset lab validate trace.pageops --memory 16MiB --kernel here,debian:7.2
  coldset lab validate trace.pageops --memory 16MiB --kernel debian:7.2 --recorded yesterday.json
  coldset lab validate mongodb --scale 1/256 --memory 40MiB --kernel debian:6.18,debian:7.2

Each kernel plays the trace in a virtual machine (see: coldset kernel play), and the lab replays it with the
variant of that kernel: v612, v618, v72, v73, classic where the multi-gen LRU is off; KERNEL=VARIANT names
another. KERNEL can be here, the kernel that runs here, by coldset play in the present folder, with this
machine's swap and settings. Of several kernels, each change from one to the next is compared, too.

What is predicted is the mean over nine limits, up to 0.4 % smaller or larger than the one asked for, at the
times that the accesses had on the kernel: runs of a kernel differ, too, by what it needs for itself. The
last column has the least and the most of the nine. With --near 9 the kernel's runs have the same nine
limits, each prediction has the times of the run with its limit, and a mean is beside a mean: for work of
which a few pages more or less decide. With --limit machine, runs differ by more than that: each run is
predicted with the memory that its zones had, and its times, and the runs take turns among the nine.

Where some runs end with a kill for lack of memory, counts are of the others, measured and predicted.

Exit code 1: a change of more than 3 % has another sign than predicted, or most runs are killed for lack of memory and most
are predicted to live, or the other way round.")]
pub struct ValidateArgs {
    /// Trace, plain or packed (gzip, zstd, xz), "-" reads standard input; or an experiment, whose work is exported
    #[arg(value_name = "TRACE|EXPERIMENT")]
    pub trace: PathBuf,
    /// What is exported of an experiment.
    #[command(flatten)]
    pub work: WorkArgs,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// The guests.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// Boot nothing, and predict anew what FILE has of runs that were measured: what this command wrote with --json, for
    /// the same trace and options
    #[arg(long, value_name = "FILE")]
    pub recorded: Option<PathBuf>,
    /// JSON, tables.
    #[command(flatten)]
    pub form: FormArgs,
}
