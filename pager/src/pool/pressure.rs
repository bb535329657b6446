//! A budget that follows the pressure on memory of the cgroup or the machine, as the kernel tells it
//! (PSI): under pressure it shrinks step by step, down to a quarter; when it is calm it grows back.

use super::resize::Resizer;
use crate::config::PressureConfig;
use crate::error::{Error, Result};
use crate::sys::cgroup;
use crate::sys::signals::shielded_thread;
use std::io;
use std::path::Path;
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

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    _alive: Sender<()>,
}

impl Watch {
    /// Starts it.
    pub(super) fn start(resizer: &Arc<Resizer>, config: &PressureConfig) -> Result<Self> {
        let source = config.source.clone().unwrap_or_else(cgroup::pressure);
        let first = stalled(&source).map_err(|e| Error::Pressure {
            path: source.display().to_string(),
            source: e,
        })?;
        let (alive, dead) = channel();
        let (weak, interval) = (Arc::downgrade(resizer), config.interval);
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
    resizer: &Weak<Resizer>,
    dead: &Receiver<()>,
    source: &Path,
    mut before: u64,
    interval: Duration,
) {
    let mut looked = Instant::now();
    let mut calm = 0;
    while dead.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let Some(resizer) = resizer.upgrade() else {
            return;
        };
        // A source that cannot be read for a moment tells nothing.
        let Ok(now) = stalled(source) else { continue };
        let micros = looked.elapsed().as_micros().max(1) as f64;
        let share = now.saturating_sub(before) as f64 / micros;
        (before, looked) = (now, Instant::now());
        calm = if share < CALM { calm + 1 } else { 0 };
        resizer.follow(|budget, full| next(budget, full, share, calm));
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
