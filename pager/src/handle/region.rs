//! What a program holds: regions and pins.

use crate::budget::account::holds;
use crate::error::{Error, Result};
use crate::evict::evictor::Victim;
use crate::miss::fill::{register, unregister};
use crate::page::State;
use crate::plant::{self, Plant};
use crate::pool::group::Group;
use crate::pool::inner::Pool;
use crate::region::area::{Backing, NewRegion, RegionInner};
use crate::store::claim::Claim;
use crate::store::Storage;
use crate::sys::PAGE;
use crate::writeback::errseq::{Cursor, ErrSeq};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

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

/// Managed memory. Unmapped when dropped; a file's dirty pages are written first (use
/// [`Region::close`] to see errors of that).
#[derive(Debug)]
pub struct Region {
    pub(crate) inner: Arc<RegionInner>,
    len: usize,
    closed: bool,
    /// Errors that [`Region::sync`] has told.
    told: Cursor,
    /// Its file is nobody else's until the region is torn down.
    pub(crate) claim: Option<Claim>,
}

impl Pool {
    /// Anonymous memory of `bytes` bytes, zeroed, in the root group.
    ///
    /// # Errors
    /// [`Error::Overcommit`]; address space.
    pub fn anonymous(&self, bytes: usize) -> Result<Region> {
        self.root().anonymous(bytes)
    }

    /// A shared read-write map of a whole existing file, in the root group.
    ///
    /// # Errors
    /// As [`Group::file`].
    pub fn file(&self, path: impl AsRef<Path>) -> Result<Region> {
        self.root().file(path)
    }

    /// A read-only map of a whole existing file, in the root group.
    ///
    /// # Errors
    /// As [`Group::file`].
    pub fn file_read_only(&self, path: impl AsRef<Path>) -> Result<Region> {
        self.root().file_read_only(path)
    }

    /// A read-only map of a whole remote object, in the root group.
    ///
    /// # Errors
    /// As [`Group::remote`].
    #[cfg(feature = "remote")]
    pub fn remote(&self, operator: &opendal::Operator, path: &str) -> Result<Region> {
        self.root().remote(operator, path)
    }

    /// Writes all dirty pages of files and makes them durable.
    ///
    /// # Errors
    /// The first page that cannot be written now; else the last error of a write that nobody waited for
    /// (the flusher's, an eviction's, that of a region when it was dropped), of files or of the swap, of
    /// which this handle has not told yet. Each clone of the pool is told once.
    pub fn sync(&self) -> Result<()> {
        let _shield = self.inner.enter()?;
        self.inner.sync_all(&self.told)
    }
}

impl Group {
    /// Anonymous memory of `bytes` bytes, zeroed.
    ///
    /// # Errors
    /// [`Error::Overcommit`]; address space.
    pub fn anonymous(&self, bytes: usize) -> Result<Region> {
        let capacity = holds(self.pool.config.swap.capacity(), self.pool.gate.budget());
        let asked = (bytes.div_ceil(PAGE) * PAGE) as u64;
        {
            let _shield = self.pool.enter()?;
            let mut core = self.pool.core();
            if core.promised + asked > capacity && !self.pool.config.overcommit {
                return Err(Error::Overcommit {
                    asked,
                    promised: core.promised,
                    available: capacity,
                });
            }
            core.promised += asked;
        }
        let made = self.map(bytes, None);
        if made.is_err() {
            self.pool.core().promised -= asked;
        }
        made
    }

    /// A read-only map of a whole remote object, which must not change while it is mapped. With other
    /// options: [`RemoteStorage`](crate::store::RemoteStorage) and [`Self::storage`].
    ///
    /// # Errors
    /// Those of the service; an empty object; address space.
    #[cfg(feature = "remote")]
    pub fn remote(&self, operator: &opendal::Operator, path: &str) -> Result<Region> {
        use crate::store::{RemoteOptions, RemoteStorage};
        let object = RemoteStorage::open(operator, path, RemoteOptions::default())
            .map_err(Error::io("opening a remote object"))?;
        let len = object.len();
        self.storage(Arc::new(object), len, false)
    }

    /// A map of the first `len` bytes of any storage.
    ///
    /// # Errors
    /// `len` = 0; address space.
    pub fn storage(&self, storage: Arc<dyn Storage>, len: u64, writable: bool) -> Result<Region> {
        let backing = Backing {
            storage,
            len,
            writable,
            errors: ErrSeq::default(),
        };
        self.map(len as usize, Some(backing))
    }

