//! What a program says about how it will use a region.

use super::region::Region;
use crate::error::Result;
use crate::plant::{self, Plant};
use crate::region::stream::Pattern;
use crate::store::errseq::Cursor;
use crate::sys::PAGE;
use std::ops::Range;

/// What a program says about how it will use a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Misses are read ahead of if they come in order.
    Normal,
    /// No read-ahead. For the whole region.
    Random,
    /// Full read-ahead. For the whole region.
    Sequential,
    /// Brings the range in. What does not fit into the budget pushes others out.
    WillNeed,
    /// Contents of the range may go: anonymous memory reads as zeroes afterwards, files keep what
    /// was written.
    DontNeed,
}

impl Region {
    /// Says how a range will be used.
    ///
    /// # Errors
    /// A range outside; failing I/O of `WillNeed` and `DontNeed`.
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<()> {
        let pages = self.pages_of(&range)?;
        let _shield = self.pool.res.enter()?;
        let stream = self.area.stream();
        match advice {
            Advice::Normal => stream.expect(Pattern::Unknown),
            Advice::Random => stream.expect(Pattern::Random),
            Advice::Sequential => stream.expect(Pattern::Sequential),
            Advice::WillNeed => {
                let (first, n) = (pages.start, pages.len());
                return self.pool.misses.prefetch(&self.area, first, n);
            }
            Advice::DontNeed => {
                // Only pages that lie in the range as a whole.
                let first = range.start.div_ceil(PAGE);
                let end = if range.end == self.len() {
                    pages.end
                } else {
                    range.end / PAGE
                };
                self.pool.ahead.cancel(&self.area, &(first..end));
                self.pool.res.end_loans(&self.area, false);
                if self.area.writable_file().is_some() {
                    // What has failed before is left for a sync to tell.
                    self.sync_pages(&pages, &Cursor::now())?;
                    if !plant::on(Plant::DropUnseen) {
                        return self.let_go(first..end);
                    }
                }
                self.drop_pages(first..end, false)?;
            }
        }
        Ok(())
    }
}
