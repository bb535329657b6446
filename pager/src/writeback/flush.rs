//! Dirty pages of files: writing them without evicting them, the background flusher, `sync`.
//!
//! Order (`pager.md` 10): claim (RESIDENT -> WRITEBACK, the evictor keeps off), list and arm the
//! written marks in one atomic scan, read by descriptor, write, RESIDENT. A store before the scan is
//! in the copy; a store after it faults and sets the mark again.

use crate::error::{Error, Result};
use crate::page::{State, Word};
use crate::plant::{self, Plant};
use crate::pool::inner::PoolInner;
use crate::region::area::{Backing, Memory, RegionInner, BLOCK};
use crate::store::storage::{write_all, Write};
use crate::sys::fuse::pool_thread;
use crate::sys::memory::PageBuf;
use crate::sys::{clock, PAGE};
use crate::writeback::errseq::Cursor;
use coldset_engine::Counter;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, Weak};

/// Most pages of one write.
const RUN: usize = 256;

#[derive(Debug, Default)]
struct Orders {
    wake: bool,
    stop: bool,
    started: bool,
}

#[derive(Debug, Default)]
struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// The flusher thread's mail box.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    shared: Arc<Shared>,
}

impl Flusher {
    /// Everything dirty is to be written soon.
    pub(crate) fn wake(&self) {
        let mut o = self.shared.orders.lock().expect("flusher");
        if !o.wake {
            o.wake = true;
            self.shared.changed.notify_one();
        }
    }

    /// The pool goes away.
    pub(crate) fn stop(&self) {
        self.shared.orders.lock().expect("flusher").stop = true;
        self.shared.changed.notify_one();
    }

    /// Starts the thread, once.
    pub(crate) fn start(&self, pool: &Arc<PoolInner>) -> Result<()> {
        let mut o = self.shared.orders.lock().expect("flusher");
        if o.started {
            return Ok(());
        }
        let (weak, shared) = (Arc::downgrade(pool), self.shared.clone());
        pool_thread("coldset-flush", move || flusher(&weak, &shared))
            .map_err(Error::io("starting the flusher"))?;
        o.started = true;
        Ok(())
    }
}

fn flusher(pool: &Weak<PoolInner>, shared: &Shared) {
    let Some(interval) = pool.upgrade().map(|p| p.config.flush.interval) else {
        return;
    };
    loop {
        let woken = {
            let o = shared.orders.lock().expect("flusher");
            let (mut o, _) = shared
                .changed
                .wait_timeout_while(o, interval, |o| !o.wake && !o.stop)
                .expect("flusher");
            if o.stop {
                return;
            }
            std::mem::take(&mut o.wake)
        };
        let Some(p) = pool.upgrade() else { return };
        let _passage = p.traffic.enter();
        p.flush_round(woken);
    }
}

impl PoolInner {
    fn writable_regions(&self) -> Vec<Arc<RegionInner>> {
        let core = self.core();
        let regions = core.regions.values();
        regions
            .filter(|r| r.writable_file().is_some())
            .cloned()
            .collect()
    }

    /// Dirty pages of files, as far as known.
    pub(crate) fn dirty_pages(&self) -> u64 {
        let core = self.core();
        core.policy
            .engine()
            .memcgs
            .live(core.policy.top, Counter::FileDirty)
            .max(0) as u64
    }

    /// One round of the flusher: finds what is dirty, writes what is old or too much. All of it if
    /// reclaim has asked.
    fn flush_round(&self, all: bool) {
        let regions = self.writable_regions();
        for r in &regions {
            r.find_dirty();
        }
        let now = clock::now();
        let f = &self.config.flush;
        let background = self.gate.budget() * u64::from(f.background_percent) / 100;
        let too_much = all || self.dirty_pages() > background;
        for r in &regions {
            for b in 0..r.blocks() {
                let since = r.dirty_since(b);
                let old = since != 0 && now.saturating_sub(since) >= f.expire.as_nanos() as u64;
                if since != 0 && (too_much || old) {
                    r.flush_block(b);
                }
            }
        }
    }