    fn map(&self, bytes: usize, backing: Option<Backing>) -> Result<Region> {
        if bytes == 0 || bytes.div_ceil(PAGE) >= u32::MAX as usize {
            return Err(Error::Setting {
                what: "the size of a region",
                value: format!("{bytes} bytes"),
                range: "1 byte to 16 TiB",
            });
        }
        let _shield = self.pool.enter()?;
        if backing.as_ref().is_some_and(|b| b.writable) {
            self.pool.flusher.start(&self.pool)?;
            crate::writeback::exit::remember(&self.pool);
        }
        if self.pool.config.background {
            self.pool.background.start(&self.pool)?;
            self.pool.ahead.start()?;
        }
        let faults = self.pool.faults(self.threads)?;
        let pages = bytes.div_ceil(PAGE);
        let book = self
            .pool
            .core()
            .policy
            .open(self.memcg, pages, backing.is_none())?;
        let made = RegionInner::new(
            self.pool.clone(),
            NewRegion {
                pages,
                book: book.clone(),
                backing,
                faults,
            },
        );
        let inner = match made {
            Ok(r) => Arc::new(r),
            Err(e) => {
                self.pool.core().policy.close(&book);
                return Err(e);
            }
        };
        let mut core = self.pool.core();
        core.add(inner.clone());
        drop(core);
        if !inner.is_explicit() {
            register(inner.clone());
        }
        Ok(Region {
            inner,
            len: bytes,
            closed: false,
            told: Cursor::now(),
            claim: None,
        })
    }

    /// Asks for `bytes` bytes of the group to be evicted now. Returns bytes evicted.
    ///
    /// # Errors
    /// [`Error::Forked`]; the store.
    pub fn reclaim(&self, bytes: u64) -> Result<u64> {
        let _shield = self.pool.enter()?;
        let nr = bytes.div_ceil(PAGE as u64);
        let out = self.pool.reclaim(self.memcg, nr, true)?;
        Ok(out.reclaimed * PAGE as u64)
    }
}

impl Region {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if stores are refused.
    pub fn is_read_only(&self) -> bool {
        self.inner.backing.as_ref().is_some_and(|b| !b.writable)
    }

    /// True if the region is used through `fix` and `fix_mut`, and has no address.
    pub fn is_explicit(&self) -> bool {
        self.inner.is_explicit()
    }

    /// Never: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First byte. The range may be used by any thread that does not block SIGBUS, until the region
    /// is dropped; system calls need a [`Pin`] on what they touch. Not for pools in explicit mode.
    pub fn as_ptr(&self) -> *mut u8 {
        assert!(
            !self.inner.is_explicit(),
            "regions of a pool in explicit mode are used through fix and fix_mut"
        );
        self.inner.map.ptr()
    }

