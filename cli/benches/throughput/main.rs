//! Speed of replays and miss-ratio curves, beside libCacheSim's LRU and quick_cache on the same stream in the
//! same run: `make bench`.
//!
//! Every row runs once a round, as a whole process (`coldset lab ...`, user and system time) and as the
//! library's call alone, competitors between ours. Ratios come from medians of one run: on shared CPUs
//! everything is slower by turns, and figures of different runs do not compare.

mod child;
mod libcachesim;
mod memory;
mod noise;
mod rounds;
mod rows;
mod streams;
mod summary;
mod table;

use clap::Parser;
use libcachesim::LibCacheSim;
use noise::{Noise, Ticks};
use rounds::Rounds;
use std::path::PathBuf;
use std::process::ExitCode;
use streams::Streams;

/// Why there is no result.
type Failure = Box<dyn std::error::Error>;

/// Accesses a CPU second of replays and miss-ratio curves, beside libCacheSim's LRU and quick_cache.
#[derive(Parser)]
#[command(
    name = "throughput",
    after_help = "libCacheSim is installed into target/venv by pip; where that fails, its rows and the ratios are \
    left out.\n\nExamples:\n  make bench\n  make bench BENCH=--quick\n  \
    cargo bench -p coldset --bench throughput -- --rounds 9 --json after.json"
)]
struct Options {
    /// Fewer accesses and rounds: under a minute once built. For a first look, not to quote.
    #[arg(long)]
    quick: bool,
    /// Accesses of each stream [default: 10000000; quick: 1000000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    accesses: Option<u32>,
    /// Rounds [default: 5; quick: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Also write every measurement as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn run(options: &Options) -> Result<(), Failure> {
    let (accesses, rounds) = match options.quick {
        true => (1_000_000, 3),
        false => (10_000_000, 5),
    };
    let accesses = options.accesses.unwrap_or(accesses);
    let rounds = options.rounds.unwrap_or(rounds);
    let folder = tempfile::tempdir()?;
    let memory = memory::measure(folder.path())?;
    let theirs = LibCacheSim::find()
        .inspect_err(|e| eprintln!("libCacheSim skipped, and the ratios to it: {e}"))
        .ok();
    let streams = Streams::new(accesses as usize, folder.path())?;

    let before = Ticks::now();
    let mut done = Rounds::default();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        done.add(&streams, theirs.as_ref())?;
    }
    let noise = before
        .zip(Ticks::now())
        .map(|(a, b)| Noise::between(&a, &b));

    print!(
        "{}",
        table::text(accesses, rounds, &done, &memory, noise.as_ref())
    );
    if let Some(file) = &options.json {
        let json = table::json(accesses, &done, &memory, noise.as_ref());
        std::fs::write(file, format!("{json:#}\n"))
            .map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::from(3)
        }
    }
}
