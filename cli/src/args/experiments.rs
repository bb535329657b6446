//! Running experiments: `run`, `verify`, `ablate`.

use super::forms::{FormArgs, JobsArgs, OutArgs, ReportArgs};
use super::traces::TraceArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How large a run is, and with which parameters.
#[derive(Args, Debug)]
pub struct SizeArgs {
    /// Set a parameter of the experiment (see: coldset lab list --params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    /// Size of memory and data as a share of the original's [default: the experiment's]
    #[arg(long, value_name = "1/N", allow_hyphen_values = true)]
    pub scale: Option<String>,
    /// Factor on the number of operations
    #[arg(
        long,
        value_name = "FACTOR",
        default_value = "1",
        allow_hyphen_values = true
    )]
    pub effort: String,
}

/// The runs of each variant.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// Each of them.
    #[command(flatten)]
    pub size: SizeArgs,
    /// Set a cost of the machine (see: coldset lab params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub cost: Vec<String>,
    /// Runs of each variant, with seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab run mongodb
  coldset lab run mongodb --report mongodb.html
  coldset lab run mongodb --seeds 3 --scale 1/256 --effort 0.25
  coldset lab run mongodb --variants base,base+smaller_batch=on,v5 --json result.json
  coldset lab run mongodb --cost nvme_read_lat_ns=20000
  coldset lab run examples/throttling-oom.toml

A workload of your own is a file in TOML whose name ends in .toml (docs/how-to/own-workload.md):

  [[files]]
  name = \"table\"
  size = \"512MiB\"

  [[cgroups]]
  name = \"server\"
  limit = \"128MiB\"

  [[tasks]]
  name = \"client\"
  count = 8
  cgroup = \"server\"

  [[tasks.phases]]
  time = \"1s\"
  steps = [{ pread = \"table\", at = { zipf = 1.1 }, cpu = \"20us\" }]

The first variant is \"before\", the last one \"after\". A variant may carry switches of its own:
NAME+SWITCH=VALUE+... Exit code 1: a claim of class A, B or N is out of its band.")]
pub struct RunArgs {
    /// Experiment (see: coldset lab list), or the file of a workload
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: String,
    /// Variants, separated by commas [default: the experiment's before and after]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub variants: Vec<String>,
    /// Set a switch in all variants (see: coldset lab list --switches)
    #[arg(long, value_name = "SWITCH=VALUE")]
    pub set: Vec<String>,
    /// What is run.
    #[command(flatten)]
    pub what: PlanArgs,
    /// Print every counter, not only those that claims and explanations are about
    #[arg(long)]
    pub all: bool,
    /// Also write the series over time as CSV
    #[arg(long, value_name = "FILE")]
    pub series: Option<String>,
    /// Output and threads.
    #[command(flatten)]
    pub out: OutArgs,
}

/// Arguments of `verify`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab verify
  coldset lab verify --quick --report verify.html
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
    /// One seed and shorter runs: a first look in a minute; its table says how much shorter
    #[arg(long)]
    pub quick: bool,
    /// Rerun with the assumed costs halved and doubled: all together, or each by itself
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "all")]
    pub sensitivity: Option<SensitivityArg>,
    /// Set a cost of the machine (see: coldset lab params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub cost: Vec<String>,
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
  coldset lab ablate examples/fio-mmap.toml --seeds 1
  coldset lab ablate data/sqlite.pageops.zst --memory 25%
  coldset lab ablate trace.pageops --memory 64MiB --variants v618,v72

Of a trace, --memory is the limit, --variants are base,v5 unless others are named, and limits up to 0.4 % away
take the place of seeds. --param, --scale, --effort and --seeds are of experiments.

A change is a patch of the series (all its switches), or a switch that belongs to none. Exit code 0:
a table, whatever it says.")]
pub struct AblateArgs {
    /// Experiment (see: coldset lab list), the file of a workload (FILE.toml), or a trace
    #[arg(value_name = "EXPERIMENT|TRACE")]
    pub experiment: String,
    /// Limit of a trace: a size or a share of its pages [default: 50%]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub memory: Option<String>,
    /// How to read the trace.
    #[command(flatten)]
    pub reading: TraceArgs,
    /// Before and after [default: the experiment's; of a trace base,v5]
    #[arg(long, value_name = "BEFORE,AFTER", value_delimiter = ',')]
    pub variants: Vec<String>,
    /// What is run.
    #[command(flatten)]
    pub what: PlanArgs,
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

/// Arguments of `compare`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab run mongodb --json yesterday.json
  coldset lab run mongodb --cost nvme_read_lat_ns=20000 --json today.json
  coldset lab compare yesterday.json today.json
  coldset lab compare yesterday.json today.json --report changes.html
  coldset play trace.pageops --memory 16MiB --repeat 3 --json before.json   and after.json with another kernel
  coldset lab compare before.json after.json

The files come from lab run --json: of two versions of the program, two sets of costs, two scales. Variants
that both have are compared under the seeds that both have; what differs in their headers is named.

Or they come from lab replay, play or kernel play, in any mixture: columns of the same name are compared, two kernels in
any case, and where no name is in both, the first of each.
Exit code 0: a table, whatever it says.")]
pub struct CompareArgs {
    /// Result before
    #[arg(value_name = "BEFORE.json")]
    pub before: PathBuf,
    /// Result after
    #[arg(value_name = "AFTER.json")]
    pub after: PathBuf,
    /// JSON, tables.
    #[command(flatten)]
    pub form: FormArgs,
    /// The page.
    #[command(flatten)]
    pub page: ReportArgs,
}
