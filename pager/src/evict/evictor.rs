//! Taking pages out: pin by pipe, punch, read the pipe, look at the written mark, store.
//!
//! The order is what makes it safe (`pager.md` 10). Pages are BUSY. A store that comes before the
//! punch's flush is in the page, and the page is read only after the punch; a store that comes after
//! finds neither entry nor page, faults, and waits until the owner is done. The written mark is read
//! last: a page that carries none has not been stored to since it was equal to its stored copy.

use crate::error::{Error, Result};
use crate::plant::{self, Plant};
use crate::policy::Left;
use crate::pool::inner::PoolInner;
use crate::region::area::{Backing, Memory, RegionInner, BLOCK};
use crate::store::compressed::same_filled;
use crate::store::storage::{write_all, Write};
use crate::store::swap::Put;
use crate::sys::exit::end;
use crate::sys::memory::PageBuf;
use crate::sys::pipe::PinPipe;
use crate::sys::{clock, PAGE};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// A page the engine has given up. Its state is BUSY, and ours.
#[derive(Debug)]
pub(crate) struct Victim {
    pub(crate) region: Arc<RegionInner>,
    pub(crate) page: usize,
    /// Its swap slot, for anonymous memory.
    pub(crate) slot: Option<u32>,
    /// The slot holds nothing yet.
    pub(crate) must_write: bool,
    pub(crate) shadow: Option<u64>,
}

impl Victim {
    /// Pages of a read-only file are what the file has: nobody can have stored to them.
    fn contents_needed(&self) -> bool {
        self.region.backing.as_ref().is_none_or(|b| b.writable)
    }
}

/// What one eviction at a time needs.
#[derive(Debug)]
pub(crate) struct Evictor {
    pipe: PinPipe,
    pages: PageBuf,
    run: PageBuf,
    capacity: usize,
}

impl Evictor {
    pub(crate) fn new(batch: usize) -> Result<Self> {
        let sys = Error::sys("making a pipe to evict by");
        let pipe = PinPipe::new(batch).map_err(&sys)?;
        let capacity = pipe.capacity().min(batch);
        Ok(Self {
            pages: PageBuf::new(capacity).map_err(&sys)?,
            run: PageBuf::new(capacity.max(2)).map_err(&sys)?,
            pipe,
            capacity,
        })
    }
}

/// What happened to a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Its stored copy is good: nothing to do.
    Clean,
    /// Nothing but zeroes: needs no copy.
    Zero,
    /// Newer than its copy.
    Write,
    /// Could not be stored.
    Failed,
}

impl PoolInner {
    /// Takes pages out of memory. Pages that cannot be stored are put back; the error says why.
    pub(crate) fn evict(&self, mut victims: Vec<Victim>) -> Result<()> {
        // Those whose contents are needed first: they lie one after the other in the pipe.
        victims.sort_unstable_by_key(|v| (!v.contents_needed(), v.region.book.object, v.page));
        let mut e = self.evictor();
        let mut result = Ok(());
        for chunk in victims.chunks(e.capacity) {
            let start = clock::now();
            let done = self.evict_chunk(&mut e, chunk);
            let n = chunk.len() as u64;
            let ns = (clock::now() - start) / n;
            self.counts.evict_ns.add_many(ns, n);
            result = result.and(done);
        }
        result
    }

    /// The descriptors that an eviction uses are the pager's.
    fn check_descriptors(&self, e: &Evictor, victims: &[Victim]) {
        if let Some(pagemap) = &self.pagemap {
            e.pipe.check();
            pagemap.check();
            self.check_file(victims);
        }
    }

    /// All victims of a pool are in one file.
    fn check_file(&self, victims: &[Victim]) {
        if let Some(Memory::Faulting { file, .. }) = victims.first().map(|v| &v.region.memory) {
            file.check();
        }
    }

    fn evict_chunk(&self, e: &mut Evictor, victims: &[Victim]) -> Result<()> {
        self.take_out(e, victims)?;
        let mut fates = self.fates(e, victims);
        let failure = self.store(e, victims, &mut fates);
        self.finish(e, victims, &fates)?;
        match failure {
            None => Ok(()),
            Some(source) => {
                self.counts.store_errors.fetch_add(1, Relaxed);
                // Told to those who sync; whoever wanted room tries to find other pages.
                self.errors.note("writing swap", &source);
                Ok(())
            }
        }
    }

