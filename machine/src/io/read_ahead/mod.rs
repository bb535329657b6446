//! Which pages a read through a descriptor brings in that it has not asked for: the window of an open
//! file and the mark that starts the next one (`docs/rules/read-ahead.md`). Nothing but arithmetic: what
//! is cached is asked of the caller.

pub(crate) mod counted;
mod faults;

use coldset_engine::ids::PAGE_SIZE;
pub(crate) use faults::FaultWindow;
use std::ops::Range;

/// What a device reads ahead of buffered reads and of faults on mapped files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadAhead {
    /// A miss reads what is asked for in one request, and as many pages after it; a fault without advice, as many
    /// pages round its own. Nothing is remembered, and nothing is read before it is missing.
    Fixed(u32),
    /// Windows that grow with the success of an open file or a mapping, of this many KiB at most (Linux:
    /// `read_ahead_kb`).
    Windows {
        /// The largest window; 0: a miss reads one page.
        kb: u32,
    },
}

impl Default for ReadAhead {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// How a program says it will read a file (`posix_fadvise`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Advice {
    /// Nothing.
    #[default]
    Normal,
    /// Here and there: a miss reads what is asked for.
    Random,
    /// From the beginning to the end: windows of twice the size.
    Sequential,
}

/// Pages to read, as far as they are not cached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) pages: Range<u32>,
    /// From this page on nobody needs them yet: they are given up where memory is short.
    pub(crate) needed: u32,
    /// The page whose use starts the next window, if it is newly read.
    pub(crate) mark: Option<u32>,
    /// Greatest order of the folios to read it into, as far as nothing cached is in their way.
    pub(crate) order: u8,
}

impl Window {
    /// Pages that are all needed.
    pub(crate) fn needed(pages: Range<u32>) -> Self {
        Self {
            needed: pages.end,
            pages,
            mark: None,
            order: 0,
        }
    }

    /// Pages that nobody needs yet.
    pub(crate) fn ahead(pages: Range<u32>) -> Self {
        Self {
            needed: pages.start,
            pages,
            mark: None,
            order: 0,
        }
    }

    /// Ends at the end of the file.
    pub(crate) fn within(mut self, pages: u32) -> Self {
        self.pages.end = self.pages.end.min(pages);
        self.needed = self.needed.min(self.pages.end);
        self
    }
}

/// The largest windows of a device, pages, and folios of its file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// Without need.
    pub(crate) window: u32,
    /// For a read that asks for more: what the device takes in one request.
    pub(crate) request: u32,
    /// Greatest order of a folio; 0: single pages.
    pub(crate) order: u8,
    pub(crate) rules: WindowRules,
}

/// What differs from kernel to kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WindowRules {
    /// A window that a mark starts ends at a multiple of the folios that it asks for.
    pub(crate) are_cut: bool,
    /// Before a miss, one page less than the largest window has is counted.
    pub(crate) counts_one_less: bool,
}

#[cfg(test)]
impl WindowRules {
    /// Of 7.2.
    const V72: Self = Self {
        are_cut: true,
        counts_one_less: false,
    };
}

impl Limits {
    /// `request_bytes`: 0 if the device takes any. `order`: of the largest folio.
    pub(crate) fn new(kb: u32, request_bytes: u64, order: u8, rules: WindowRules) -> Self {
        let pages = |bytes: u64| u32::try_from(bytes / PAGE_SIZE).unwrap_or(u32::MAX);
        Self {
            window: pages(u64::from(kb) * 1024),
            request: match request_bytes {
                0 => u32::MAX,
                bytes => pages(bytes),
            },
            order,
            rules,
        }
    }

    /// For a read of `pages`; 0 if nothing is read ahead.
    fn largest(self, pages: u32, advice: Advice) -> u32 {
        let window = match advice {
            Advice::Sequential => self.window.saturating_mul(2),
            Advice::Normal | Advice::Random => self.window,
        };
        match window {
            0 => 0,
            _ => window.max(pages.min(self.request)),
        }
    }
}

/// By so much the order that an asynchronous window asks for is greater than that of the folios of the last one.
const ORDER_STEP: u8 = 2;

/// The read-ahead state of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileWindow {
    start: u32,
    size: u32,
    /// Pages from the mark to the end of the window.
    ahead: u32,
    /// Page of the position where the last read ended.
    last: u32,
    advice: Advice,
    /// Greatest order of the folios of the last window.
    order: u8,
}

