//! Sweeps.

use super::forms::jobs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `sweep`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab sweep grid.toml --out results
  coldset lab sweep grid.toml --dry-run
  coldset lab sweep grid.toml --out results --counters pgscan,pgsteal
  coldset lab sweep grid.toml --out results --dask tcp://10.0.0.1:8786

grid.toml:
  experiments = [\"mongodb\", \"fio-mmap\"]
  variants = [\"base\", \"v5\"]
  scales = [\"1/256\", \"1/128\"]
  effort = 0.1
  seeds = 3                                   # 1 to 3; a list names them
  set = { smaller_batch = [true, false] }     # switches
  costs = { nvme_read_lat_ns = [20_000, 80_000] }

  [[grid]]                                    # or tables of their own, added together
  traces = \"program.pageops.zst\"             # relative to this file
  memory = [\"10%\", \"25%\"]

Lists are multiplied out. Further keys: params = { threads = [8, 32] } of an experiment; swap,
swappiness, kernel_memory of a trace. Keys above the first [[grid]] hold for all of them.

Results are Parquet files in long form, a line a counter: read_parquet(\"DIR\") of pandas or polars,
or \"DIR/*.parquet\" of DuckDB. A run that is finished is on disk whatever happens then (Ctrl-C, a
crash); the same command goes on from there. Its key is a hash of the configuration and of this
program's sources. Exit code 1: a cell failed; 3: a worker was killed; 130: interrupted.")]
pub struct SweepArgs {
    /// Grid in TOML
    #[arg(value_name = "GRID")]
    pub grid: PathBuf,
    /// Folder for the results; what is in it is not computed again
    #[arg(long, value_name = "DIR", required_unless_present = "dry_run")]
    pub out: Option<PathBuf>,
    /// Processes [default: one for each CPU]; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = jobs, conflicts_with = "dask")]
    pub jobs: Option<usize>,
    /// List the cells, and which are finished
    #[arg(long)]
    pub dry_run: bool,
    /// Compute on a Dask cluster (with Python; $COLDSET_PYTHON names the interpreter)
    #[arg(long, value_name = "ADDRESS", conflicts_with = "dry_run")]
    pub dask: Option<String>,
    /// Counters of the table, separated by commas [default: those the experiment is about]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub counters: Vec<String>,
    /// Write means and what was done as JSON ("-": to standard output, in place of the table)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Tables in Markdown
    #[arg(long)]
    pub markdown: bool,
}

/// Arguments of `sweep-worker`.
#[derive(Args, Debug)]
pub struct SweepWorkerArgs {
    /// Folder for the results
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}
