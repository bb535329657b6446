//! Misses: bringing pages in.

use super::orders::{Order, Orders};
use super::room::Room;
use crate::budget::moved::{Moved, PAGE_KIB};
use crate::budget::resources::Resources;
use crate::budget::stock::{Lent, Stock};
use crate::config::MAX_READ_AHEAD;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::page::PageState;
use crate::plant::{self, Plant};
use crate::policy::Arrival;
use crate::region::area::Area;
use crate::region::witness;
use crate::store::compressed::SCRATCH;
use crate::store::storage::read_exact;
use crate::sys::memory::PageBuf;
use crate::sys::{clock, PAGE};
use crate::writeback::flush::Writeback;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// The most pages filled together: by the thread that reads ahead. A miss fills [`MAX_READ_AHEAD`].
pub(super) const MOST_FILLED: usize = 128;

/// Most pages handed to the thread that reads ahead together: what one leaf table maps.
const MOST_AHEAD: usize = 512;
/// Of a small budget, the share that one stream may fill ahead.
const SHARE: u64 = 8;
/// Fills at a time for which there is always memory.
const BOUNCES: usize = 2;

/// Why pages are brought in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// A thread waits for the first of them, to read it or to store to it.
    Miss { write: bool },
    /// Nobody waits: they are expected to be used.
    Expected,
    /// The same, one after the other.
    InOrder,
}

impl Cause {
    fn is_store(self) -> bool {
        self == Self::Miss { write: true }
    }

    fn is_miss(self) -> bool {
        matches!(self, Self::Miss { .. })
    }

    /// Are so many pages brought in for a reader who certainly goes through them in order?
    fn is_stream(self, pages: usize) -> bool {
        match self {
            Self::Miss { .. } => pages >= witness::GROUP,
            Self::Expected => false,
            Self::InOrder => true,
        }
    }
}

/// What has been read into a buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    /// Nothing: all of it is fresh zeroes.
    fresh: bool,
    /// The first page has been read.
    first: bool,
    moved: Moved,
}

/// Buffers of one miss.
#[derive(Debug)]
struct Bounce {
    pages: PageBuf,
    scratch: PageBuf,
}

impl Bounce {
    fn new() -> Result<Self> {
        let make = |n| PageBuf::new(n).map_err(Error::sys("memory for a miss"));
        Ok(Self {
            pages: make(MOST_FILLED)?,
            scratch: make(SCRATCH / PAGE)?,
        })
    }
}

/// Brings pages in.
#[derive(Debug)]
pub(crate) struct Misses {
    pub(super) res: Arc<Resources>,
    pub(super) room: Arc<Room>,
    writeback: Arc<Writeback>,
    /// Inside of a fill, nobody asks for another.
    bounces: Stock<Bounce>,
    /// What is to be read ahead.
    pub(super) ahead: Arc<Orders>,
}

impl Misses {
    pub(crate) fn new(
        res: Arc<Resources>,
        room: Arc<Room>,
        writeback: Arc<Writeback>,
        ahead: Arc<Orders>,
    ) -> Result<Self> {
        Ok(Self {
            res,
            room,
            writeback,
            bounces: Stock::new(BOUNCES, |_| Bounce::new())?,
            ahead,
        })
    }

