//! Taking pages out: pin by pipe, punch, read the pipe, look at the written mark, store.
//!
//! The order is what makes it safe. Pages are BUSY. A store that comes before the punch's flush is in the
//! page, and the page is read only after the punch; a store that comes after finds neither entry nor page,
//! faults, and waits until the owner is done. The written mark is read last: a page that carries none has
//! not been stored to since it was equal to its stored copy.
//!
//! | step | |
//! |---|---|
//! | 1 | the engine gives pages up, and they are taken: RESIDENT -> BUSY (`reclaim.rs`) |
//! | 2 to 4 | [`Evictor::take_out`]: pin them in a pipe, punch them out, read the pipe |
//! | 5 | [`Evictor::fates`]: which of them differ from their stored copies? |
//! | 6 | [`Evictor::store`]: contents to swap and files |
//! | 7 | [`Evictor::finish`]: the engine, the gate and waiting threads are told |

use super::victim::{runs, runs_of, Victim};
use crate::budget::moved::{Moved, PAGE_KIB};
use crate::budget::resources::Resources;
use crate::budget::stock::Stock;
use crate::config::PoolConfig;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::plant::{self, Plant};
use crate::policy::Left;
use crate::region::area::{Area, BLOCK};
use crate::region::backing::Backing;
use crate::store::compressed::same_filled;
use crate::store::storage::{write_all, Write};
use crate::store::swap::Put;
use crate::sys::bell::Bell;
use crate::sys::exit::end;
use crate::sys::memory::PageBuf;
use crate::sys::pagemap::Scan;
use crate::sys::pipe::PinPipe;
use crate::sys::{clock, PAGE};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// What one eviction at a time needs.
#[derive(Debug)]
struct Buffers {
    pipe: PinPipe,
    pages: PageBuf,
    run: PageBuf,
    capacity: usize,
}

impl Buffers {
    fn new(batch: usize) -> Result<Self> {
        let sys = Error::sys("creating the pipe that evictions need");
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

impl Fate {
    /// What the policy is told.
    fn left(self) -> Left {
        match self {
            Fate::Failed => Left::Back,
            Fate::Zero => Left::Zero,
            Fate::Clean | Fate::Write => Left::Stored,
        }
    }
}

/// Pages that one eviction moves at once: a batch, and of a small budget a share, because they are in its
/// buffers then.
fn evicted_together(config: &PoolConfig) -> usize {
    let share = config.budget / PAGE as u64 / 512;
    (share as usize).clamp(16, config.batch)
}

/// Evictions at a time: two descriptors each. More than there are CPUs, because some of them wait for a
/// device, a batch of pages each.
fn at_a_time() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    (cpus + 1).clamp(2, 8)
}

/// Takes pages out of memory.
#[derive(Debug)]
pub(crate) struct Evictor {
    res: Arc<Resources>,
    /// Inside of an eviction, nobody asks for another.
    buffers: Stock<Buffers>,
    /// Rung when the first tier of compressed memory gets full.
    crowded: Arc<Bell>,
}

impl Evictor {
    pub(crate) fn new(res: Arc<Resources>, crowded: Arc<Bell>) -> Result<Self> {
        let together = evicted_together(&res.config);
        Ok(Self {
            buffers: Stock::new(at_a_time(), |_| Buffers::new(together))?,
            res,
            crowded,
        })
    }

    /// Takes pages out of memory, and adds to `left` how many have gone. Pages that cannot be stored are
    /// put back.
    ///
    /// # Errors
    /// The kernel refuses; those pages stay. What a store refuses is kept for those who sync.
    pub(crate) fn evict(&self, mut victims: Vec<Victim>, left: &mut u64) -> Result<()> {
        // Those whose contents are needed first: they lie one after the other in the pipe.
        victims.sort_unstable_by_key(|v| (!v.contents_needed(), v.area.book().object, v.page));
        let mut e = self.buffers.take();
        let mut result = Ok(());
        for chunk in victims.chunks(e.capacity) {
            let start = clock::now();
            let done = self.take_out(&mut e, chunk).and_then(|()| {
                let fates = self.store(&mut e, chunk);
                meanwhile();
                self.finish(&e, chunk, &fates, left)
            });
            let n = chunk.len() as u64;
            let ns = (clock::now() - start) / n;
            self.res.counts.evict_ns.add_many(ns, n);
            result = result.and(done);
        }
        result
    }

