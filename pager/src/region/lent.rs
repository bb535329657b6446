//! Blocks of a region in whose place the file's own pages are mapped, from the kernel's page cache.
//!
//! Which blocks, and for how long, is decided in `miss/loans.rs`. Here is what the kernel is asked for, and what must
//! not happen meanwhile: calls about the region's own mapping, which would take a lent block for one that the program
//! has replaced.

use super::area::BLOCK;
use super::memory::Memory;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::sys::maps::Maps;
use crate::sys::userfaultfd::Userfaultfd;
use crate::sys::PAGE;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, RwLock};

/// Blocks that are lent.
#[derive(Debug, Default)]
pub(super) struct Lent {
    /// Held for reading over calls about the region's own mapping.
    blocks: RwLock<Vec<usize>>,
    /// How many: so that there is no lock to take where none are.
    count: AtomicUsize,
    /// None before so many pages have come into the pool; never again, if that is all there are: the region goes away, or its
    /// file is not fit for it.
    not_before: AtomicU64,
}

impl Lent {
    /// Calls `f` if none of the pages is lent, and none becomes so meanwhile.
    pub(super) fn unless<T>(&self, pages: &Range<usize>, f: impl FnOnce() -> T) -> Option<T> {
        let lent = self.blocks.read().expect("lent blocks");
        let blocks = pages.start / BLOCK..pages.end.div_ceil(BLOCK);
        let none = !lent.iter().any(|b| blocks.contains(b));
        none.then(f)
    }

    /// It is the region's again.
    fn remove(&self, lent: &mut Vec<usize>, block: usize) {
        lent.retain(|&b| b != block);
        self.count.store(lent.len(), Release);
    }
}

/// What a block is lent from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lender<'a> {
    pub(crate) maps: &'a Maps,
    pub(crate) file: BorrowedFd<'a>,
}

impl Memory {
    /// Are the file's pages mapped in this page's place?
    pub(crate) fn is_lent(&self, page: usize) -> bool {
        let lent = || {
            self.lent
                .blocks
                .read()
                .expect("lent blocks")
                .contains(&(page / BLOCK))
        };
        self.lent.count.load(Acquire) > 0 && lent()
    }

    /// Pages in whose place the file's are mapped.
    pub(crate) fn lent_pages(&self) -> u64 {
        (self.lent.count.load(Acquire) * BLOCK) as u64
    }

    /// Can blocks of it be lent, when so many pages have come in?
    pub(crate) fn lends(&self, passed: u64) -> bool {
        !self.is_torn()
            && self.lent.not_before.load(Relaxed) <= passed
            && self.uffd().is_some_and(Userfaultfd::follows_moves)
    }

    /// None is until so many pages have come in.
    pub(crate) fn lends_not_before(&self, passed: u64) {
        self.lent.not_before.fetch_max(passed, Relaxed);
    }

    /// From now on none is.
    pub(crate) fn lends_no_more(&self) {
        self.lends_not_before(u64::MAX);
    }

    /// Maps the file's pages in the place of a block, all of whose pages the caller owns (BUSY) and none is in memory.
    /// False: what is there is not the region's, or the kernel refuses.
    pub(crate) fn lend(&self, block: usize, from: Lender<'_>) -> bool {
        let Some(own) = self.extent().filter(|_| !self.is_torn()) else {
            return false;
        };
        let (offset, len) = (block * BLOCK * PAGE, BLOCK * PAGE);
        let at = self.addr() + offset;
        let mut lent = self.lent.blocks.write().expect("lent blocks");
        if !from
            .maps
            .shows(at, len, own.as_fd(), own.offset(block * BLOCK))
        {
            return false;
        }
        meanwhile();
        let done = self.map.lend(offset, len, from.file, offset as u64);
        meanwhile();
        lent.push(block);
        self.lent.count.store(lent.len(), Release);
        drop(lent);
        meanwhile();
        // Some file systems name other files than they map: what is lent there could not be told from what the program
        // has mapped.
        let told = from.maps.shows(at, len, from.file, offset as u64);
        done.is_ok() && told || {
            let _ = self.restore(block);
            false
        }
    }

    /// Brings the pages of a lent block into memory, and maps them.
    ///
    /// # Errors
    /// They cannot be read: an access would be SIGBUS.
    pub(crate) fn populate(&self, block: usize) -> rustix::io::Result<()> {
        self.map.populate(block * BLOCK * PAGE, BLOCK * PAGE)
    }

    /// Maps the region's own pages again in the place of a lent block, of which none is in memory.
    ///
    /// # Errors
    /// The kernel refuses: the block stays lent. Of a region that the program has changed nothing is touched.
    pub(crate) fn take_back(&self, block: usize, from: Lender<'_>) -> Result<()> {
        let (offset, len) = (block * BLOCK * PAGE, BLOCK * PAGE);
        let at = self.addr() + offset;
        if self.is_torn() || !from.maps.shows(at, len, from.file, offset as u64) {
            self.tear();
            let mut lent = self.lent.blocks.write().expect("lent blocks");
            self.lent.remove(&mut lent, block);
            return Ok(());
        }
        let what = "mapping a region again (mappings, vm.max_map_count)";
        meanwhile();
        self.restore(block).map_err(Error::sys(what))
    }

    fn restore(&self, block: usize) -> rustix::io::Result<()> {
        let (offset, len) = (block * BLOCK * PAGE, BLOCK * PAGE);
        let uffd = self.uffd().ok_or(Errno::INVAL)?;
        let mut lent = self.lent.blocks.write().expect("lent blocks");
        let back = self.map.take_back(offset, len, |own| uffd.register(own));
        back?;
        meanwhile();
        self.lent.remove(&mut lent, block);
        Ok(())
    }
}

/// A lent block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loan {
    pub(crate) block: usize,
    /// Its pages came into the page cache for it, and leave with it.
    pub(crate) ours: bool,
}

/// The loans of a region, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    pub(crate) lent: VecDeque<Loan>,
    /// The block after the one that was lent last.
    pub(crate) next: usize,
    /// Pages from there on that the kernel has read ahead. They are charged, too.
    pub(crate) ahead: u64,
    /// How many these may become, once it is known.
    pub(crate) reach: u64,
    /// Bytes of the file that were to leave the page cache and could not yet: the kernel was reading them.
    pub(crate) left: VecDeque<Range<u64>>,
    /// Accesses that have missed since the last loan, in a lent block.
    pub(crate) late: u32,
    /// When the last of them was made, nanoseconds.
    pub(crate) since: u64,
}

impl Loans {
    /// Pages that are charged for them.
    pub(crate) fn charged(&self) -> u64 {
        (self.lent.len() * BLOCK) as u64 + self.ahead
    }
}

/// Those of a region, for one thread at a time.
pub(crate) type LoansOf = Mutex<Loans>;
