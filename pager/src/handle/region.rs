//! A region as the program holds it.

use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::miss::registry::unregister;
use crate::pool::inner::PoolInner;
use crate::region::area::Area;
use crate::store::claim::Claim;
use crate::store::errseq::Cursor;
use crate::sys::fork::OfMaker;
use crate::sys::PAGE;
use std::ops::Range;
use std::sync::Arc;

/// Managed memory. It is unmapped when dropped, after a file's dirty pages have been written (use [`Region::close`]
/// to see errors of that).
#[derive(Debug)]
pub struct Region {
    pub(super) pool: Arc<OfMaker<PoolInner>>,
    pub(super) area: Arc<Area>,
    len: usize,
    closed: bool,
    /// Errors that [`Region::sync`] has reported.
    told: Cursor,
    /// Keeps the file for this region alone until the region is torn down.
    pub(super) claim: Option<Claim>,
}

impl Region {
    pub(super) fn new(pool: Arc<OfMaker<PoolInner>>, area: Arc<Area>, len: usize) -> Self {
        Self {
            pool,
            area,
            len,
            closed: false,
            told: Cursor::now(),
            claim: None,
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if stores are refused.
    pub fn is_read_only(&self) -> bool {
        self.area.is_read_only()
    }

    /// True if the region is used through `fix` and `fix_mut` and has no address.
    pub fn is_explicit(&self) -> bool {
        self.area.is_explicit()
    }

    /// Always false: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte. Any thread that does not block SIGBUS may use the range until the region is dropped. System
    /// calls need a [`Pin`] on what they touch. Not for pools in explicit mode.
    pub fn as_ptr(&self) -> *mut u8 {
        assert!(
            !self.area.is_explicit(),
            "regions of a pool in explicit mode are used through fix and fix_mut"
        );
        self.area.memory().ptr()
    }

    /// The contents.
    #[allow(unsafe_code)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long as `len` rounded up, readable, and lives as long as self.
        // Misses are transparent: every load sees what was stored last. Nobody writes while the
        // slice lives: `bytes_mut` needs `&mut self`, and raw pointers are their users' business.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    /// The contents, for changing.
    ///
    /// # Panics
    /// If the region is read-only.
    #[allow(unsafe_code)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(!self.is_read_only(), "the region is read-only");
        // SAFETY: as above, writable, and `&mut self` makes it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len) }
    }

    /// The pages that hold a byte range; none for an empty range.
    pub(super) fn pages_of(&self, range: &Range<usize>) -> Result<Range<usize>> {
        if range.start > range.end || range.end > self.len {
            return Err(Error::Range {
                from: range.start,
                to: range.end,
                len: self.len,
            });
        }
        let first = range.start / PAGE;
        let end = match range.is_empty() {
            true => first,
            false => range.end.div_ceil(PAGE),
        };
        Ok(first..end)
    }

    /// Writes the dirty pages of a byte range and makes them durable; the range grows to whole pages. Does nothing
    /// for anonymous memory.
    ///
    /// # Errors
    /// [`Error::Forked`]; a range outside of the region. The error of the first page of the range that cannot be
    /// written, no matter who else syncs; the page stays dirty, so the next `sync` tries again. Otherwise, once, the
    /// last error of a write to the file that nobody waited for (the flusher's, an eviction's), or of making the file
    /// durable.
    pub fn sync(&self, range: Range<usize>) -> Result<()> {
        let pages = self.pages_of(&range)?;
        let _shield = self.pool.res.enter()?;
        self.sync_pages(&pages, &self.told)
    }

    /// Pages of a byte range that are in memory. The range grows to whole pages; an empty range has none. Pages of a
    /// file that are mapped from the page cache are not counted.
    ///
    /// # Errors
    /// [`Error::Forked`]; a range outside.
    pub fn resident(&self, range: Range<usize>) -> Result<usize> {
        let pages = self.pages_of(&range)?;
        let _shield = self.pool.res.shield()?;
        let words = self.area.words();
        Ok(pages.filter(|&p| words.get(p).in_memory()).count())
    }

    /// Writes dirty pages and unmaps the region.
    ///
    /// # Errors
    /// As [`Self::sync`]; the region is gone all the same.
    pub fn close(mut self) -> Result<()> {
        self.tear_down()
    }

    fn tear_down(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let (res, area) = (&*self.pool.res, &*self.area);
        // A child of fork has neither the range nor the pages.
        let _shield = res.enter_to_end()?;
        res.end_loans(area, true);
        meanwhile();
        if let Some(pm) = res.pagemap.as_ref().filter(|_| !area.is_explicit()) {
            area.memory().check_all(pm);
        }
        self.end_forgotten();
        let synced = self.sync_pages(&(0..area.pages()), &self.told);
        if let Err(Error::Io { what, source }) = &synced {
            // The pages go now. The next sync of the pool tells.
            res.errors
                .note(format!("{what}, which is no longer mapped"), source);
        }
        meanwhile();
        unregister(area);
        meanwhile();
        area.stream().close();
        meanwhile();
        let gone = self.drop_all();
        meanwhile();
        let mut core = res.core();
        core.remove(area);
        // The group would be charged for what waits in a batch until others have filled it.
        core.policy.drain();
        core.policy.close(area.book());
        area.forget_tables();
        if area.is_anon() {
            core.release((area.pages() * PAGE) as u64);
        }
        drop(core);
        synced.and(gone)
    }

    pub(super) fn sync_pages(&self, pages: &Range<usize>, told: &Cursor) -> Result<()> {
        self.pool
            .writeback
            .sync(&self.area, pages.start, pages.len(), told)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Err(e) = self.tear_down() {
            if !matches!(e, Error::Forked) {
                eprintln!("coldset: a dropped region: {e}");
            }
        }
    }
}