    /// Steps 2 to 4: contents are in the buffer, and nowhere else.
    fn take_out(&self, e: &mut Evictor, victims: &[Victim]) -> Result<()> {
        if self.config.copy_then_punch || plant::on(Plant::CopyThenPunch) {
            return self.copy_then_punch(e, victims);
        }
        self.check_descriptors(e, victims);
        for run in runs(victims) {
            let v = &victims[run.start];
            let Memory::Faulting { file, .. } = &v.region.memory else {
                continue;
            };
            if !v.contents_needed() {
                continue;
            }
            if let Err(err) = e.pipe.pin(file, v.page, run.len()) {
                // Nothing has been taken out yet: what the pipe holds is only references.
                self.check_descriptors(e, victims);
                if let Err(e) = e.pipe.drain(e.pages.bytes_mut()) {
                    end(&format!("a pipe does not give back what it holds: {e}"));
                }
                self.keep_all(victims);
                return Err(Error::sys("splice from a region")(err));
            }
        }
        // Still the same: what has been pinned came from there.
        self.check_file(victims);
        let mut piped = 0;
        for run in runs(victims) {
            let v = &victims[run.start];
            if let Memory::Faulting { file, .. } = &v.region.memory {
                file.remove(v.page, run.len());
                piped += if v.contents_needed() { run.len() } else { 0 };
            }
        }
        // Pages of explicit regions come after those from the pipe: both kinds never mix in a pool.
        if let Err(e) = e.pipe.drain(&mut e.pages.bytes_mut()[..piped * PAGE]) {
            end(&format!(
                "pages that were taken out of memory are lost: {e}"
            ));
        }
        for run in runs(victims) {
            let v = &victims[run.start];
            if v.region.is_explicit() {
                if v.contents_needed() {
                    let to = &mut e.pages.bytes_mut()[run.start * PAGE..run.end * PAGE];
                    v.region.load_explicit(v.page, to);
                }
                v.region.drop_explicit(v.page, run.len());
            }
        }
        Ok(())
    }

    /// The planted bug: a store between copy and punch is lost.
    fn copy_then_punch(&self, e: &mut Evictor, victims: &[Victim]) -> Result<()> {
        for punch in [false, true] {
            for run in runs(victims) {
                let v = &victims[run.start];
                let Memory::Faulting { file, .. } = &v.region.memory else {
                    continue;
                };
                let to = &mut e.pages.bytes_mut()[run.start * PAGE..run.end * PAGE];
                let done = if punch {
                    file.punch(v.page, run.len())
                } else {
                    file.read(v.page, to)
                };
                done.map_err(Error::sys("evicting in the wrong order"))?;
            }
        }
        Ok(())
    }

    /// Step 5: which of them differ from their stored copies?
    fn fates(&self, e: &Evictor, victims: &[Victim]) -> Vec<Fate> {
        let mut fates = vec![Fate::Write; victims.len()];
        for run in runs(victims) {
            let region = &victims[run.start].region;
            let first = victims[run.start].page;
            if region.backing.as_ref().is_some_and(|b| !b.writable) {
                fates[run].fill(Fate::Clean);
                continue;
            }
            let needs = |v: &Victim| v.slot.is_some() && v.must_write;
            let mut written = vec![true; run.len()];
            if region.is_explicit() {
                written.fill(false);
            } else if !victims[run.clone()].iter().all(needs) {
                if let Some(pm) = self.pagemap.as_ref().filter(|_| !region.is_torn()) {
                    written.fill(false);
                    let scanned = pm.written(&region.map, first, run.len(), |r| {
                        written[r.first - first..r.first - first + r.pages].fill(true);
                    });
                    if !region.scanned(scanned) {
                        written.fill(true);
                    }
                }
            }
            for (i, at) in run.enumerate() {
                let v = &victims[at];
                let dirtied = region.words.get(v.page).dirtied();
                let written = written[i] && !plant::sometimes(Plant::MarkIgnored, 32);
                fates[at] = if needs(v) || written || dirtied {
                    let zero = v.slot.is_some() && same_filled(e.pages.page(at)) == Some(0);
                    if zero {
                        Fate::Zero
                    } else {
                        Fate::Write
                    }
                } else {
                    Fate::Clean
                };
            }
        }
        fates
    }

    /// Step 6: contents to their stores. The first error of the swap, if any.
    fn store(&self, e: &mut Evictor, victims: &[Victim], fates: &mut [Fate]) -> Option<io::Error> {
        let mut failure = None;
        let mut puts: Vec<Put> = Vec::new();
        for (at, v) in victims.iter().enumerate() {
            if fates[at] == Fate::Write {
                if let Some(slot) = v.slot {
                    let result = Ok(());
                    puts.push(Put { slot, at, result });
                }
            }
        }
        if let Some(swap) = self.swap.as_ref().filter(|_| !puts.is_empty()) {
            swap.put_all(&mut puts, &e.pages, &mut e.run);
            if swap.crowded() {
                self.recompressor.wake();
            }
            for p in puts {
                match p.result {
                    Ok(()) => {
                        self.counts.swapped_out.fetch_add(1, Relaxed);
                    }
                    Err(err) => {
                        fates[p.at] = Fate::Failed;
                        failure.get_or_insert(err);
                    }
                }
            }
        }
        // Files: runs of neighbours in one write, all writes to a file together.
        let mut at = 0;
        while at < victims.len() {
            let region = &victims[at].region;
            let same = |v: &Victim| Arc::ptr_eq(&v.region, region);
            let end = at + victims[at..].iter().take_while(|v| same(v)).count();
            if let Some(file) = region.writable_file() {
                self.store_in_file(e, file, at, &victims[at..end], &mut fates[at..end]);
            }
            at = end;
        }
        failure
    }

