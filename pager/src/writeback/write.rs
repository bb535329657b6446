//! Writing dirty pages of a file without evicting them.
//!
//! Order: claim (RESIDENT -> WRITEBACK, the evictor keeps off, and where pages are used through guards, their writers), list and arm the written marks in one
//! atomic scan, read by descriptor, write, RESIDENT. A store before the scan is in the copy; a store after
//! it faults and sets the mark again.

use crate::budget::core::Core;
use crate::budget::moved::Moved;
use crate::budget::resources::Resources;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::page::{PageState, Word};
use crate::plant::{self, Plant};
use crate::region::area::Area;
use crate::region::backing::Backing;
use crate::store::storage::{write_all, Write};
use crate::sys::memory::PageBuf;
use crate::sys::pagemap::Scan;
use crate::sys::{clock, PAGE};
use coldset_engine::{Flags, FolioId};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Most pages of one write.
const RUN: usize = 256;

/// What writing a range came to.
#[derive(Debug)]
pub(super) struct Done {
    /// Pages written.
    pub(super) written: u64,
    /// The first failure; what failed stays dirty.
    pub(super) result: io::Result<()>,
    /// The first page that was left out because a guard has it for writing.
    pub(super) fixed: Option<usize>,
}

/// What became of a page that was to be taken for writeback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claim {
    Taken,
    /// Not in memory.
    Away,
    /// On its way in or out, or being written.
    Moving,
    /// A guard has it for writing.
    Fixed,
}

/// Writes the dirty pages of a range. `wait`: also those that are on their way in or out now.
pub(super) fn write_range(res: &Resources, area: &Area, range: Range<usize>, wait: bool) -> Done {
    let mut all = Done {
        written: 0,
        result: Ok(()),
        fixed: None,
    };
    let Some(file) = area.writable_file() else {
        return all;
    };
    let mut buf = match PageBuf::new(RUN) {
        Ok(buf) => buf,
        Err(e) => {
            all.result = Err(e.into());
            return all;
        }
    };
    let writer = Writer { res, area, file };
    let mut at = range.start;
    while at < range.end {
        let first = at;
        let mut dirty = [false; RUN];
        // Not while the first page is waited for: whoever brings it in may be waiting for writes to end.
        let mut under_way = None;
        while at < range.end && at - first < RUN {
            let claim = writer.claim(at, wait && at == first);
            if claim == Claim::Fixed && at == first {
                all.fixed.get_or_insert(at);
            }
            if claim == Claim::Moving {
                // It may stay, and the engine may take it for dirty: the next one sees to it.
                area.note_dirty(at);
            }
            if claim != Claim::Taken {
                break;
            }
            meanwhile();
            under_way.get_or_insert_with(|| res.writes.begin());
            // A store from here on sets it again.
            dirty[at - first] = area.words().unmark(at, Word::DIRTIED).dirtied();
            at += 1;
        }
        if at == first {
            at += 1;
            continue;
        }
        let (pages, done) = writer.write_claimed(first, &mut dirty[..at - first], &mut buf);
        all.written += pages;
        all.result = all.result.and(done);
    }
    all
}

/// Dirty pages of a block: in memory, and stored to since they were last written.
pub(super) fn dirty_pages_of(res: &Resources, area: &Area, block: Range<usize>) -> Vec<usize> {
    let mut dirty: Vec<usize> = Vec::new();
    let usable = |p: usize| area.words().get(p).in_memory();
    if let Some(pm) = res.pagemap.as_ref().filter(|_| !area.is_explicit()) {
        // Before the scan: the place of a page that is only coming in counts as written.
        let here: Vec<bool> = block.clone().map(usable).collect();
        let is_here = |p: &usize| here[p - block.start] && usable(*p);
        area.memory().scan(pm, Scan::Written, block.clone(), |run| {
            dirty.extend((run.first..run.first + run.pages).filter(is_here));
        });
    }
    dirty.extend(block.filter(|&p| usable(p) && area.words().get(p).dirtied()));
    dirty
}

/// Writes pages that guards have for writing, as they are at this moment, of which a part may be newer than another.
///
/// # Errors
/// The first page that cannot be written.
pub(super) fn write_fixed(area: &Area) -> Result<()> {
    let Some(file) = area.writable_file().filter(|_| area.is_explicit()) else {
        return Ok(());
    };
    write_fixed_to(file, area).map_err(Error::io(file.doing("writing")))
}

fn write_fixed_to(file: &Backing, area: &Area) -> io::Result<()> {
    let mut buf = PageBuf::new(1)?;
    let known = area.known(0..area.pages());
    for page in known.filter(|&p| area.words().get(p).is_exclusive()) {
        area.memory().read(page, buf.page_mut(0))?;
        let (from, len) = file.part(page, 1);
        let mut write = [Write::new(&buf.bytes()[..len], from)];
        write_all(&*file.storage, &mut write);
        let [write] = write;
        write.done?;
    }
    Ok(())
}

/// Pages of one file on their way.
struct Writer<'a> {
    res: &'a Resources,
    area: &'a Area,
    file: &'a Backing,
}

