//! The pager beside the kernel's own reclaim, on the same work in the same run.
//!
//! `make bench-pager`, or `cargo bench -p coldset-pager --bench kernel -- --help`.
//!
//! Every measurement is a process of its own: it draws its sequence, joins a memory cgroup, maps the
//! data, warms up and runs. The kernel's arm is limited to the budget plus what page tables and the program take; the pager's
//! arm is not limited, and what its cgroup has held at most is printed. Rounds alternate between the
//! arms, and the two of a round are a pair, from which ratios come: CPU time first, which other programs
//! disturb less. Rows measure replacement, those that say 'cold' first reads. A third arm, the floor, is what any pager
//! outside of the kernel pays for a miss.
#![allow(unsafe_code, reason = "threads read and write a shared mapping")]

mod arm;
mod floor;
mod host;
mod limit;
mod report;
mod rows;
mod seals;
mod tables;
mod work;
mod zram;

use clap::Parser;
use std::process::ExitCode;

/// The pager beside the kernel's reclaim under a memory cgroup of the same size.
#[derive(Parser, Clone, Debug)]
#[command(
    after_help = "Needs root for the kernel's arm (a memory cgroup, a zram device); without, \
    that arm is skipped and says so.\n\nExamples:\n  \
    cargo bench -p coldset-pager --bench kernel\n  \
    cargo bench -p coldset-pager --bench kernel -- --quick --only zipf"
)]
pub struct Options {
    /// Size of the data.
    #[arg(long, default_value_t = 512)]
    mib: usize,
    /// Memory that may be used for it.
    #[arg(long, default_value_t = 128)]
    budget_mib: usize,
    /// Operations of a measurement, over all threads.
    #[arg(long, default_value_t = 100_000)]
    ops: usize,
    /// Rounds; odd, for a median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Minutes after which no further round begins.
    #[arg(long, default_value_t = 15.0)]
    minutes: f64,
    /// A quarter of the data, budget and operations; three rounds at most, within three minutes.
    #[arg(long)]
    quick: bool,
    /// Only rows whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Policy of the pager.
    #[arg(long, default_value = "v5")]
    policy: String,
    /// Where the data file lies (default: the directory for temporary files).
    #[arg(long)]
    dir: Option<std::path::PathBuf>,
    /// Writes all figures of all rounds as JSON.
    #[arg(long)]
    json: Option<std::path::PathBuf>,
    /// A Python that can import coldset and numpy, for the column sums.
    #[arg(long)]
    python: Option<std::path::PathBuf>,
    /// Runs one arm in this process (the parent starts children so).
    #[arg(long, hide = true)]
    child: Option<String>,
    /// What cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let mut o = Options::parse();
    if o.quick {
        o.mib /= 4;
        o.budget_mib /= 4;
        o.ops /= 4;
        o.rounds = o.rounds.min(3);
        o.minutes = o.minutes.min(3.0);
    }
    let done = match &o.child {
        Some(job) => arm::child(job),
        None => report::run(&o),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::from(3)
        }
    }
}
