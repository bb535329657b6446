//! Which dirty pages of files are written, and when: the flusher, writers at the limit, `sync`.

use super::write::{dirty_pages_of, write_fixed, write_range};
use crate::budget::resources::Resources;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::plant;
use crate::region::area::{Area, BLOCK};
use crate::store::errseq::Cursor;
use crate::sys::bell::Bell;
use crate::sys::{clock, PAGE};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// Writes dirty pages of files.
#[derive(Debug)]
pub(crate) struct Writeback {
    res: Arc<Resources>,
    /// Wakes the flusher: all that is dirty is to be written soon.
    bell: Arc<Bell>,
}

impl Writeback {
    pub(crate) fn new(res: Arc<Resources>, bell: Arc<Bell>) -> Self {
        Self { res, bell }
    }

    pub(super) fn resources(&self) -> &Resources {
        &self.res
    }

    /// Starts the flusher, once.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(self: &Arc<Self>) -> Result<()> {
        let weak = Arc::downgrade(self);
        let interval = self.res.config.flush.interval;
        self.bell
            .start("coldset-flush", move |bell| {
                while let Some(rung) = bell.wait(interval) {
                    if !flush(&weak, rung) {
                        return;
                    }
                }
            })
            .map_err(Error::io("starting the flusher"))
    }

    fn writable_areas(&self) -> Vec<Arc<Area>> {
        let mut areas = self.res.areas();
        areas.retain(|a| a.writable_file().is_some());
        areas
    }

    /// One round of the flusher: finds what is dirty, writes what is old or too much. All of it if
    /// reclaim has asked.
    fn flush_round(&self, all: bool) {
        let areas = self.writable_areas();
        for area in &areas {
            self.find_dirty(area);
        }
        let now = clock::now();
        let f = &self.res.config.flush;
        let too_much = all || self.res.dirty_pages() > self.share(f.background_percent);
        for area in &areas {
            for b in 0..area.blocks() {
                let since = area.dirty_since(b);
                let old = since != 0 && now.saturating_sub(since) >= f.expire.as_nanos() as u64;
                if since != 0 && (too_much || old) {
                    self.flush_block(area, b);
                }
            }
        }
    }

    /// Pages that are a share of the budget.
    fn share(&self, percent: u8) -> u64 {
        self.res.gate.budget() * u64::from(percent) / 100
    }

    /// Writes at least `pages` dirty pages if there are as many. For writers at the hard limit and
    /// reclaim that finds nothing clean. Returns pages written.
    pub(crate) fn flush_some(&self, pages: u64) -> u64 {
        let mut done = 0;
        for area in self.writable_areas() {
            self.find_dirty(&area);
            for b in 0..area.blocks() {
                if area.dirty_since(b) != 0 {
                    done += self.flush_block(&area, b);
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
        let f = &self.res.config.flush;
        let dirty = self.res.dirty_pages();
        if dirty > self.share(f.hard_percent) {
            self.res.counts.throttled_writes.fetch_add(1, Relaxed);
            self.flush_some(self.res.config.batch as u64);
        } else if dirty > self.share(f.background_percent) {
            self.bell.ring();
        }
    }

    /// Looks for pages that have been stored to and tells the engine.
    fn find_dirty(&self, area: &Area) {
        for b in (0..area.blocks()).filter(|&b| area.in_block(b) > 0) {
            let dirty = dirty_pages_of(&self.res, area, area.block(b));
            let Some(&first) = dirty.first() else {
                continue;
            };
            meanwhile();
            let mut core = self.res.core();
            for p in dirty {
                let usable = area.words().get(p).in_memory();
                if let Some(id) = area.folio(p).filter(|_| usable) {
                    core.policy.set_dirty(id);
                }
            }
            drop(core);
            meanwhile();
            // Last: others may have written some of them meanwhile, and the next to write what is left of the block finds
            // them clean and says so.
            area.note_dirty(first);
        }
    }

    /// Writes the dirty pages of a block for nobody in particular: an error waits for the next sync of each
    /// handle, and pages that could not be written stay dirty. Returns pages written.
    fn flush_block(&self, area: &Area, b: usize) -> u64 {
        area.forget_dirty(b);
        meanwhile();
        let done = write_range(&self.res, area, area.block(b), false);
        if let Err(e) = done.result {
            self.res.note_error(area, &e);
        }
        if let Some(page) = done.fixed {
            area.note_dirty(page);
        }
        done.written
    }

    /// Writes all dirty pages of files and makes them durable.
    ///
    /// # Errors
    /// The first failure now; else the last one of any write that nobody waited for, of files and of the
    /// swap, that the handle has not been told of.
    pub(crate) fn sync_all(&self, told: &Cursor) -> Result<()> {
        let mut own = Ok(());
        for area in self.writable_areas() {
            own = own.and(self.write_out(&area, 0, area.pages()));
        }
        // A failed sync of a file has been noted, and is told here.
        own.and_then(|()| self.res.errors.check(told))
    }

    /// The same when the process ends, also of pages that guards have for writing: nobody drops those any more.
    ///
    /// # Errors
    /// As [`Self::sync_all`].
    pub(super) fn sync_at_exit(&self) -> Result<()> {
        let mut own = Ok(());
        for area in self.writable_areas() {
            own = own.and(write_fixed(&area));
            let rest = self.write_out(&area, 0, area.pages());
            own = own.and(match rest {
                Err(Error::Fixed { .. }) => Ok(()),
                other => other,
            });
        }
        own.and_then(|()| self.res.errors.check(&Cursor::now()))
    }

    /// Writes what is dirty in a range and makes it durable, for a handle.
    ///
    /// # Errors
    /// The first failure of the range, no matter who else syncs; else the last one of a write to the file that
    /// nobody waited for, or of a sync of the file, that the handle has not been told of.
    pub(crate) fn sync(
        &self,
        area: &Area,
        first: usize,
        pages: usize,
        told: &Cursor,
    ) -> Result<()> {
        self.write_out(area, first, pages)?;
        match area.writable_file() {
            Some(file) => file.errors.check(told),
            None => Ok(()),
        }
    }

    /// Writes what is dirty in a range and syncs the file.
    ///
    /// # Errors
    /// The first page of the range that could not be written, or a guard has one of them for writing: all others have been
    /// written then. A failure of the file's own sync may be
    /// about what others have written: it is noted, for every handle to be told.
    fn write_out(&self, area: &Area, first: usize, pages: usize) -> Result<()> {
        let Some(file) = area.writable_file() else {
            return Ok(());
        };
        if !area.is_explicit() {
            area.memory().check_whole();
        }
        let end = first + pages;
        let mut at = first;
        let mut result = Ok(());
        let mut fixed = None;
        while at < end {
            let b = at / BLOCK;
            let to = ((b + 1) * BLOCK).min(end);
            if area.in_block(b) > 0 {
                let done = write_range(&self.res, area, at..to, true);
                result = result.and(done.result);
                fixed = fixed.or(done.fixed);
            }
            at = to;
        }
        meanwhile();
        // Also after a failure: what could be written should last.
        if let Err(e) = file.storage.sync() {
            self.res.note_error(area, &e);
        }
        plant::one_slot(result).map_err(Error::io(file.doing("writing")))?;
        if area.memory().is_torn() {
            return Err(Error::Torn);
        }
        match fixed {
            Some(page) => Err(Error::Fixed { at: page * PAGE }),
            None => Ok(()),
        }
    }
}

/// A round of the flusher. False: the pool is gone.
fn flush(writeback: &Weak<Writeback>, all: bool) -> bool {
    let Some(w) = writeback.upgrade() else {
        return false;
    };
    let _passage = w.res.traffic.enter();
    w.flush_round(all);
    true
}

#[cfg(test)]
mod tests {
    use crate::store::Storage;
    use crate::{Pool, PoolConfig};
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::Arc;

    #[derive(Debug)]
    struct Zeroes;

    impl Storage for Zeroes {
        fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<usize> {
            buf.fill(0);
            Ok(buf.len())
        }

        fn write_at(&self, buf: &[u8], _: u64) -> io::Result<usize> {
            Ok(buf.len())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// One thread looks for dirty pages, another writes them: what the first has seen is not true any more when it says so.
    #[test]
    fn what_has_been_written_meanwhile_does_not_stay_dirty() {
        const BYTES: usize = 64 << 12;
        let pool = match Pool::new(PoolConfig::new(4 << 20).background(false)) {
            Ok(pool) => pool,
            Err(e) => return println!("skipped: {e}"),
        };
        let root = pool.root();
        let mut region = root.storage(Arc::new(Zeroes), BYTES as u64, true).unwrap();
        for attempt in 0..20 {
            let stop = AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    let writeback = &pool.inner.writeback;
                    let areas = writeback.writable_areas();
                    while !stop.load(Relaxed) {
                        areas.iter().for_each(|area| writeback.find_dirty(area));
                    }
                });
                for _ in 0..20 {
                    let pages = region.bytes_mut().chunks_exact_mut(1 << 12);
                    pages.for_each(|page| page[0] ^= 1);
                    region.sync(0..BYTES).unwrap();
                }
                stop.store(true, Relaxed);
            });
            region.sync(0..BYTES).unwrap();
            assert_eq!(pool.stats().dirty_pages, 0, "attempt {attempt}");
        }
    }
}
