//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// Page reclaim as a library: experiments, replays and checks.
#[derive(Parser, Debug)]
#[command(
    name = "coldset",
    version,
    propagate_version = true,
    after_help = "\
Examples:
  coldset lab list
  coldset lab run mongodb
  coldset lab replay data/sqlite.pageops.zst --memory 25%

Exit codes: 0 good, 1 a claim or a case is out of band, 2 usage, 3 environment."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Groups of commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// The lab: policies side by side on a simulated machine
    #[command(after_help = "\
Examples:
  coldset lab run mongodb --seeds 3             an experiment, before and after
  coldset lab run mongodb --variants base,base+smaller_batch=on,v5
  coldset lab replay TRACE --memory 64MiB       a recorded trace over the policies
  coldset lab fidelity                          beside the counters of a real kernel")]
    Lab {
        /// What to do in the lab.
        #[command(subcommand)]
        command: LabCommand,
    },
}

/// Commands of the lab.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// List experiments, variants, switches, trace formats and devices
    List(ListArgs),
    /// Run an experiment over variants and seeds and judge its claims
    Run(RunArgs),
    /// Run all experiments and print one acceptance table
    Verify(VerifyArgs),
    /// Which change carries the gain: each patch alone, and each taken away
    Ablate(AblateArgs),
    /// Replay a trace over variants, beside exact LRU and OPT
    Replay(ReplayArgs),
    /// Replay a trace and show what the lists hold at a point of it
    Inspect(InspectArgs),
    /// Replay what ran on a real kernel and compare the counters
    Fidelity(FidelityArgs),
    /// List the costs of the simulated machine, or the switches of a variant
    Params(ParamsArgs),
    /// Convert a trace of any known format to pageops
    Convert(ConvertArgs),
    /// Throw random operations at a simulated machine and check it all the time
    Fuzz(FuzzArgs),
    /// Explore all interleavings of dirty eviction with writers, pins, truncation and others
    Races(RacesArgs),
}

/// Arguments of `list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab list
  coldset lab list --params            experiments with their parameters
  coldset lab list --switches          every switch, with its values
  coldset lab list --json | jq .variants")]
pub struct ListArgs {
    /// Also list the parameters of the experiments
    #[arg(long)]
    pub params: bool,
    /// Also list every switch with the values it takes
    #[arg(long)]
    pub switches: bool,
    /// As JSON, with everything
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab run mongodb
  coldset lab run mongodb --seeds 3 --scale 1/256 --effort 0.25
  coldset lab run mongodb --variants base,base+smaller_batch=on,v5 --json result.json
  coldset lab run mongodb --cost nvme_read_lat_ns=20000

The first variant is \"before\", the last one \"after\". A variant may carry switches of its own:
NAME+SWITCH=VALUE+... Exit code 1: a claim of class A, B or N is out of its band.")]
pub struct RunArgs {
    /// Experiment (see: coldset lab list)
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: String,
    /// Variants, separated by commas [default: the experiment's before and after]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub variants: Vec<String>,
    /// Set a switch in all variants (see: coldset lab list --switches)
    #[arg(long, value_name = "SWITCH=VALUE")]
    pub set: Vec<String>,
    /// Set a parameter of the experiment (see: coldset lab list --params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    /// Set a cost of the machine (see: coldset lab params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub cost: Vec<String>,
    /// Size of memory and data as a share of the original's [default: the experiment's]
    #[arg(long, value_name = "1/N", allow_hyphen_values = true)]
    pub scale: Option<String>,
    /// Runs of each variant, with seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// Factor on the number of operations
    #[arg(
        long,
        value_name = "FACTOR",
        default_value = "1",
        allow_hyphen_values = true
    )]
    pub effort: String,
    /// Also write the series over time as CSV
    #[arg(long, value_name = "FILE")]
    pub series: Option<String>,
    /// Tables in Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Output and threads.
    #[command(flatten)]
    pub out: OutArgs,
}

/// Arguments of `verify`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab verify
  coldset lab verify --quick
  coldset lab verify --only mongodb,fio-mmap --json verify.json
  coldset lab verify --only mongodb --sensitivity
  coldset lab verify --only mongodb --seeds 1 --sensitivity each

