//! What a program says about how it will use a region.

use super::region::Region;
use crate::error::{Error, Result};
use crate::plant::{self, Plant};
use crate::region::stream::Pattern;
use crate::store::errseq::Cursor;
use crate::sys::PAGE;
use std::ops::Range;

/// What a program says about how it will use a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Misses are read ahead of if they come in order. For the whole region, whatever the range.
    Normal,
    /// No read-ahead. For the whole region, whatever the range.
    Random,
    /// Full read-ahead. For the whole region, whatever the range.
    Sequential,
    /// Brings all pages in that hold a part of the range. What does not fit into the budget pushes others out.
    WillNeed,
    /// Contents may go of pages that lie in the range as a whole: of anonymous memory they read as zeroes afterwards; of
    /// a file they leave memory, and what was stored to them is written first. A page of which only a part lies in the
    /// range stays as it is, but the last one of the region is whole in every range that ends with the region.
    DontNeed,
}

impl Region {
    /// Says how a range of bytes will be used. With an empty one nothing is brought in, and nothing goes.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked); a range outside; failing I/O of `WillNeed` and `DontNeed`.
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<()> {
        let pages = self.pages_of(&range)?;
        let _shield = self.pool.res.enter()?;
        let stream = self.area.stream();
        match advice {
            Advice::WillNeed | Advice::DontNeed if pages.is_empty() => {}
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
                    match self.sync_pages(&pages, &Cursor::now()) {
                        // Met again below, if it is to go.
                        Err(Error::Fixed { .. }) => {}
                        synced => synced?,
                    }
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