    /// Writes at least `pages` dirty pages if there are as many. For writers at the hard limit and
    /// reclaim that finds nothing clean. Returns pages written.
    pub(crate) fn flush_some(&self, pages: u64) -> u64 {
        let mut done = 0;
        for r in self.writable_regions() {
            r.find_dirty();
            for b in 0..r.blocks() {
                if r.dirty_since(b) != 0 {
                    done += r.flush_block(b);
                    if done >= pages {
                        return done;
                    }
                }
            }
        }
        done
    }

    /// Keeps writers within the limits: above the hard one they write themselves.
    pub(crate) fn balance_dirty(&self) {
        let f = &self.config.flush;
        let share = |percent: u8| self.gate.budget() * u64::from(percent) / 100;
        let dirty = self.dirty_pages();
        if dirty > share(f.hard_percent) {
            self.counts.throttled_writes.fetch_add(1, Relaxed);
            self.flush_some(self.config.batch as u64);
        } else if dirty > share(f.background_percent) {
            self.flusher.wake();
        }
    }

    /// Writes all dirty pages of files and makes them durable.
    ///
    /// # Errors
    /// The first failure now; else the last one of any write that nobody waited for, of files and of the
    /// swap, that the handle has not been told of.
    pub(crate) fn sync_all(&self, told: &Cursor) -> Result<()> {
        let mut own = Ok(());
        for r in self.writable_regions() {
            own = own.and(r.write_out(0, r.pages()));
        }
        // A failed sync of a file has been noted, and is told here.
        own.and_then(|()| self.errors.check(told))
    }
}

impl RegionInner {
    /// A page of the block is dirty.
    pub(crate) fn note_dirty(&self, page: usize) {
        if self.writable_file().is_none() {
            return;
        }
        let since = &self.book.records.make_block(page / BLOCK).dirty_since;
        if since.load(Relaxed) == 0 {
            since.store(clock::now().max(1), Relaxed);
        }
    }

    /// Looks for pages that have been stored to and tells the engine.
    fn find_dirty(&self) {
        for b in 0..self.blocks() {
            if self.in_block(b) == 0 {
                continue;
            }
            let range = self.block(b);
            let mut dirty: Vec<usize> = Vec::new();
            let usable = |p: usize| self.words.get(p).in_memory();
            if self.is_explicit() {
                dirty.extend(range.filter(|&p| usable(p) && self.words.get(p).dirtied()));
            } else if let Some(pm) = &self.pool.pagemap {
                let scanned = pm.written(&self.map, range.start, range.len(), |run| {
                    dirty.extend((run.first..run.first + run.pages).filter(|&p| usable(p)));
                });
                self.scanned(scanned);
                dirty.extend(range.filter(|&p| usable(p) && self.words.get(p).dirtied()));
            }
            if dirty.is_empty() {
                continue;
            }
            self.note_dirty(dirty[0]);
            let mut core = self.pool.core();
            for p in dirty {
                if let Some(id) = self.folio(p).filter(|_| usable(p)) {
                    core.policy.set_dirty(id);
                }
            }
        }
    }

    /// Writes the dirty pages of a block for nobody in particular: an error waits for the next sync of each
    /// handle, and pages that could not be written stay dirty. Returns pages written.
    pub(crate) fn flush_block(&self, b: usize) -> u64 {
        // Before the pages are looked at: who stores from here on notes it again.
        if let Some(known) = self.known_block(b) {
            known.dirty_since.store(0, Relaxed);
        }
        let range = self.block(b);
        let (written, result) = self.flush_range(range.start, range.end, false);
        if let Err(e) = result {
            self.note_error(&e);
        }
        written
    }

    /// An error of a write that nobody waited for.
    pub(crate) fn note_error(&self, e: &io::Error) {
        if let Some(file) = self.writable_file() {
            file.errors.note(WRITING, e);
        }
        self.pool.errors.note(WRITING, e);
    }