    /// Pages of one file, the first of which is page `at` of the buffer. Errors wait for the next sync.
    fn store_in_file(
        &self,
        e: &Evictor,
        file: &Backing,
        at: usize,
        victims: &[Victim],
        fates: &mut [Fate],
    ) {
        let mut writes: Vec<Write<'_>> = Vec::new();
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        let mut i = 0;
        while i < victims.len() {
            if fates[i] != Fate::Write {
                i += 1;
                continue;
            }
            let start = i;
            i += 1;
            while i < victims.len()
                && fates[i] == Fate::Write
                && follows(&victims[i - 1], &victims[i])
            {
                i += 1;
            }
            let from = (victims[start].page * PAGE) as u64;
            let len = ((i - start) * PAGE).min(file.len.saturating_sub(from) as usize);
            let first = (at + start) * PAGE;
            writes.push(Write::new(&e.pages.bytes()[first..first + len], from));
            ranges.push(start..i);
        }
        write_all(&*file.storage, &mut writes);
        for (w, range) in writes.into_iter().zip(ranges) {
            match w.done {
                Ok(_) => {
                    let n = range.len() as u64;
                    self.counts.written_inline.fetch_add(n, Relaxed);
                }
                Err(err) => {
                    fates[range].fill(Fate::Failed);
                    self.counts.store_errors.fetch_add(1, Relaxed);
                    victims[0].region.note_error(&err);
                }
            }
        }
    }

    /// Steps 6 and 7: whoever waits can go on.
    fn finish(&self, e: &Evictor, victims: &[Victim], fates: &[Fate]) -> Result<()> {
        let mut result = Ok(());
        let swap = self.swap.as_ref();
        let mut gone = 0;
        let mut empty: Vec<(&RegionInner, usize)> = Vec::new();
        {
            let mut core = self.core();
            for (v, fate) in victims.iter().zip(fates) {
                let what = match fate {
                    Fate::Failed => Left::Back,
                    Fate::Zero => Left::Zero,
                    Fate::Clean | Fate::Write => Left::Stored,
                };
                let book = &v.region.book;
                core.policy.left(book, swap, v.page, what, v.slot, v.shadow);
                if what != Left::Back {
                    if v.region.count_out(v.page) {
                        empty.push((&v.region, v.page / BLOCK));
                    }
                    gone += 1;
                }
            }
            self.gone(&mut core, gone);
        }
        for (at, (v, fate)) in victims.iter().zip(fates).enumerate() {
            if *fate == Fate::Failed {
                let back = v.region.put_in(v.page, e.pages.page(at), false);
                if let Err(e) = &back {
                    v.region.lost(v.page, e);
                }
                result = result.and(back);
                v.region.words.filled(v.page, true);
                v.region.note_dirty(v.page);
            } else {
                v.region.words.emptied(v.page);
            }
        }
        empty.iter().for_each(|(r, b)| r.release_table(*b));
        self.gate.left(victims.len() as u64);
        self.counts.evicted.fetch_add(gone, Relaxed);
        result
    }

    /// Victims of which nothing has been taken out yet stay where they are.
    fn keep_all(&self, victims: &[Victim]) {
        let mut core = self.core();
        for v in victims {
            let swap = self.swap.as_ref();
            let book = &v.region.book;
            core.policy
                .left(book, swap, v.page, Left::Back, v.slot, v.shadow);
            v.region.words.filled(v.page, true);
        }
        drop(core);
        self.gate.left(victims.len() as u64);
    }
}

/// `b` is the next page of the same region.
fn follows(a: &Victim, b: &Victim) -> bool {
    Arc::ptr_eq(&a.region, &b.region) && b.page == a.page + 1
}

/// Runs of neighbours.
fn runs(victims: &[Victim]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == victims.len() {
            return None;
        }
        let start = at;
        at += 1;
        while at < victims.len() && follows(&victims[at - 1], &victims[at]) {
            at += 1;
        }
        Some(start..at)
    })
}