    /// The descriptors that an eviction uses are the pager's. What nobody can have stored to needs neither
    /// the pipe nor the marks.
    fn check_descriptors(&self, e: &Buffers, victims: &[Victim]) {
        if let Some(pagemap) = &self.res.pagemap {
            if piped(victims) {
                e.pipe.check();
                pagemap.check();
            }
            check_file(victims);
        }
    }

    /// Steps 2 to 4: contents are in the buffer, and nowhere else.
    fn take_out(&self, e: &mut Buffers, victims: &[Victim]) -> Result<()> {
        if self.res.config.copy_then_punch || plant::on(Plant::CopyThenPunch) {
            return self.copy_then_punch(e, victims);
        }
        self.check_descriptors(e, victims);
        for run in runs(victims) {
            let v = &victims[run.start];
            let Some(file) = v.area.memory().extent() else {
                continue;
            };
            if !v.contents_needed() {
                continue;
            }
            if let Err(err) = e.pipe.pin(file, v.page, run.len()) {
                // Nothing has been taken out yet: what the pipe holds is only references.
                self.check_descriptors(e, victims);
                if let Err(err) = e.pipe.drain(e.pages.bytes_mut()) {
                    self.check_descriptors(e, victims);
                    end(&format!("a pipe does not give back what it holds: {err}"));
                }
                self.keep_all(victims);
                return Err(Error::sys("splice from a region")(err));
            }
        }
        meanwhile();
        if piped(victims) {
            // Still the same: what has been pinned came from there.
            check_file(victims);
        }
        let mut piped = 0;
        for run in runs(victims) {
            let v = &victims[run.start];
            if !v.area.is_explicit() {
                v.area.memory().remove(v.page, run.len());
                piped += if v.contents_needed() { run.len() } else { 0 };
            }
        }
        meanwhile();
        // Pages of explicit regions come after those from the pipe: both kinds never mix in a pool.
        if let Err(err) = e.pipe.drain(&mut e.pages.bytes_mut()[..piped * PAGE]) {
            // The program may have closed the pipe since it was checked: then that is the reason.
            self.check_descriptors(e, victims);
            end(&format!(
                "pages that were taken out of memory are lost: {err}"
            ));
        }
        if piped > 0 {
            // What has been read came from there, too.
            e.pipe.check();
        }
        for run in runs(victims) {
            let v = &victims[run.start];
            if v.area.is_explicit() {
                if v.contents_needed() {
                    let to = &mut e.pages.bytes_mut()[run.start * PAGE..run.end * PAGE];
                    let read = v.area.memory().read(v.page, to);
                    read.expect("a copy of private memory");
                }
                v.area.memory().remove(v.page, run.len());
            }
        }
        Ok(())
    }