    /// The contents.
    #[allow(unsafe_code)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long as `len` rounded up, readable, and lives as long as self.
        // Misses are transparent: every load sees what was stored last. Nobody writes while the
        // slice lives: `bytes_mut` needs `&mut self`, and raw pointers are their users' business.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    /// The contents, to be changed.
    ///
    /// # Panics
    /// If the region is read-only.
    #[allow(unsafe_code)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let read_only = self.inner.backing.as_ref().is_some_and(|b| !b.writable);
        assert!(!read_only, "the region is read-only");
        // SAFETY: as above, writable, and `&mut self` makes it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len) }
    }

    /// Pages that hold a byte range.
    pub(crate) fn pages_of(&self, range: &Range<usize>) -> Result<Range<usize>> {
        if range.start > range.end || range.end > self.len {
            return Err(Error::Range {
                from: range.start,
                to: range.end,
                len: self.len,
            });
        }
        Ok(range.start / PAGE..range.end.div_ceil(PAGE))
    }

    /// Writes the dirty pages of a byte range and makes them durable; the range grows to whole
    /// pages. Nothing for anonymous memory.
    ///
    /// # Errors
    /// The first page of the range that cannot be written, whoever else syncs what; it stays dirty, so the
    /// next sync tries again. Else the last error of a write to the file that nobody waited for (the
    /// flusher's, an eviction's), or of making the file durable, told once.
    pub fn sync(&self, range: Range<usize>) -> Result<()> {
        let pages = self.pages_of(&range)?;
        let _shield = self.inner.pool.enter()?;
        self.inner.sync(pages.start, pages.len(), &self.told)
    }

    /// Says how a range will be used.
    ///
    /// # Errors
    /// A range outside; failing I/O of `WillNeed` and `DontNeed`.
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<()> {
        let pages = self.pages_of(&range)?;
        let _shield = self.inner.pool.enter()?;
        match advice {
            Advice::Normal => self.inner.advice.store(0, Relaxed),
            Advice::Random => self.inner.advice.store(1, Relaxed),
            Advice::Sequential => self.inner.advice.store(2, Relaxed),
            Advice::WillNeed => return self.inner.prefetch(pages.start, pages.len()),
            Advice::DontNeed => {
                // Only pages that lie in the range as a whole.
                let first = range.start.div_ceil(PAGE);
                let end = if range.end == self.len {
                    pages.end
                } else {
                    range.end / PAGE
                };
                self.inner.cancel_ahead(&(first..end));
                if self.inner.writable_file().is_some() {
                    // What has failed before is left for a sync to tell.
                    let now = Cursor::now();
                    self.inner.sync(pages.start, pages.len(), &now)?;
                    if !plant::on(Plant::DropUnseen) {
                        return self.inner.let_go(first..end);
                    }
                }
                for p in self.inner.book.records.known(first..end) {
                    self.inner.drop_page(p, false)?;
                }
            }
        }
        Ok(())
    }

    /// Brings a byte range in and keeps it until the pin is dropped. System calls may use it
    /// meanwhile; with `write` they may store to it.
    ///
    /// # Errors
    /// A range outside; a store to a read-only region; no memory.
    pub fn pin(&self, range: Range<usize>, write: bool) -> Result<Pin<'_>> {
        let pages = self.pages_of(&range)?;
        if write && self.inner.backing.as_ref().is_some_and(|b| !b.writable) {
            return Err(Error::ReadOnly);
        }
        let _shield = self.inner.pool.enter()?;
        let mut pin = Pin {
            region: self,
            pages: pages.start..pages.start,
            write,
        };
        for p in pages {
            while !self.inner.words.try_pin(p) {
                self.inner.bring_in(p, write)?;
            }
            pin.pages.end = p + 1;
            if plant::on(Plant::PinLost) {
                self.inner.words.unpin(p, write);
            }
        }
        Ok(pin)
    }

    /// Pages of the range that are in memory.
    ///
    /// # Errors
    /// A range outside.
    pub fn resident(&self, range: Range<usize>) -> Result<usize> {
        let pages = self.pages_of(&range)?;
        Ok(pages
            .filter(|&p| self.inner.words.get(p).in_memory())
            .count())
    }

    /// Writes what is dirty, and unmaps.
    ///
    /// # Errors
    /// As [`Self::sync`]; the region is gone nevertheless.
    pub fn close(mut self) -> Result<()> {
        self.tear_down()
    }

    fn tear_down(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let r = &self.inner;
        // A child of fork has neither the range nor the pages.
        let _shield = r.pool.enter()?;
        if let Some(pm) = r.pool.pagemap.as_ref().filter(|_| !r.is_explicit()) {
            r.check_all(pm);
        }
        let synced = r.sync(0, r.pages(), &self.told);
        if let Err(Error::Io { source, .. }) = &synced {
            // The pages go now. Whoever syncs the pool must know.
            r.pool
                .errors
                .note("writing a file that is no longer mapped", source);
        }
        unregister(r);
        r.close_stream();
        let mut gone = Ok(());
        for b in 0..r.blocks() {
            if r.in_block(b) == 0 && r.is_clean_file() {
                continue;
            }
            for p in r.book.records.known(r.block(b)) {
                gone = gone.and(r.drop_page(p, true));
            }
        }
        let mut core = r.pool.core();
        core.remove(r);
        core.policy.close(&r.book);
        r.forget_tables();
        if r.is_anon() {
            core.promised -= (r.pages() * PAGE) as u64;
        }
        drop(core);
        synced.and(gone)
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

impl RegionInner {
    /// Nothing of an evicted page needs to be forgotten but its shadow.
    fn is_clean_file(&self) -> bool {
        !self.is_anon()
    }

    /// Takes pages of a writable file out of memory. Others may store to them until they are out: they
    /// go as evicted pages do, and what is newer than the file is written.
    fn let_go(self: &Arc<Self>, pages: Range<usize>) -> Result<()> {
        let mut taken = Vec::new();
        let mut result = Ok(());
        for p in pages {
            loop {
                let w = self.words.get(p);
                match w.state() {
                    State::Evicted => break,
                    s @ (State::Busy | State::Writeback) => {
                        // Its owner may wait for one of ours.
                        self.evict_taken(&mut taken)?;
                        self.words.wait_while(p, s);
                    }
                    State::Resident if w.pins() > 0 => {
                        result = Err(Error::Mode("a pinned page cannot be dropped"));
                        break;
                    }
                    State::Resident if self.words.try_evict(p) => {
                        taken.push(p);
                        break;
                    }
                    State::Resident => {}
                }
            }
            if taken.len() >= self.pool.config.batch {
                self.evict_taken(&mut taken)?;
            }
        }
        self.evict_taken(&mut taken).and(result)
    }

    /// Evicts pages of a file that the caller has taken.
    fn evict_taken(self: &Arc<Self>, taken: &mut Vec<usize>) -> Result<()> {
        if taken.is_empty() {
            return Ok(());
        }
        let mut core = self.pool.core();
        for &p in taken.iter() {
            core.policy.forget(&self.book, self.pool.swap.as_ref(), p);
        }
        drop(core);
        self.pool.gate.leaving(taken.len() as u64);
        let victims = taken.drain(..).map(|page| Victim {
            region: self.clone(),
            page,
            slot: None,
            must_write: false,
            shadow: None,
        });
        self.pool.evict(victims.collect())
    }

    /// Throws a page's contents away, in memory and in the store. `last`: for good.
    fn drop_page(&self, p: usize, last: bool) -> Result<()> {
        loop {
            let w = self.words.get(p);
            match w.state() {
                State::Evicted => {
                    if self.slot(p).is_none() && !last {
                        return Ok(());
                    }
                    if self.words.try_fill(p) {
                        let mut core = self.pool.core();
                        core.policy.forget(&self.book, self.pool.swap.as_ref(), p);
                        self.pool.gone(&mut core, 0);
                        drop(core);
                        self.words.emptied(p);
                        return Ok(());
                    }
                }
                s @ (State::Busy | State::Writeback) => self.words.wait_while(p, s),
                State::Resident if w.pins() > 0 => {
                    return if last {
                        unreachable!("a pin borrows the region")
                    } else {
                        Err(Error::Mode("a pinned page cannot be dropped"))
                    };
                }
                State::Resident => {
                    if self.words.try_evict(p) {
                        self.take_away(p);
                        let mut core = self.pool.core();
                        core.policy.forget(&self.book, self.pool.swap.as_ref(), p);
                        let last_of_block = self.count_out(p);
                        self.pool.gone(&mut core, 1);
                        drop(core);
                        self.words.emptied(p);
                        if last_of_block && !last {
                            self.release_table(p / crate::region::area::BLOCK);
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Takes a page that the caller owns out of memory.
    pub(crate) fn take_away(&self, p: usize) {
        use crate::region::area::Memory;
        match &self.memory {
            Memory::Faulting { file, .. } => {
                file.check();
                file.remove(p, 1);
            }
            Memory::Explicit => self.drop_explicit(p, 1),
        }
    }
}

/// Pages that stay in memory while it lives.
#[derive(Debug)]
pub struct Pin<'a> {
    region: &'a Region,
    pages: Range<usize>,
    write: bool,
}

impl Pin<'_> {
    /// Bytes it keeps, whole pages.
    pub fn range(&self) -> Range<usize> {
        self.pages.start * PAGE..self.pages.end * PAGE
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.region.unpin(self.pages.clone(), self.write);
    }
}

/// A [`Pin`] that shares the region instead of borrowing it, for callers that cannot name a lifetime.
#[derive(Debug)]
pub struct SharedPin {
    region: Arc<Region>,
    pages: Range<usize>,
    write: bool,
}

impl SharedPin {
    /// Bytes it keeps, whole pages.
    pub fn range(&self) -> Range<usize> {
        self.pages.start * PAGE..self.pages.end * PAGE
    }
}

impl Drop for SharedPin {
    fn drop(&mut self) {
        self.region.unpin(self.pages.clone(), self.write);
    }
}

impl Region {
    /// As [`Self::pin`]; the region lives at least as long as the pin.
    ///
    /// # Errors
    /// As [`Self::pin`].
    pub fn pin_shared(self: &Arc<Self>, range: Range<usize>, write: bool) -> Result<SharedPin> {
        let pin = self.pin(range, write)?;
        let pages = pin.pages.clone();
        // The shared pin lets the pages go instead.
        std::mem::forget(pin);
        Ok(SharedPin {
            region: self.clone(),
            pages,
            write,
        })
    }

    fn unpin(&self, pages: Range<usize>, write: bool) {
        if plant::on(Plant::PinLost) {
            return;
        }
        for p in pages.clone() {
            // A store through a descriptor may come after the kernel last looked at the entry.
            self.inner.words.unpin(p, write);
        }
        if write {
            pages.for_each(|p| self.inner.note_dirty(p));
        }
    }
}
