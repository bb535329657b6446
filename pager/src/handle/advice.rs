//! Advice: how a program will use a region.

use super::region::Region;
use crate::error::{Error, Result};
use crate::plant::{self, Plant};
use crate::region::stream::Pattern;
use crate::store::errseq::Cursor;
use crate::sys::PAGE;
use std::ops::Range;

/// How a program will use a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Reads ahead if misses come in order. Applies to the whole region, whatever the range.
    Normal,
    /// No read-ahead. Applies to the whole region, whatever the range.
    Random,
    /// Full read-ahead. Applies to the whole region, whatever the range.
    Sequential,
    /// Brings in every page that the range touches. Pages that do not fit into the budget push others out.
    WillNeed,
    /// Drops pages that lie entirely in the range. Anonymous memory reads as zeroes afterwards; pages of a file leave
    /// memory, and stores to them are written first. A page that lies only partly in the range stays as it is. A
    /// range that ends with the region covers its last page entirely.
    DontNeed,
}

impl Region {
    /// Says how a range of bytes will be used. For an empty range, nothing is brought in or dropped.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked); a range outside of the region; failed I/O of `WillNeed` and
    /// `DontNeed`.
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
