//! `coldset lab export`.

use super::SizeArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `export`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab export throttling-oom --variant v5 --out writer.pageops.zst
  coldset lab export mongodb --variant v618 --scale 1/256 --effort 0.1 --out mongodb.pageops.zst
  coldset lab export aging-oom --machine 16g. --accesses 5000000 --out aging.pageops.zst
  coldset kernel play mongodb.pageops.zst --memory 25MiB --kernel debian:6.18,debian:7.2 --variants v618,v72

The trace has what the tasks of the experiment did to memory and files, in the order in which they began it: accesses, calls
of several pages, advice, fsync, truncation, memory given back, ended processes, and the time that tasks computed or slept.
Version 2 of pageops is described in docs/how-to/play.md.

It has no contention for CPUs and locks, and no memory inherited by fork: a child has its own. An experiment with more than
256 files and regions does not fit into a trace; slow-io is mongodb on other devices: export that.")]
pub struct ExportArgs {
    /// Experiment (see: coldset lab list)
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: String,
    /// What is exported.
    #[command(flatten)]
    pub work: WorkArgs,
    /// The trace, packed if it is called .zst
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Write what was exported as JSON to a file, - for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
}

/// Which work of an experiment.
#[derive(Args, Debug)]
pub struct WorkArgs {
    /// Variant under which it runs; which tasks come first depends on it [default: the experiment's after]
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Which machine of a run, as its counters begin [default: the first]
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Stop after so many accesses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub accesses: Option<u64>,
    /// Of all draws of the run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Set a cost of the machine (see: coldset lab params)
    #[arg(long, value_name = "NAME=VALUE")]
    pub cost: Vec<String>,
    /// How large it is.
    #[command(flatten)]
    pub size: SizeArgs,
}