    fn bounce(&self) -> Lent<'_, Bounce> {
        self.bounces.take_or_make(|| {
            let one = Bounce::new()?;
            self.res.counts.more_bounces.fetch_add(1, Relaxed);
            Ok::<_, Error>(one)
        })
    }

    /// Makes sure that a page was in memory at some moment during the call.
    pub(crate) fn bring_in(&self, area: &Arc<Area>, page: usize, write: bool) -> Result<()> {
        let _passage = self.res.traffic.enter();
        loop {
            match area.words().get(page).state() {
                PageState::Resident | PageState::Writeback => return Ok(()),
                PageState::Busy => area.words().wait_while(page, PageState::Busy),
                PageState::Evicted => {
                    meanwhile();
                    if self.claim(area, page)? {
                        let most = area.stream().window(page, self.res.config.read_ahead);
                        let n = match most {
                            1 => 1,
                            _ => most.min(1 + self.pages_before_a_loan(area, page + 1)),
                        };
                        let filled = self.fill(area, page, n, Cause::Miss { write })?;
                        area.stream().filled(page + filled, most);
                        if most == self.res.config.read_ahead {
                            self.hand_over(area, page + filled);
                        }
                        if write && area.writable_file().is_some() {
                            self.writeback.balance_dirty();
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Brings a run of pages in, many at a time. As with [`Self::bring_in`], each was in memory at some
    /// moment during the call: what another thread has under way is waited for.
    pub(crate) fn prefetch(&self, area: &Area, first: usize, pages: usize) -> Result<()> {
        let mut at = first;
        while at < first + pages {
            match area.words().get(at).state() {
                PageState::Resident | PageState::Writeback => {}
                PageState::Busy => {
                    area.words().wait_while(at, PageState::Busy);
                    continue;
                }
                PageState::Evicted => {
                    if !self.claim(area, at)? {
                        continue;
                    }
                    let most = (first + pages - at).min(MAX_READ_AHEAD);
                    self.fill(area, at, most, Cause::Expected)?;
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// Takes an evicted page, to fill it. The file's own page in its place, if there is one, goes first.
    fn claim(&self, area: &Area, page: usize) -> Result<bool> {
        if area.memory().is_lent(page) {
            self.res.end_loan_of(area, page)?;
        }
        meanwhile();
        Ok(claim_evicted(area, page, page + 1) == 1)
    }

    /// Fills pages that the caller owns, if there is room. False: they have been given back.
    pub(super) fn fill_or_leave(&self, area: &Area, first: usize, n: usize) -> bool {
        match self.fill_owned(area, first, n, Cause::InOrder) {
            Ok(filled) if filled > 0 => {
                self.res.counts.filled.fetch_add(n as u64, Relaxed);
                true
            }
            // A thread that needs them will miss, and meet the error, if it is one.
            _ => {
                (first..first + n).for_each(|p| area.words().emptied(p));
                false
            }
        }
    }

    /// Fills a page that the caller owns, and up to `most` - 1 evicted neighbours after it. Returns
    /// pages filled.
    fn fill(&self, area: &Area, first: usize, most: usize, cause: Cause) -> Result<usize> {
        let start = clock::now();
        let end = (first + most.max(1)).min(area.pages());
        meanwhile();
        let mut n = 1 + claim_evicted(area, first + 1, end);
        let mut done = self.fill_owned(area, first, n, cause);
        while n > 1 && !matches!(done, Ok(1..) | Err(Error::Policy(_))) {
            // No room for all of them, or it is a neighbour that cannot be read.
            let less = n / 2;
            meanwhile();
            (first + less..first + n).for_each(|p| area.words().emptied(p));
            n = less;
            done = self.fill_owned(area, first, n, cause);
        }
        match done {
            Ok(filled) => {
                let c = &self.res.counts;
                c.misses.fetch_add(1, Relaxed);
                c.filled.fetch_add(filled as u64, Relaxed);
                c.miss_ns.add(clock::now() - start);
                Ok(filled)
            }
            Err(e) => {
                (first..first + n).for_each(|p| area.words().emptied(p));
                self.res.counts.failed_misses.fetch_add(1, Relaxed);
                Err(e)
            }
        }
    }

    /// Fills pages that the caller owns: all, or none (0) if there is no room for more than one. On
    /// error all of them still are the caller's.
    fn fill_owned(&self, area: &Area, first: usize, n: usize, cause: Cause) -> Result<usize> {
        let memcg = area.book().memcg;
        if !self.room.make_room(memcg, n as u64, n == 1)? {
            return Ok(0);
        }
        meanwhile();
        let _reading = self.res.reads.begin();
        let pages = first..first + n;
        let loaded = match self.put_in(area, pages.clone(), cause.is_store()) {
            Ok(loaded) => loaded,
            Err(e) => {
                self.res.gate.leave(n as u64);
                self.room.uncharge(memcg, n as u64);
                return Err(e);
            }
        };
        hide_ahead(area, pages.clone(), cause);
        meanwhile();
        self.tell_engine(area, first, n, cause, loaded);
        meanwhile();
        if plant::on(Plant::CountLate) {
            pages.clone().for_each(|p| area.count_in(p));
        }
        for p in pages {
            // What was zero has no copy anywhere; only the write-protect mark tells if it still is.
            let stored = cause.is_store() && p == first;
            area.words().filled(p, stored && area.is_explicit());
        }
        Ok(n)
    }

    /// Loads contents and puts them into pages for which there is room.
    fn put_in(&self, area: &Area, pages: Range<usize>, write: bool) -> Result<Loaded> {
        let (first, n) = (pages.start, pages.len());
        let mut bounce = self.bounce();
        let loaded = self.load(area, first, n, &mut bounce)?;
        meanwhile();
        // Before anybody can store to them: a sync passes over blocks that have none.
        if !plant::on(Plant::CountLate) {
            pages.clone().for_each(|p| area.count_in(p));
        }
        meanwhile();
        // A store that is about to happen would only fault again on a protected page. A page without
        // a copy in the store counts as written anyway.
        let bytes = &bounce.pages.bytes()[..n * PAGE];
        let memory = area.memory();
        let put = if write && (loaded.fresh || n == 1) {
            memory.put_in(first, bytes, false)
        } else if write {
            memory
                .put_in(first, &bytes[..PAGE], false)
                .and_then(|()| memory.put_in(first + 1, &bytes[PAGE..], true))
        } else {
            memory.put_in(first, bytes, true)
        };
        if put.is_err() {
            // Nothing has been told, so the store still has it all; what has been put is taken away.
            for p in pages {
                memory.check();
                memory.remove(p, 1);
                area.count_out(p);
            }
        }
        put.map(|()| loaded)
    }

    /// Reads contents into the buffer.
    fn load(&self, area: &Area, first: usize, n: usize, b: &mut Bounce) -> Result<Loaded> {
        let c = &self.res.counts;
        let failed = |_: &io::Error| {
            c.store_errors.fetch_add(1, Relaxed);
        };
        let mut moved = Moved::default();
        let pages = &mut b.pages.bytes_mut()[..n * PAGE];
        if let Some(file) = area.backing() {
            let (from, have) = file.part(first, n);
            let done = read_exact(&*file.storage, pages, have, from).inspect_err(failed);
            done.map_err(|e| Error::io(file.doing("reading"))(e))?;
            c.read_file.fetch_add(n as u64, Relaxed);
            moved.kib_in = have.div_ceil(1024) as u64;
            return Ok(Loaded {
                fresh: false,
                first: true,
                moved,
            });
        }
        let mut slots = [None; MOST_FILLED];
        let mut stored = 0;
        for (i, s) in slots[..n].iter_mut().enumerate() {
            *s = area.slot(first + i);
            match s {
                None => pages[i * PAGE..][..PAGE].fill(0),
                Some(_) => stored += 1,
            }
        }
        if stored > 0 {
            let swap = self.res.swap.as_ref().expect("slot of a swap");
            if plant::on(Plant::SlotEarly) {
                self.give_slots_early(area, &slots[..n], first);
            }
            let in_file = |slot: &&u32| swap.is_in_file(**slot);
            moved.kib_in = slots.iter().flatten().filter(in_file).count() as u64 * PAGE_KIB;
            moved.swapped_in = stored;
            let done = swap.get_many(&slots[..n], pages, b.scratch.bytes_mut());
            let done = done.inspect_err(failed);
            done.map_err(Error::io("reading swap"))?;
            c.swapped_in.fetch_add(stored, Relaxed);
        }
        Ok(Loaded {
            fresh: stored == 0,
            first: slots[0].is_some(),
            moved,
        })
    }

    /// The planted bug: others may take the slots, and store to them, before they have been read.
    fn give_slots_early(&self, area: &Area, slots: &[Option<u32>], first: usize) {
        let mut core = self.res.core();
        for (i, slot) in slots.iter().enumerate() {
            if let Some(slot) = *slot {
                area.book().set_slot(first + i, None);
                core.policy.free_slot(None, slot);
            }
        }
    }

    fn tell_engine(&self, area: &Area, first: usize, n: usize, cause: Cause, loaded: Loaded) {
        let res = &self.res;
        let (swap, book) = (res.swap.as_ref(), area.book());
        let mut core = res.core();
        let counts = !res.config.store_outside;
        let keeps = swap.map(|s| (s, core.keeps_copies(s, counts, book.memcg)));
        let resident = res.gate.resident();
        for i in 0..n {
            let keep = |slot| keeps.is_some_and(|(s, keeps)| keeps.copy(s, slot, resident));
            let how = Arrival {
                wanted: cause.is_miss() && i == 0,
                write: cause.is_store() && i == 0,
                returned: false,
                keep: book.slot(first + i).is_some_and(keep),
            };
            core.policy.insert(book, swap, first + i, how);
        }
        let mut moved = loaded.moved;
        moved.major_faults = u64::from(cause.is_miss() && loaded.first);
        core.add_moved([(book.memcg, moved)]);
        // Records and page tables may have grown.
        res.gone(&mut core, 0);
        drop(core);
        if cause.is_store() {
            area.note_dirty(first);
        }
    }

    /// A miss in order was to fill as many pages as it may: the thread takes those from `first` on.
    fn hand_over(&self, area: &Arc<Area>, first: usize) {
        let least = self.res.config.read_ahead;
        let most = self.most_ahead();
        let left = self.pages_before_a_loan(area, first);
        if most == 0 || left == 0 || least < 2 {
            return;
        }
        let pages = area.stream().hand_over(first, least, most).min(left);
        meanwhile();
        if pages > 0 && self.ahead.add(Order::new(area, first, pages)) {
            area.stream().filled(first + pages, least);
        }
    }

    /// Pages that a stream may hand over at once; 0: none.
    fn most_ahead(&self) -> usize {
        let most = MOST_AHEAD.min((self.res.gate.budget() / SHARE) as usize);
        let worth_it = self.res.config.background && most >= self.res.config.read_ahead;
        if worth_it {
            most
        } else {
            0
        }
    }
}

/// Pages that nobody has asked for leave the page table, as the kernel leaves what it reads ahead out of it: a page that
/// is mapped counts as used at the next look. Of a stream, only those leave that bear witness to the use of the others.
fn hide_ahead(area: &Area, pages: Range<usize>, cause: Cause) {
    let ahead = pages.start + usize::from(cause.is_miss())..pages.end;
    if ahead.is_empty() || area.is_explicit() {
        return;
    }
    if cause.is_stream(pages.len()) {
        witness::map_ahead(area, ahead);
    } else {
        area.memory().zap(ahead.start * PAGE, ahead.len() * PAGE);
    }
}

/// Takes the pages from `first` on that are evicted and not lent, up to `end`. Returns how many.
///
/// Who lends takes a whole block first: what has been taken and is not lent cannot be lent until it is given back.
pub(super) fn claim_evicted(area: &Area, first: usize, end: usize) -> usize {
    let words = area.words();
    let take = |p: usize| {
        let taken = words.try_fill(p);
        meanwhile();
        let lent = taken && !plant::on(Plant::LentUnseen) && area.memory().is_lent(p);
        if lent {
            words.emptied(p);
        }
        taken && !lent
    };
    (first..end).take_while(|&p| take(p)).count()
}
