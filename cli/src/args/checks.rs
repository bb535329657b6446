//! Checks of the model itself: `fidelity`, `fuzz`, `races`.

use super::forms::{FormArgs, JobsArgs};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `fidelity`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab fidelity
  coldset lab fidelity --kernels 6.12 --cases d_pread_cyc,a_mmap_z099 --policies mglru-0x7
  coldset lab fidelity path/to/tables --phases 16 --json -

Judged are refaults, misses, pgscan and pgsteal. A counter is in if it differs from the mean of the
kernel's repeats by at most the largest of: 0.5 % (6.12), 3 % (6.18 and 7.2, recorded on a loaded host) or
2 % (classic, averaged over the phases of the statistics fold); the kernel's own spread, the distance from that mean of the repeat farthest
from it; 32 pages, one batch of reclaim. mglru-0x7-nodamon is mglru-0x7 without the kernel's own monitor of
accesses, which no replay has. The table says what each counter needed, and why some are
exempt. Exit code 1: a case is out that is not known to be (known ones say what is known).")]
pub struct FidelityArgs {
    /// Reference tables: a file, or a folder with golden.json [default: the built-in ones]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Cases, separated by commas [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub cases: Vec<String>,
    /// Kernels, separated by commas: 6.12, 6.18, 7.2 [default: all]
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        conflicts_with = "dir"
    )]
    pub kernels: Vec<String>,
    /// Recorded policies, separated by commas: mglru-0x7, mglru-0x7-nodamon, mglru-0x1, classic [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub policies: Vec<String>,
    /// Phases of the statistics fold over which classic results are averaged
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub phases: u64,
    /// Print the runs point by point as well, with the generations at each
    #[arg(long)]
    pub series: bool,
    /// Write the traces of the cases into this folder, as pageops files, and stop
    #[arg(long, value_name = "FOLDER")]
    pub traces: Option<PathBuf>,
    /// Tolerance of all counters, for example 1% [default: 0.5% for 6.12, 3% for 6.18 and 7.2, 2% for classic]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub tolerance: Option<String>,
    /// JSON, tables.
    #[command(flatten)]
    pub form: FormArgs,
    /// Threads.
    #[command(flatten)]
    pub threads: JobsArgs,
}
/// Arguments of `fuzz`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab fuzz --seed 7
  coldset lab fuzz --seed 7 --ops 1000000

Exit code 1: something broke; the message says how to see it again.")]
pub struct FuzzArgs {
    /// Seed of everything random: the machine, its faults, the operations
    #[arg(long, value_name = "N")]
    pub seed: u64,
    /// Operations
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub ops: u64,
}

/// Arguments of `races`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab races                                  all that must hold, then all planted bugs (minutes)
  coldset lab races --protocols batched-v2 --memory anon --json -
  coldset lab races --plant item-8                   how a store is lost, step by step
  coldset lab races --protocols unbatched --against stale-writer,pin,async-writer
  coldset lab races --list                           protocols, kinds of memory, adversaries, planted bugs

Exit code 1: a protocol is broken, a planted bug is not found, or --plant shows its bug.")]
pub struct RacesArgs {
    /// Plant this bug and show a shortest way to what it breaks
    #[arg(long, value_name = "NAME", conflicts_with_all = ["protocols", "memory", "against"])]
    pub plant: Option<String>,
    /// Only these protocols, without the planted bugs
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub protocols: Vec<String>,
    /// Only these kinds of memory, without the planted bugs
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub memory: Vec<String>,
    /// Only against these adversaries, all at once (at most 3), without the planted bugs
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub against: Vec<String>,
    /// List protocols, kinds of memory, adversaries and planted bugs
    #[arg(long, conflicts_with_all = ["plant", "protocols", "memory", "against", "json"])]
    pub list: bool,
    /// Write the result as JSON ("-": to standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
}
