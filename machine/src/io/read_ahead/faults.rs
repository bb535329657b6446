//! Which pages a fault on a mapped file reads with its own (`docs/rules/read-ahead.md`, "Faults").

use super::{Advice, FileWindow, Limits, Window};
use std::ops::Range;

/// As many misses more than hits are read round.
const MISSES: u32 = 100;
/// More are not remembered.
const MOST_MISSES: u32 = 1000;

/// The read-ahead state of a mapping of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FaultWindow {
    window: FileWindow,
    /// Misses more than hits.
    misses: u32,
    /// That of the descriptor that it was made with, which says how large windows may be.
    descriptor: Advice,
}

impl FaultWindow {
    /// Of a new mapping.
    pub(crate) const NEW: Self = Self {
        window: FileWindow::NEW,
        misses: 0,
        descriptor: Advice::Normal,
    };

    /// The descriptor that it was made with has this advice.
    pub(crate) fn follow(&mut self, advice: Advice) {
        self.descriptor = advice;
    }

    /// Limits of its windows.
    fn limits(&self, limits: Limits) -> Limits {
        Limits {
            window: limits.largest(0, self.descriptor),
            ..limits
        }
    }

    /// Page `at` is missing: what is read, `at` among it; nothing if it is read alone. `cached` as in
    /// [`FileWindow::miss`].
    pub(crate) fn miss(
        &mut self,
        limits: Limits,
        at: u32,
        advice: Advice,
        cached: impl FnOnce(u32) -> u32,
    ) -> Option<Window> {
        let limits = self.limits(limits);
        match advice {
            _ if limits.window == 0 => None,
            Advice::Random => None,
            Advice::Sequential => Some(self.window.miss(limits, at, limits.window, cached)),
            Advice::Normal => {
                self.misses = (self.misses + 1).min(MOST_MISSES);
                (self.misses <= MISSES).then(|| self.window.round(limits, at))
            }
        }
        .map(|window| Window {
            needed: window.pages.start,
            ..window
        })
    }

    /// So many pages were cached where a fault wanted them.
    pub(crate) fn hit(&mut self, pages: u32) {
        self.misses = self.misses.saturating_sub(pages);
    }

    /// A fault has met the mark of a folio with these pages. `missing` as in [`FileWindow::marked`].
    pub(crate) fn marked(
        &mut self,
        limits: Limits,
        folio: &Range<u32>,
        missing: impl FnOnce(u32) -> Option<u32>,
    ) -> Option<Window> {
        let limits = self.limits(limits);
        self.window.marked(limits, folio, limits.window, missing)
    }
}

#[cfg(test)]
mod tests;
