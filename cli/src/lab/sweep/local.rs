//! Sweeps on processes of this machine.

use crate::args::SweepWorkerArgs;
use crate::error::{Failure, Verdict};
use crate::output::tell;
use crate::this::this_command;
use coldset_lab::runner::Progress;
use coldset_lab::sweep::{serve, supervise, Cell, Store, Tally};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Computes all cells that are not finished. SIGINT and SIGTERM end the program; what is finished stays.
///
/// # Errors
/// A folder that cannot be read, processes that cannot be started, a worker of another version.
pub fn run(store: &Store, cells: &[Cell], jobs: Option<usize>) -> Result<Tally, Failure> {
    let interrupted = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM] {
        flag::register_usize(signal, Arc::clone(&interrupted), signal as usize)
            .map_err(|e| Failure::Surroundings(format!("listening to signals: {e}")))?;
    }
    let wanted: BTreeSet<&String> = cells.iter().map(|c| &c.key).collect();
    let progress = Progress::new(wanted.len() as u64, "sweep");
    let worker = this_command(&["lab"])?;
    let start = || {
        let mut command = Command::new(&worker[0]);
        command
            .args(&worker[1..])
            .args(["lab", "sweep-worker", "--out"])
            .arg(store.dir());
        command
    };
    let done = supervise(store, cells, jobs, &start, &mut |tally| {
        progress.set((tally.finished() + tally.failed.len()) as u64);
        interrupted.load(Ordering::Relaxed) == 0
    });
    progress.finish();
    let signal = interrupted.load(Ordering::Relaxed);
    if signal == 0 {
        return Ok(done?);
    }
    // A worker may have finished a cell and been killed before it could say so.
    let there = store.keys()?;
    tell(&format!(
        "coldset: interrupted: {} of {} cells are finished and kept in {}; the same command goes on from there",
        wanted.iter().filter(|key| there.contains(**key)).count(),
        wanted.len(),
        store.dir().display()
    ));
    std::process::exit(128 + signal as i32)
}

/// `coldset lab sweep-worker`.
///
/// # Errors
/// Standard output is closed.
pub fn work(args: &SweepWorkerArgs) -> Result<Verdict, Failure> {
    serve(&args.out).map_err(|e| Failure::write("standard output", e))?;
    Ok(Verdict::Good)
}