impl FileWindow {
    /// Of a file just opened.
    pub(crate) const NEW: Self = Self {
        start: 0,
        size: 0,
        ahead: 0,
        last: u32::MAX,
        advice: Advice::Normal,
        order: 0,
    };

    pub(crate) fn advise(self, advice: Advice) -> Self {
        Self { advice, ..self }
    }

    pub(crate) fn advice(self) -> Advice {
        self.advice
    }

    /// A read has ended before `page`.
    pub(crate) fn ended(self, page: u32) -> Self {
        Self { last: page, ..self }
    }

    /// Page `at` is missing, and a read wants `pages` from there on. `cached` tells how many pages
    /// directly before `at` are cached, counting no further than its argument.
    pub(crate) fn miss(
        &mut self,
        limits: Limits,
        at: u32,
        pages: u32,
        cached: impl FnOnce(u32) -> u32,
    ) -> Window {
        let max = limits.largest(pages, self.advice);
        let no_window = |pages| Window {
            needed: at + 1,
            ..Window::ahead(at..at.saturating_add(pages))
        };
        if max == 0 {
            return no_window(1);
        }
        if self.advice == Advice::Random {
            return no_window(pages);
        }
        let goes_on = at == 0 || at.wrapping_sub(self.last) <= 1;
        if goes_on || pages > max {
            self.size = first(pages, max);
            self.ahead = match self.size.checked_sub(pages) {
                None | Some(0) => self.size / 2,
                Some(more) => more,
            };
        } else {
            let before = cached(max - u32::from(limits.rules.counts_one_less));
            if before <= pages {
                return no_window(pages);
            }
            let whole = before == at;
            let before = if whole { 2 * before } else { before };
            self.size = before.saturating_add(pages).min(max);
            self.ahead = 1;
        }
        self.start = at;
        self.order = 0;
        Window {
            needed: at + 1,
            ..self.window()
        }
    }

    /// A read that wants `pages` from the first page of `folio` on has met the mark there. `missing` finds
    /// the first page after that one that is not cached, no farther away than its argument.
    pub(crate) fn marked(
        &mut self,
        limits: Limits,
        folio: &Range<u32>,
        pages: u32,
        missing: impl FnOnce(u32) -> Option<u32>,
    ) -> Option<Window> {
        let at = folio.start;
        let max = limits.largest(pages, self.advice);
        if max == 0 {
            return None;
        }
        if folio.contains(&(self.start.saturating_add(self.size) - self.ahead)) {
            self.start = self.start.saturating_add(self.size);
            self.size = self.size.max(next(self.size, max));
        } else {
            let start = missing(max)?;
            self.start = start;
            self.size = next((start - at).saturating_add(pages), max);
        }
        let end = self.start.saturating_add(self.size);
        let asked = match limits.order {
            0 => ORDER_STEP,
            largest => (self.order + ORDER_STEP).min(largest),
        };
        let cut = end % (1 << max.trailing_zeros().min(asked.into()));
        if limits.rules.are_cut && cut < self.size {
            self.size -= cut;
        }
        self.ahead = self.size;
        let fits = self.size.checked_ilog2().unwrap_or(0) as u8;
        self.order = asked.min(fits).min(limits.order);
        Some(Window {
            order: self.order,
            ..self.window()
        })
    }

    /// The largest window round page `at`, where nothing tells in which order pages are wanted.
    fn round(&mut self, limits: Limits, at: u32) -> Window {
        self.start = at.saturating_sub(limits.window / 2);
        self.size = limits.window;
        self.ahead = self.size / 4;
        self.window()
    }

    fn window(&self) -> Window {
        let end = self.start.saturating_add(self.size);
        Window {
            mark: Some(end - self.ahead),
            ..Window::ahead(self.start..end)
        }
    }
}

/// The first window for a read of `pages`.
fn first(pages: u32, max: u32) -> u32 {
    let pages = pages.checked_next_power_of_two().unwrap_or(u32::MAX);
    if pages <= max / 32 {
        4 * pages
    } else if pages <= max / 4 {
        2 * pages
    } else {
        max
    }
}

/// The window after one of `pages`.
fn next(pages: u32, max: u32) -> u32 {
    if pages < max / 16 {
        4 * pages
    } else if pages <= max / 2 {
        2 * pages
    } else {
        max
    }
}

#[cfg(test)]
mod tests;