    /// Writes the dirty pages of a range. `wait`: also those that are on their way in or out now. Returns
    /// pages written, and the first failure; what failed stays dirty.
    fn flush_range(&self, start: usize, end: usize, wait: bool) -> (u64, io::Result<()>) {
        let Some(file) = self.writable_file() else {
            return (0, Ok(()));
        };
        let mut buf = match PageBuf::new(RUN) {
            Ok(buf) => buf,
            Err(e) => return (0, Err(e.into())),
        };
        let mut written = 0;
        let mut result = Ok(());
        let mut at = start;
        while at < end {
            let first = at;
            let mut dirtied = [false; RUN];
            while at < end && at - first < RUN && self.claim(at, wait && at == first) {
                dirtied[at - first] = self.claimed_dirty(at);
                at += 1;
            }
            if at == first {
                at += 1;
                continue;
            }
            let n = at - first;
            let dirty = self.arm(first, n, &mut dirtied[..n]);
            let mut runs = Vec::new();
            let mut i = 0;
            while i < n {
                let from = i;
                while i < n && dirtied[i] == dirtied[from] {
                    i += 1;
                }
                if dirtied[from] && dirty {
                    runs.push(from..i);
                } else {
                    (from..i).for_each(|k| self.release(first + k, false));
                }
            }
            let (pages, done) = self.write_runs(file, first, &runs, &mut buf);
            written += pages;
            result = result.and(done);
        }
        (written, result)
    }

    /// Takes a page for writeback. With `wait`, pages on their way are waited for.
    fn claim(&self, page: usize, wait: bool) -> bool {
        loop {
            let claimed = if self.is_explicit() {
                // Guards write without a fault: the page is taken for good while it is copied.
                self.words.try_evict(page)
            } else {
                self.words.try_writeback(page)
            };
            if claimed {
                return true;
            }
            let w = self.words.get(page);
            match w.state() {
                s @ (State::Busy | State::Writeback) if wait => self.words.wait_while(page, s),
                State::Resident if wait && w.pins() == 0 => {}
                _ => return false,
            }
        }
    }

    fn claimed_dirty(&self, page: usize) -> bool {
        // Who stores from here on sets it again.
        self.words.unmark(page, Word::DIRTIED).dirtied()
    }

    /// Adds what the written marks say, and arms them. True if anything is dirty.
    fn arm(&self, first: usize, n: usize, dirty: &mut [bool]) -> bool {
        if let Some(pm) = self.pool.pagemap.as_ref().filter(|_| !self.is_explicit()) {
            let scanned = pm.written_and_arm(&self.map, first, n, |run| {
                dirty[run.first - first..run.first - first + run.pages].fill(true);
            });
            if !self.scanned(scanned) || self.is_torn() {
                dirty.fill(true);
            }
        }
        dirty.contains(&true)
    }

    fn release(&self, page: usize, dirtied: bool) {
        if self.is_explicit() {
            self.words.filled(page, dirtied);
        } else {
            self.words.end_writeback(page, dirtied);
        }
    }