    /// The planted bug: a store between copy and punch is lost.
    fn copy_then_punch(&self, e: &mut Buffers, victims: &[Victim]) -> Result<()> {
        for punch in [false, true] {
            for run in runs(victims) {
                let v = &victims[run.start];
                let Some(file) = v.area.memory().extent() else {
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
    fn fates(&self, e: &Buffers, victims: &[Victim]) -> Vec<Fate> {
        let mut fates = Vec::with_capacity(victims.len());
        for run in runs(victims) {
            let written = self.written(&victims[run.clone()]);
            for (at, written) in run.zip(written) {
                let v = &victims[at];
                let written = written && !plant::sometimes(Plant::MarkIgnored, 32);
                let dirtied = v.area.words().get(v.page).dirtied();
                let newer = v.contents_needed() && (v.slot_is_empty() || written || dirtied);
                let zero = || v.slot.is_some() && same_filled(e.pages.page(at)) == Some(0);
                fates.push(match newer {
                    false => Fate::Clean,
                    true if zero() => Fate::Zero,
                    true => Fate::Write,
                });
            }
        }
        fates
    }

    /// The written marks of a run of neighbours; all, if the kernel does not tell.
    fn written(&self, run: &[Victim]) -> Vec<bool> {
        let area = &run[0].area;
        let mut written = vec![true; run.len()];
        if area.is_explicit() || area.is_read_only() {
            written.fill(false);
        } else if let Some(pm) = self
            .res
            .pagemap
            .as_ref()
            .filter(|_| !area.memory().is_torn() && !run.iter().all(Victim::slot_is_empty))
        {
            written.fill(false);
            let first = run[0].page;
            let told = area
                .memory()
                .scan(pm, Scan::Written, first..first + run.len(), |r| {
                    written[r.first - first..][..r.pages].fill(true);
                });
            if !told {
                written.fill(true);
            }
        }
        written
    }

    /// Step 6: contents to their stores.
    fn store(&self, e: &mut Buffers, victims: &[Victim]) -> Vec<Fate> {
        meanwhile();
        let mut fates = self.fates(e, victims);
        meanwhile();
        self.make_room_in_swap(e, victims, &fates);
        self.store_in_swap(e, victims, &mut fates);
        // All writes to a file together.
        let mut at = 0;
        for same in victims.chunk_by(|a, b| Arc::ptr_eq(&a.area, &b.area)) {
            if let Some(file) = same[0].area.writable_file() {
                let pages = &e.pages.bytes()[at * PAGE..];
                self.store_in_file(pages, file, same, &mut fates[at..at + same.len()]);
            }
            at += same.len();
        }
        fates
    }

    /// Pages of compressed memory that are older than those that come go to the file behind it, if they must or nobody wants
    /// them.
    fn make_room_in_swap(&self, e: &mut Buffers, victims: &[Victim], fates: &[Fate]) {
        let Some(swap) = &self.res.swap else { return };
        let mut coming = 0;
        for (v, fate) in victims.iter().zip(fates) {
            match (v.slot, fate) {
                (Some(_), Fate::Write) => coming += 1,
                (Some(slot), Fate::Clean) => swap.evicted_again(slot),
                _ => {}
            }
        }
        let moved = swap.spill_oldest(coming, self.res.gate.resident(), &mut e.run);
        if moved > 0 {
            self.res.spilled(moved as u64);
        }
    }

    /// Pages of anonymous memory. The first error is told to those who sync; a reclaimer that wanted room
    /// tries to find other pages.
    fn store_in_swap(&self, e: &mut Buffers, victims: &[Victim], fates: &mut [Fate]) {
        let mut puts: Vec<Put> = Vec::new();
        for (at, v) in victims.iter().enumerate() {
            if let Some(slot) = v.slot.filter(|_| fates[at] == Fate::Write) {
                let result = Ok(());
                puts.push(Put { slot, at, result });
            }
        }
        let Some(swap) = self.res.swap.as_ref().filter(|_| !puts.is_empty()) else {
            return;
        };
        swap.put_all(&mut puts, &e.pages, &mut e.run);
        if swap.crowded() {
            self.crowded.ring();
        }
        let counts = &self.res.counts;
        let mut failure = None;
        for p in puts {
            match p.result {
                Ok(()) => {
                    counts.swapped_out.fetch_add(1, Relaxed);
                }
                Err(err) => {
                    fates[p.at] = Fate::Failed;
                    failure.get_or_insert(err);
                }
            }
        }
        if let Some(source) = failure {
            counts.store_errors.fetch_add(1, Relaxed);
            let what = format!("writing {}", swap.name());
            self.res.errors.note(what, &source);
        }
    }

    /// Pages of one file, which lie in `pages`: runs of neighbours in one write. Errors wait for the next
    /// sync.
    fn store_in_file(&self, pages: &[u8], file: &Backing, victims: &[Victim], fates: &mut [Fate]) {
        let runs: Vec<Range<usize>> = runs_of(victims, |i| fates[i] == Fate::Write).collect();
        let write = |run: &Range<usize>| {
            let (from, len) = file.part(victims[run.start].page, run.len());
            Write::new(&pages[run.start * PAGE..][..len], from)
        };
        let mut writes: Vec<Write<'_>> = runs.iter().map(write).collect();
        write_all(&*file.storage, &mut writes);
        file.room.write_again(&*file.storage, &mut writes);
        for (w, run) in writes.into_iter().zip(runs) {
            match w.done {
                Ok(_) => {
                    let n = run.len() as u64;
                    self.res.counts.written_inline.fetch_add(n, Relaxed);
                }
                Err(err) => {
                    fates[run].fill(Fate::Failed);
                    self.res.counts.store_errors.fetch_add(1, Relaxed);
                    self.res.note_error(&victims[0].area, &err);
                }
            }
        }
    }

    /// Step 7: the books, the gate, and threads that wait for a page. Pages that could not be stored come back.
    fn finish(
        &self,
        e: &Buffers,
        victims: &[Victim],
        fates: &[Fate],
        left: &mut u64,
    ) -> Result<()> {
        let mut result = Ok(());
        let mut gone = 0;
        let mut empty: Vec<(&Area, usize)> = Vec::new();
        {
            let mut core = self.res.core();
            for (v, fate) in victims.iter().zip(fates) {
                let swap = self.res.swap.as_ref();
                let book = v.area.book();
                core.policy
                    .left(book, swap, v.page, fate.left(), v.slot, v.shadow);
                if *fate != Fate::Failed {
                    if v.area.count_out(v.page) {
                        empty.push((&v.area, v.page / BLOCK));
                    }
                    gone += 1;
                }
            }
            let written = victims
                .iter()
                .zip(fates)
                .filter(|(_, f)| **f == Fate::Write);
            core.add_moved(written.map(|(v, _)| (v.area.book().memcg, self.moved(v))));
            // First: who sees what the store has grown by sees what it came from.
            self.res.counts.evicted.fetch_add(gone, Relaxed);
            self.res.gone(&mut core, gone);
        }
        if let Some(swap) = &self.res.swap {
            swap.evicted(gone);
        }
        meanwhile();
        for (at, (v, fate)) in victims.iter().zip(fates).enumerate() {
            if *fate == Fate::Failed {
                let back = v.area.memory().put_in(v.page, e.pages.page(at), false);
                if let Err(e) = &back {
                    v.area.memory().lost(v.page, e);
                }
                result = result.and(back);
                meanwhile();
                v.area.words().filled(v.page, true);
                v.area.note_dirty(v.page);
            } else {
                v.area.words().emptied(v.page);
            }
        }
        meanwhile();
        empty.iter().for_each(|(area, b)| area.release_table(*b));
        meanwhile();
        self.res.gate.left(victims.len() as u64);
        *left += gone;
        result
    }

    /// What has been moved for a victim that was stored.
    fn moved(&self, v: &Victim) -> Moved {
        let mut moved = Moved::default();
        match (v.slot, v.area.backing()) {
            (Some(slot), _) => {
                let in_file = self.res.swap.as_ref().is_some_and(|s| s.is_in_file(slot));
                moved.swapped_out = 1;
                moved.kib_out = u64::from(in_file) * PAGE_KIB;
            }
            (None, Some(file)) => moved.kib_out = file.part(v.page, 1).1.div_ceil(1024) as u64,
            (None, None) => {}
        }
        moved
    }

    /// Victims of which nothing has been taken out yet stay where they are.
    fn keep_all(&self, victims: &[Victim]) {
        let mut core = self.res.core();
        for v in victims {
            let swap = self.res.swap.as_ref();
            let book = v.area.book();
            core.policy
                .left(book, swap, v.page, Left::Back, v.slot, v.shadow);
            v.area.words().filled(v.page, true);
        }
        drop(core);
        self.res.gate.left(victims.len() as u64);
    }
}

/// Some go through the pipe: those whose contents are needed come first.
fn piped(victims: &[Victim]) -> bool {
    victims.first().is_some_and(Victim::contents_needed)
}

/// All victims of a pool are in one file.
fn check_file(victims: &[Victim]) {
    if let Some(v) = victims.first() {
        v.area.memory().check();
    }
}