Exit code 1: a claim of class A or B is out, or an experiment gave no result.")]
pub struct VerifyArgs {
    /// Experiments, separated by commas [default: all; see: coldset lab list]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Runs of each variant, with seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, conflicts_with = "quick", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// One seed: a first look in a few minutes
    #[arg(long)]
    pub quick: bool,
    /// Rerun with the assumed costs halved and doubled: all together, or each by itself
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "all")]
    pub sensitivity: Option<SensitivityArg>,
    /// Set a cost of the machine (see: coldset lab params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub cost: Vec<String>,
    /// Write the result as JSON ("-": to standard output, in place of the tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Tables in Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Threads [default: one for each CPU]; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<usize>,
}

/// How the assumed costs vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SensitivityArg {
    /// All together
    All,
    /// Each by itself (two reruns a cost)
    Each,
}

/// Arguments of `ablate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab ablate mongodb
  coldset lab ablate mongodb --seeds 3 --scale 1/256
  coldset lab ablate aging-oom --variants base,v2 --json ablation.json

A change is a patch of the series (all its switches), or a switch that belongs to none. Exit code 0:
a table, whatever it says.")]
pub struct AblateArgs {
    /// Experiment (see: coldset lab list)
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: String,
    /// Before and after [default: the experiment's]
    #[arg(long, value_name = "BEFORE,AFTER", value_delimiter = ',')]
    pub variants: Vec<String>,
    /// Set a parameter of the experiment (see: coldset lab list --params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    /// Set a cost of the machine (see: coldset lab params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub cost: Vec<String>,
    /// Size of memory and data as a share of the original's [default: the experiment's]
    #[arg(long, value_name = "1/N", allow_hyphen_values = true)]
    pub scale: Option<String>,
    /// Runs of each variant, with seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// Factor on the number of operations
    #[arg(
        long,
        value_name = "FACTOR",
        default_value = "1",
        allow_hyphen_values = true
    )]
    pub effort: String,
    /// Write the result as JSON ("-": to standard output, in place of the tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Tables in Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Threads [default: one for each CPU]; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<usize>,
}

/// Where results go, and threads.
#[derive(Args, Debug)]
pub struct OutArgs {
    /// Write the result as JSON ("-": to standard output, in place of the table)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Write all values as CSV, one a line ("-": to standard output, in place of the table)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<String>,
    /// Threads [default: one for each CPU]; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<usize>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// Yes.
    On,
    /// No.
    Off,
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
}

/// Arguments of `replay`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab replay data/sqlite.pageops.zst
  coldset lab replay data/sqlite.pageops.zst --memory 25% --variants classic,base,v5,fifo
  coldset lab replay P6.lis --blocks-per-page 8 --memory 64MiB --json -
  coldset lab replay trace.pageops --memory 64MiB --clock 0:0,32768:6.58,65536:12.1 --fold-phases 8
  zcat trace.gz | coldset lab replay - --format lirs --memory 1000pages

Sizes: 64MiB, 512KiB, 1.5GiB, 300pages; 25% is a share of the different pages of the trace.
Swap: none, zram:SIZE[:lz4|lzo|lzo-rle|zstd], or a device (nvme:1GiB; see: coldset lab list).
JSON: {\"variants\": {NAME: {COUNTER: {\"mean\", \"ci95\", \"per_seed\"}}}, \"bounds\": {...}}; with several
limits, {\"replays\": [...]}. per_seed lists the phases of --fold-phases.")]
pub struct ReplayArgs {
    /// Trace, plain or packed (gzip, zstd, xz); "-" reads standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
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
    /// Index nodes and page tables count against the limit
    #[arg(long, value_enum, default_value = "on")]
    pub kernel_memory: OnOff,
    /// Anonymous pages of the program itself, always in use
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub own_pages: u32,
    /// Swap area [default: zram as large as the trace if it has anonymous memory, else none]
    #[arg(long, value_name = "none|KIND:SIZE")]
    pub swap: Option<String>,
    /// 0 (only file pages) to 200 (only anonymous pages)
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
    /// Time of accesses in seconds, linear between the points; statistics are read at each
    #[arg(long, value_name = "ACCESS:SECONDS,...", allow_hyphen_values = true)]
    pub clock: Option<String>,
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
    /// Tables in Markdown
    #[arg(long)]
    pub markdown: bool,
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
    /// 0 (only file pages) to 200 (only anonymous pages)
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(0..=200))]
    pub swappiness: u16,
    /// Look after so many accesses [default: all]
    #[arg(long, value_name = "ACCESSES", value_parser = clap::value_parser!(u64).range(1..))]
    pub at: Option<u64>,
    /// Create so many youngest generations before looking
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

