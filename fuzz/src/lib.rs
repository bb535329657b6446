//! Swarm fuzzing of engine and machine.
//!
//! A seed draws a machine (policy, switches, limits, swap, devices and what goes wrong with them) and
//! a load of random operations on it, by one inline task or by several that run concurrently. The
//! oracle is a flat model of what every page must hold, besides the assertions of engine and machine:
//! `World::check` runs every hundred operations or so.
//!
//! What may not happen: lost stores, broken invariants, usage above a limit, waits without end, and
//! anything left over when everything has been given back. Errors of devices and want of memory are
//! part of the load.

mod config;
mod finish;
mod load;
mod model;
mod ops;
mod tasks;

use coldset_quiet::quietly;
use config::Setup;
use load::Load;
use std::fmt;

/// What a run without failure came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FuzzReport {
    /// The seed.
    pub seed: u64,
    /// Operations done: each access to a page counts, hit or not, and each other verb.
    pub ops: u64,
    /// Virtual time, ns.
    pub time: u64,
    /// Invariant checks run.
    pub checks: u64,
    /// Operations that found no memory.
    pub no_memory: u64,
    /// Operations that met a device error.
    pub device_errors: u64,
    /// Processes killed for memory.
    pub kills: u64,
    /// Pages reclaimed.
    pub reclaimed: u64,
    /// Pages swapped out.
    pub swapped: u64,
    /// The machine drawn.
    pub setup: String,
}

impl fmt::Display for FuzzReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} operations in {:.3} s of virtual time, {} checks; {} pages reclaimed, {} swapped out, {} operations without memory, {} device errors, {} kills ({})",
            self.seed,
            self.ops,
            self.time as f64 / 1e9,
            self.checks,
            self.reclaimed,
            self.swapped,
            self.no_memory,
            self.device_errors,
            self.kills,
            self.setup
        )
    }
}

/// What broke, and how to see it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FuzzFailure {
    /// The seed.
    pub seed: u64,
    /// Operations asked for, after shrinking.
    pub ops: u64,
    /// Operations done when it was noticed.
    pub operation: u64,
    /// What broke.
    pub what: String,
    /// The machine drawn.
    pub setup: String,
}

impl fmt::Display for FuzzFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}, operation {}: {} ({}); repeat with: coldset lab fuzz --seed {} --ops {}",
            self.seed, self.operation, self.what, self.setup, self.seed, self.ops
        )
    }
}

impl std::error::Error for FuzzFailure {}

/// A defect to plant, so that a test can see that it is caught.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Plant {
    /// None.
    #[default]
    Nothing,
    /// The model counts a store that never happened.
    Model,
    /// A dirty folio is marked clean.
    Clean,
    /// A reference to a folio is never given back.
    Leak,
}

/// Runs `ops` operations drawn from `seed`.
///
/// # Errors
/// What broke, with the shortest prefix found that breaks.
pub fn run(seed: u64, ops: u64) -> Result<FuzzReport, FuzzFailure> {
    run_planted(seed, ops, Plant::Nothing)
}

/// As [`run`], with a planted defect.
///
/// # Errors
/// As [`run`].
pub fn run_planted(seed: u64, ops: u64, plant: Plant) -> Result<FuzzReport, FuzzFailure> {
    let mut failure = match once(seed, ops, plant) {
        Ok(report) => return Ok(report),
        Err(failure) => failure,
    };
    // Fewer operations are the same run cut short: bisect for a short one that still fails.
    let (mut passes, mut fails) = (0, failure.operation.min(ops));
    for _ in 0..10 {
        if fails - passes <= 1 {
            break;
        }
        let middle = passes + (fails - passes) / 2;
        match once(seed, middle, plant) {
            Ok(_) => passes = middle,
            Err(shorter) => {
                fails = middle;
                failure = shorter;
            }
        }
    }
    Err(failure)
}

fn once(seed: u64, ops: u64, plant: Plant) -> Result<FuzzReport, FuzzFailure> {
    let setup = Setup::draw(seed);
    let done = std::rc::Rc::new(std::cell::Cell::new(0));
    quietly(|| Load::new(seed, ops, &setup, plant, &done).run()).map_err(|panic| FuzzFailure {
        seed,
        ops,
        operation: done.get(),
        what: format!("{} ({})", panic.text, panic.at),
        setup: setup.text.clone(),
    })
}

#[cfg(test)]
mod tests;
