//! Access without page faults: fix a page, use it, release it. This is for kernels and containers without
//! userfaultfd; page states, engine and stores are the same.
//!
//! Any number of readers or one writer hold a page at a time. Do not fix a page for writing while
//! the same thread holds another guard on it: it would wait for itself.

use super::region::Region;
use crate::budget::deciding::refuse_inside;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::sys::PAGE;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page fixed for reading.
#[derive(Debug)]
pub struct Fixed<'a> {
    region: &'a Region,
    page: usize,
}

/// A page fixed for reading and writing.
#[derive(Debug)]
pub struct FixedMut<'a> {
    region: &'a Region,
    page: usize,
}

/// A page fixed by a guard that shares the region, for callers that cannot name a lifetime.
#[derive(Debug)]
pub struct SharedFix {
    region: Arc<Region>,
    page: usize,
    write: bool,
}

impl SharedFix {
    /// The first byte of the page. Until the guard is dropped, the page stays and nobody else writes to it. If it is
    /// fixed for writing, nobody else uses it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.page_ptr(self.page)
    }

    /// The page may be written to.
    pub fn is_for_writing(&self) -> bool {
        self.write
    }
}

impl Drop for SharedFix {
    fn drop(&mut self) {
        self.region.let_page_go(self.page, self.write);
    }
}

impl Region {
    fn explicit_page(&self, page: usize) -> Result<()> {
        if !self.area.is_explicit() {
            return Err(Error::Mode(
                "fix and fix_mut are for pools in explicit mode; use bytes and bytes_mut",
            ));
        }
        let pages = self.area.pages();
        if page >= pages {
            return Err(Error::NoPage { page, pages });
        }
        // It does not have the memory, which the guard would show.
        self.pool.res.refuse_forked()
    }

    /// Fixes a page for reading.
    ///
    /// # Errors
    /// The pool is not in explicit mode; [`Error::NoPage`]; [`Error::Forked`]; no memory; an error of the store.
    pub fn fix(&self, page: usize) -> Result<Fixed<'_>> {
        self.explicit_page(page)?;
        while !self.area.words().try_fix(page) {
            self.wait_or_bring_in(page, false)?;
        }
        Ok(Fixed { region: self, page })
    }

    /// Fixes a page for writing.
    ///
    /// # Errors
    /// As [`Self::fix`]; a read-only region.
    pub fn fix_mut(&self, page: usize) -> Result<FixedMut<'_>> {
        self.explicit_page(page)?;
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        while !self.area.words().try_fix_exclusive(page) {
            self.wait_or_bring_in(page, true)?;
        }
        Ok(FixedMut { region: self, page })
    }

    /// As [`Self::fix`] or, with `write`, [`Self::fix_mut`]; the region lives at least as long as the guard.
    ///
    /// # Errors
    /// As those.
    pub fn fix_shared(self: &Arc<Self>, page: usize, write: bool) -> Result<SharedFix> {
        // The shared guard lets the page go instead.
        match write {
            true => std::mem::forget(self.fix_mut(page)?),
            false => std::mem::forget(self.fix(page)?),
        }
        Ok(SharedFix {
            region: self.clone(),
            page,
            write,
        })
    }

    fn let_page_go(&self, page: usize, wrote: bool) {
        self.area.words().unpin(page, wrote);
        if wrote {
            meanwhile();
            self.area.note_dirty(page);
        }
    }

    fn wait_or_bring_in(&self, page: usize, write: bool) -> Result<()> {
        // Whoever has it may need the policy that this thread asks.
        refuse_inside()?;
        if self.area.words().wait_turn(page, write) {
            return Ok(());
        }
        let _shield = self.pool.res.enter()?;
        meanwhile();
        self.pool.misses.bring_in(&self.area, page, write)
    }

    #[allow(unsafe_code)]
    fn page_ptr(&self, page: usize) -> *mut u8 {
        // SAFETY: guards exist for pages inside the mapping only.
        unsafe { self.area.memory().ptr().add(page * PAGE) }
    }
}

impl Deref for Fixed<'_> {
    type Target = [u8];
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the page is pinned: it is in memory and stays. Writers need it exclusively, so
        // there is none; evictor and flusher only take unpinned pages.
        unsafe { std::slice::from_raw_parts(self.region.page_ptr(self.page), PAGE) }
    }
}

impl Drop for Fixed<'_> {
    fn drop(&mut self) {
        self.region.let_page_go(self.page, false);
    }
}

impl Deref for FixedMut<'_> {
    type Target = [u8];
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: as in `Fixed`, and this guard is the only one on the page.
        unsafe { std::slice::from_raw_parts(self.region.page_ptr(self.page), PAGE) }
    }
}

impl DerefMut for FixedMut<'_> {
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` makes the slice exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.region.page_ptr(self.page), PAGE) }
    }
}

impl Drop for FixedMut<'_> {
    fn drop(&mut self) {
        self.region.let_page_go(self.page, true);
    }
}