/// Arguments of `fidelity`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab fidelity
  coldset lab fidelity --cases d_pread_cyc,a_mmap_z099 --policies mglru-0x7
  coldset lab fidelity path/to/tables --phases 16 --json -

Judged are refaults, misses, pgscan and pgsteal: multi-gen within 0.5 %, classic, over the phases
of the statistics fold, within 2 %, and in any case within 32 pages. Exit code 1: a case is out.")]
pub struct FidelityArgs {
    /// Reference tables: a file, or a folder with golden.json [default: the built-in ones]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Cases, separated by commas [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub cases: Vec<String>,
    /// Recorded policies, separated by commas: mglru-0x7, mglru-0x1, classic [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub policies: Vec<String>,
    /// Phases of the statistics fold over which classic results are averaged
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub phases: u64,
    /// Tolerance of all counters, for example 1% [default: 0.5% multi-gen, 2% classic]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub tolerance: Option<String>,
    /// Write the result as JSON ("-": to standard output, in place of the tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Tables in Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Threads [default: one for each CPU]; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<usize>,
}

/// Arguments of `params`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab params
  coldset lab params nvme                  costs with \"nvme\" in their name
  coldset lab params --switches v5         what variant v5 is made of
  coldset lab params --switches base,v5    the switches in which they differ

Marks: P published, A assumed (claims must not depend on it), S a setting of the model.")]
pub struct ParamsArgs {
    /// Only those with this in their name
    #[arg(value_name = "TEXT")]
    pub filter: Option<String>,
    /// Switches of a variant; of several, those in which they differ
    #[arg(long, value_name = "VARIANT,...", value_delimiter = ',')]
    pub switches: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `convert`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab convert P6.lis P6.pageops.zst --blocks-per-page 8
  xzcat trace.xz | coldset lab convert - trace.pageops --format lirs")]
pub struct ConvertArgs {
    /// Trace of any known format; \"-\" reads standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// File to write, packed if its name ends in .zst
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
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
  coldset lab races                                  all protocols, then all planted bugs
  coldset lab races --protocols batched-v2 --json -
  coldset lab races --plant item-8                   how a store is lost, step by step
  coldset lab races --protocols unbatched --against stale-writer,pin,async-writer
  coldset lab races --list                           protocols, adversaries, planted bugs

Exit code 1: a protocol is broken, a planted bug is not found, or --plant shows its bug.")]
pub struct RacesArgs {
    /// Plant this bug and show a shortest way to what it breaks
    #[arg(long, value_name = "NAME", conflicts_with_all = ["protocols", "against"])]
    pub plant: Option<String>,
    /// Only these protocols, without the planted bugs
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub protocols: Vec<String>,
    /// Only against these adversaries, all at once (at most 3), without the planted bugs
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub against: Vec<String>,
    /// List protocols, adversaries and planted bugs
    #[arg(long, conflicts_with_all = ["plant", "protocols", "against", "json"])]
    pub list: bool,
    /// Write the result as JSON ("-": to standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=1024).contains(&n) => Ok(n),
        _ => Err("write a number from 1 to 1024".into()),
    }
}

/// Parses the arguments. Help goes to standard output; a mistake is one line.
///
/// # Errors
/// The exit code, everything said.
pub fn parse() -> Result<Cli, ExitCode> {
    use clap::error::ErrorKind;
    Cli::try_parse().map_err(|error| {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed pipe is no failure.
                let _ = error.print();
                ExitCode::SUCCESS
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                ExitCode::from(2)
            }
            _ => {
                eprintln!("coldset: {}", one_line(&error));
                ExitCode::from(2)
            }
        }
    })
}

/// The message of the parser without its usage text.
fn one_line(error: &clap::Error) -> String {
    let message = error.to_string();
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let parts: Vec<&str> = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let line = parts.join("; ").replace(":; ", ": ").replace("tip: ", "");
    format!("{line} (see --help)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn mistakes_take_one_line() {
        let message = |args: &[&str]| one_line(&Cli::try_parse_from(args).unwrap_err());
        assert_eq!(
            message(&["coldset", "lab", "run"]),
            "the following required arguments were not provided: <EXPERIMENT> (see --help)"
        );
        let near = message(&["coldset", "lab", "run", "x", "--sedes", "3"]);
        assert!(near.contains("--seeds") && !near.contains('\n'), "{near}");
        let near = message(&["coldset", "lab", "replya"]);
        assert!(near.contains("'replay'") && !near.contains('\n'), "{near}");
    }
}
