//! A budget that follows the pressure on memory of the cgroup or the machine, as the kernel tells it
//! (PSI): under pressure it shrinks step by step, down to a quarter; when it is calm it grows back.

use crate::error::{Error, Result};
use crate::pool::inner::PoolInner;
use crate::sys::cgroup;
use crate::sys::signals::shielded_thread;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Of the time, the share in which some thread waits for memory that is pressure, and the one that is
/// calm.
const PRESSURE: f64 = 0.1;
const CALM: f64 = 0.01;
/// Looks in a row that are calm before the budget grows.
const PATIENCE: u32 = 10;
/// Parts of the full budget: a step, and how many of them are left at least.
const STEP: u64 = 10;
const FLOOR: u64 = 4;

/// Where pressure is read, and how often.
#[derive(Clone, Debug)]
pub(crate) struct PressureConfig {
    /// None: the cgroup's or the machine's.
    pub(crate) source: Option<PathBuf>,
    pub(crate) interval: Duration,
}

impl Default for PressureConfig {
    fn default() -> Self {
        Self {
            source: None,
            interval: Duration::from_secs(1),
        }
    }
}

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    _alive: Sender<()>,
}

impl Watch {
    /// Starts it.
    pub(crate) fn start(pool: &Arc<PoolInner>, config: &PressureConfig) -> Result<Self> {
        let source = config.source.clone().unwrap_or_else(cgroup::pressure);
        let first = stalled(&source).map_err(|e| Error::Pressure {
            path: source.display().to_string(),
            source: e,
        })?;
        let (alive, dead) = channel();
        let (weak, interval) = (Arc::downgrade(pool), config.interval);
        shielded_thread("coldset-pressure", move || {
            run(&weak, &dead, &source, first, interval)
        })
        .map_err(Error::io("starting the watch of memory pressure"))?;
        Ok(Self { _alive: alive })
    }
}

/// Microseconds so far in which some thread waited for memory.
fn stalled(source: &Path) -> io::Result<u64> {
    let text = std::fs::read_to_string(source)?;
    let some = text.lines().find_map(|l| l.strip_prefix("some "));
    let total = some.and_then(|s| s.split(' ').find_map(|w| w.strip_prefix("total=")));
    let us = total.and_then(|t| t.trim().parse().ok());
    us.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no line \"some ... total=\""))
}

fn run(
    pool: &Weak<PoolInner>,
    dead: &Receiver<()>,
    source: &Path,
    mut before: u64,
    interval: Duration,
) {
    let mut looked = Instant::now();
    let mut calm = 0;
    while dead.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let Some(pool) = pool.upgrade() else { return };
        // A source that cannot be read for a moment tells nothing.
        let Ok(now) = stalled(source) else { continue };
        let micros = looked.elapsed().as_micros().max(1) as f64;
        let share = now.saturating_sub(before) as f64 / micros;
        (before, looked) = (now, Instant::now());
        calm = if share < CALM { calm + 1 } else { 0 };
        let _passage = pool.traffic.enter();
        let _one = pool.resizing.lock().unwrap_or_else(|e| e.into_inner());
        let budget = pool.gate.budget();
        let full = pool.full_budget.load(Relaxed);
        let new = next(budget, full, share, calm);
        if new != budget {
            // Pinned, or promised: tried again when there still is pressure.
            let _still_pinned = pool.resize(new);
        }
    }
}

/// The budget after a look.
fn next(budget: u64, full: u64, share: f64, calm: u32) -> u64 {
    if share >= PRESSURE {
        (budget - full / STEP).max(full / FLOOR).min(budget)
    } else if calm >= PATIENCE {
        (budget + full / STEP).min(full)
    } else {
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_by_tenths_to_a_quarter_and_back_when_it_is_calm() {
        let mut b = 1000;
        for want in [900, 800, 700, 600, 500, 400, 300, 250, 250] {
            b = next(b, 1000, 0.2, 0);
            assert_eq!(b, want);
        }
        assert_eq!(next(b, 1000, 0.05, 0), 250);
        assert_eq!(next(b, 1000, 0.0, PATIENCE - 1), 250);
        assert_eq!(next(b, 1000, 0.0, PATIENCE), 350);
        assert_eq!(next(990, 1000, 0.0, 50), 1000);
        // Somebody has made the full budget smaller than a floor of before.
        assert_eq!(next(200, 1000, 0.5, 0), 200);
    }
}