impl Writer<'_> {
    /// Takes a page for writeback. With `wait`, pages on their way are waited for.
    fn claim(&self, page: usize, wait: bool) -> Claim {
        let words = self.area.words();
        loop {
            let claimed = if self.area.is_explicit() {
                // Guards write without a fault: while one does, nobody could tell what a copy lacks.
                words.try_copy(page)
            } else {
                words.try_writeback(page)
            };
            if claimed {
                return Claim::Taken;
            }
            let w = words.get(page);
            match w.state() {
                PageState::Resident if w.is_exclusive() => return Claim::Fixed,
                PageState::Evicted => return Claim::Away,
                PageState::Resident if wait => {}
                s if wait => words.wait_while(page, s),
                _ => return Claim::Moving,
            }
        }
    }

    /// Arms, copies and writes pages that are claimed, the first of which is `first`. `dirty`: those that
    /// are known to be. Returns pages written, and the first error.
    fn write_claimed(
        &self,
        first: usize,
        dirty: &mut [bool],
        buf: &mut PageBuf,
    ) -> (u64, io::Result<()>) {
        meanwhile();
        self.arm(first, dirty);
        meanwhile();
        let mut runs = Vec::new();
        let mut at = 0;
        for run in dirty.chunk_by(|a, b| a == b) {
            let end = at + run.len();
            match run[0] {
                true => runs.push(at..end),
                false => self.release_clean(first + at..first + end),
            }
            at = end;
        }
        self.write_runs(first, &runs, buf)
    }

    /// Adds what the written marks say, and arms them.
    fn arm(&self, first: usize, dirty: &mut [bool]) {
        let area = self.area;
        if let Some(pm) = self.res.pagemap.as_ref().filter(|_| !area.is_explicit()) {
            let told =
                area.memory()
                    .scan(pm, Scan::WrittenAndArm, first..first + dirty.len(), |run| {
                        dirty[run.first - first..][..run.pages].fill(true);
                    });
            if !told || area.memory().is_torn() {
                dirty.fill(true);
            }
        }
    }

    /// Of pages that turn out to be clean, those that the engine takes for dirty have been written by others, before it was
    /// told of the stores to them: it is told now, or it would never give them up.
    fn release_clean(&self, pages: Range<usize>) {
        let late = |core: &Core| -> Vec<FolioId> {
            let folios = pages.clone().filter_map(|p| self.area.folio(p));
            let engine = core.policy.engine();
            folios
                .filter(|&id| engine.folio(id).has(Flags::DIRTY))
                .collect()
        };
        let mut core = self.res.core();
        if !late(&core).is_empty() {
            drop(core);
            // The marks of pages that the program has moved away say nothing: they are written when that is known.
            self.area.memory().check_whole();
            if self.area.memory().is_torn() {
                self.area.note_dirty(pages.start);
                pages.for_each(|p| self.release(p, true));
                return;
            }
            core = self.res.core();
            for id in late(&core) {
                core.policy.writeback_start(id);
                core.policy.writeback_end(id, false);
            }
        }
        drop(core);
        meanwhile();
        pages.for_each(|p| self.release(p, false));
    }

    fn release(&self, page: usize, dirtied: bool) {
        self.area.words().end_writeback(page, dirtied);
    }

    /// Writes runs of pages that are claimed and armed, counted from `first`, all together. Returns
    /// pages written, and the first error.
    fn write_runs(
        &self,
        first: usize,
        runs: &[Range<usize>],
        buf: &mut PageBuf,
    ) -> (u64, io::Result<()>) {
        let start = clock::now();
        {
            let mut core = self.res.core();
            let pages = runs.iter().cloned().flatten();
            for id in pages.filter_map(|p| self.area.folio(first + p)) {
                core.policy.writeback_start(id);
            }
        }
        meanwhile();
        let memory = self.area.memory();
        let read: Vec<io::Result<()>> = runs
            .iter()
            .map(|run| {
                let to = &mut buf.bytes_mut()[run.start * PAGE..run.end * PAGE];
                memory.read(first + run.start, to).map_err(io::Error::from)
            })
            .collect();
        if plant::on(Plant::ArmAfterCopy) {
            let end = runs.last().map_or(0, |r| r.end);
            self.arm(first, &mut [false; RUN][..end]);
        }
        let mut writes: Vec<Write<'_>> = runs
            .iter()
            .zip(&read)
            .map(|(run, read)| {
                let (from, len) = self.file.part(first + run.start, run.len());
                // Nothing of what could not be read.
                let len = if read.is_ok() { len } else { 0 };
                Write::new(&buf.bytes()[run.start * PAGE..][..len], from)
            })
            .collect();
        meanwhile();
        write_all(&*self.file.storage, &mut writes);
        meanwhile();
        self.res.counts.writeback_ns.add(clock::now() - start);
        let mut written = 0;
        let mut result = Ok(());
        for ((run, read), w) in runs.iter().zip(read).zip(writes) {
            let done = read.and(w.done.map(drop));
            self.ended(first + run.start..first + run.end, done.is_err());
            match done {
                Ok(()) => {
                    let n = run.len() as u64;
                    self.res.counts.written_back.fetch_add(n, Relaxed);
                    written += n;
                }
                Err(e) => {
                    self.res.counts.store_errors.fetch_add(1, Relaxed);
                    self.area.note_dirty(first + run.start);
                    result = result.and(Err(e));
                }
            }
        }
        (written, result)
    }

    /// Pages have been written, or not: the engine and waiting threads are told.
    fn ended(&self, pages: Range<usize>, failed: bool) {
        {
            let mut core = self.res.core();
            for id in pages.clone().filter_map(|p| self.area.folio(p)) {
                core.policy.writeback_end(id, failed);
            }
            if !failed {
                let kib_out = self.file.part(pages.start, pages.len()).1.div_ceil(1024) as u64;
                let moved = Moved {
                    kib_out,
                    ..Moved::default()
                };
                core.add_moved([(self.area.book().memcg, moved)]);
            }
        }
        meanwhile();
        pages.for_each(|p| self.release(p, failed));
    }
}
