//! Holes of a file: what was cut off and has not been written since.

use super::per_page::Bits;

/// The pages from one on, but for those that were written again. They have no place on the device and read as zeros.
#[derive(Debug)]
pub(super) struct Holes {
    from: u32,
    written: Bits,
}

impl Holes {
    /// Of a file of `pages` pages that ends before page `from`.
    pub(super) fn new(from: u32, pages: u32, scattered: bool) -> Self {
        Self {
            from,
            written: Bits::new(pages, scattered),
        }
    }

    /// The file is `pages` pages long.
    pub(super) fn grow(&mut self, pages: u32) {
        self.written.grow(pages);
    }

    /// It is cut again.
    pub(super) fn cut(&mut self, from: u32) {
        self.from = self.from.min(from);
        let mut at = from;
        while let Some(page) = self.written.next(at) {
            self.written.clear(page);
            at = page + 1;
        }
    }

    pub(super) fn write(&mut self, page: u32) {
        self.written.set(page);
    }

    pub(super) fn has(&self, page: u32) -> bool {
        page >= self.from && !self.written.has(page)
    }
}
