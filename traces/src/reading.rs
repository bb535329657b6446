//! What was met while a trace was read: lines, bad lines, events lost by the recorder; steps between the accesses.

use std::sync::{Arc, Mutex, PoisonError};

use super::problem::{BadLine, Problem};
use super::step::Event;

/// Bad lines kept for messages.
const SHOWN: usize = 5;

/// What was met while a trace was read. Complete once the reader has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Lines that are not empty; records, of a binary format.
    pub lines: u64,
    /// Sound lines that hold no reference: comments, other events, opening and closing.
    pub unused: u64,
    /// Lines that were left out because they cannot be read.
    pub bad: u64,
    /// The first of them.
    pub first_bad: Vec<BadLine>,
    /// Events that the recorder says it has lost.
    pub lost_events: u64,
    /// Losses that the recorder reports without a number.
    pub lost_uncounted: u64,
}

impl Reading {
    /// Lines that could be read.
    pub fn good(&self) -> u64 {
        self.lines.saturating_sub(self.bad)
    }

    /// Whether anything is missing from the trace that the file was to hold.
    pub fn is_whole(&self) -> bool {
        self.bad == 0 && self.lost_events == 0 && self.lost_uncounted == 0
    }
}

/// What a line says of lost events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// Events that the recorder says it lost.
    Events(u64),
    /// An unknown number.
    Uncounted,
}

/// The reading so far. Clones share it: one is with whoever reads, one with whoever asks.
#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<Mutex<Reading>>);

impl Tally {
    /// The reading so far.
    pub fn get(&self) -> Reading {
        self.with(|reading| reading.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Reading) -> T) -> T {
        // No holder can fail half-way.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn bad(&self, line: u64, problem: Problem) {
        self.with(|reading| {
            reading.bad += 1;
            if reading.first_bad.len() < SHOWN {
                reading.first_bad.push(BadLine { line, problem });
            }
        });
    }

    pub(super) fn lost(&self, loss: Loss) {
        self.with(|reading| match loss {
            Loss::Events(events) => {
                reading.lost_events = reading.lost_events.saturating_add(events);
            }
            Loss::Uncounted => reading.lost_uncounted += 1,
        });
    }

    pub(super) fn lines(&self, lines: u64, unused: u64) {
        self.with(|reading| (reading.lines, reading.unused) = (lines, unused));
    }
}

/// The steps so far, shared as a [`Tally`] is.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps(Arc<Mutex<Vec<Event>>>);

impl Steps {
    pub fn push(&self, event: Event) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event);
    }

    /// All of them; none are left.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