    /// Writes runs of pages that are claimed and armed, counted from `first`, all together. Returns
    /// pages written, and the first error.
    fn write_runs(
        &self,
        file: &Backing,
        first: usize,
        runs: &[Range<usize>],
        buf: &mut PageBuf,
    ) -> (u64, io::Result<()>) {
        let start = clock::now();
        {
            let mut core = self.pool.core();
            for id in runs
                .iter()
                .cloned()
                .flatten()
                .filter_map(|p| self.folio(first + p))
            {
                core.policy.writeback_start(id);
            }
        }
        let read: Vec<io::Result<()>> = runs
            .iter()
            .map(|run| self.copy_out(first + run.start, buf, run))
            .collect();
        if plant::on(Plant::ArmAfterCopy) {
            let end = runs.last().map_or(0, |r| r.end);
            self.arm(first, end, &mut [false; RUN][..end]);
        }
        let mut writes: Vec<Write<'_>> = runs
            .iter()
            .zip(&read)
            .map(|(run, read)| {
                let from = ((first + run.start) * PAGE) as u64;
                let len = (run.len() * PAGE).min(file.len.saturating_sub(from) as usize);
                // Nothing of what could not be read.
                let len = if read.is_ok() { len } else { 0 };
                Write::new(&buf.bytes()[run.start * PAGE..][..len], from)
            })
            .collect();
        write_all(&*file.storage, &mut writes);
        self.pool.counts.writeback_ns.add(clock::now() - start);
        let mut written = 0;
        let mut result = Ok(());
        for ((run, read), w) in runs.iter().zip(read).zip(writes) {
            let done = read.and(w.done.map(drop));
            let pages = first + run.start..first + run.end;
            {
                let mut core = self.pool.core();
                for id in pages.clone().filter_map(|p| self.folio(p)) {
                    core.policy.writeback_end(id, done.is_err());
                }
            }
            pages.for_each(|p| self.release(p, done.is_err()));
            match done {
                Ok(()) => {
                    let n = run.len() as u64;
                    self.pool.counts.written_back.fetch_add(n, Relaxed);
                    written += n;
                }
                Err(e) => {
                    self.pool.counts.store_errors.fetch_add(1, Relaxed);
                    self.note_dirty(first + run.start);
                    result = result.and(Err(e));
                }
            }
        }
        (written, result)
    }

    /// Copies neighbours to their places in the buffer.
    fn copy_out(&self, page: usize, buf: &mut PageBuf, at: &Range<usize>) -> io::Result<()> {
        let bytes = &mut buf.bytes_mut()[at.start * PAGE..at.end * PAGE];
        match &self.memory {
            Memory::Faulting { file, .. } => file.read(page, bytes).map_err(io::Error::from),
            Memory::Explicit => {
                self.load_explicit(page, bytes);
                Ok(())
            }
        }
    }

    /// Writes what is dirty in a range and makes it durable, for a handle.
    ///
    /// # Errors
    /// The first failure of the range, whoever else syncs; else the last one of a write to the file that
    /// nobody waited for, or of a sync of the file, that the handle has not been told of.
    pub(crate) fn sync(&self, first: usize, pages: usize, told: &Cursor) -> Result<()> {
        self.write_out(first, pages)?;
        match self.writable_file() {
            Some(file) => file.errors.check(told),
            None => Ok(()),
        }
    }

    /// Writes what is dirty in a range and syncs the file.
    ///
    /// # Errors
    /// The first page of the range that could not be written. A failure of the file's own sync may be
    /// about what others have written: it is noted, for every handle to be told.
    fn write_out(&self, first: usize, pages: usize) -> Result<()> {
        let Some(file) = self.writable_file() else {
            return Ok(());
        };
        if self.is_explicit() && (first..first + pages).any(|p| self.words.get(p).pins() > 0) {
            return Err(Error::Mode(
                "pages of the range are fixed; drop their guards before sync",
            ));
        }
        if !self.is_explicit() {
            self.check_whole();
        }
        let end = first + pages;
        let mut at = first;
        let mut result = Ok(());
        while at < end {
            let b = at / BLOCK;
            let to = ((b + 1) * BLOCK).min(end);
            if self.in_block(b) > 0 {
                result = result.and(self.flush_range(at, to, true).1);
            }
            at = to;
        }
        // Also after a failure: what could be written should last.
        if let Err(e) = file.storage.sync() {
            self.note_error(&e);
        }
        plant::one_slot(result).map_err(Error::io(WRITING))?;
        if self.is_torn() {
            return Err(Error::Torn);
        }
        Ok(())
    }
}

/// What has failed, in messages.
const WRITING: &str = "writing a file";

impl Drop for PoolInner {
    fn drop(&mut self) {
        self.flusher.stop();
        self.background.stop();
        self.ahead.stop();
        self.recompressor.stop();
    }
}
