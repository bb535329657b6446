//! Misses: bringing pages in.

use crate::config::MAX_READ_AHEAD;
use crate::error::{Error, Result};
use crate::page::State;
use crate::plant::{self, Plant};
use crate::policy::Arrival;
use crate::region::area::RegionInner;
use crate::store::compressed::SCRATCH;
use crate::store::storage::read_exact;
use crate::sys::exit::say;
use crate::sys::fuse::Fuse;
use crate::sys::memory::PageBuf;
use crate::sys::sigbus::{Miss, Verdict};
use crate::sys::{clock, PAGE};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

/// Regions by address, for the handler.
static REGISTRY: RwLock<Vec<Arc<RegionInner>>> = RwLock::new(Vec::new());

/// Faults in a row on a page that is in memory before they are taken for somebody else's.
const SPURIOUS: u32 = 1000;

thread_local! {
    /// Address of the last fault on a page that was in memory, and how often in a row.
    static AGAIN: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// The process that the regions in the registry belong to.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Makes a region known to the handler.
pub(crate) fn register(region: Arc<RegionInner>) {
    let mut all = REGISTRY.write().expect("registry");
    let pid = std::process::id();
    if OWNER.swap(pid, Relaxed) != pid {
        // A child of fork has none of its parent's regions, and may have got their addresses.
        std::mem::forget(std::mem::take(&mut *all));
    }
    let at = all.partition_point(|r| r.map.addr() < region.map.addr());
    all.insert(at, region);
}

/// Misses in the region are foreign from now on.
pub(crate) fn unregister(region: &RegionInner) {
    let mut all = REGISTRY.write().expect("registry");
    all.retain(|r| r.map.addr() != region.map.addr());
}

/// The region that holds an address.
pub(crate) fn find(addr: usize) -> Option<Arc<RegionInner>> {
    let all = REGISTRY.read().ok()?;
    let at = all
        .partition_point(|r| r.map.addr() <= addr)
        .checked_sub(1)?;
    let r = &all[at];
    (addr < r.map.addr() + r.map.len()).then(|| r.clone())
}

/// The handler's entry.
pub(crate) fn on_miss(miss: Miss) -> Verdict {
    let _fuse = Fuse::new();
    let Some(region) = find(miss.addr) else {
        return Verdict::Pass;
    };
    let page = (miss.addr - region.map.addr()) / PAGE;
    let read_only = region.backing.as_ref().is_some_and(|b| !b.writable);
    if miss.write && read_only {
        return Verdict::Pass;
    }
    if region.words.get(page).in_memory() {
        // Raced with whoever brought it in; or the memory itself is broken.
        let (addr, n) = AGAIN.get();
        let n = if addr == miss.addr { n + 1 } else { 0 };
        AGAIN.set((miss.addr, n));
        if n < SPURIOUS {
            return Verdict::Handled;
        }
        say(&format!(
            "coldset: page {page} of a region is in memory and cannot be used: broken memory, or the \
             program has removed it (MADV_REMOVE)\n"
        ));
        return Verdict::Pass;
    }
    match region.bring_in(page, miss.write) {
        Ok(()) => Verdict::Handled,
        Err(e) => {
            // As a kernel mapping would, the access gets SIGBUS; unlike there, it is told why.
            say(&format!(
                "coldset: page {page} of a region cannot be brought in: {e}\n"
            ));
            Verdict::Pass
        }
    }
}

/// The most pages filled together: by the thread that reads ahead. A miss fills [`MAX_READ_AHEAD`].
pub(crate) const MOST_FILLED: usize = 128;

/// Buffers of one miss.
#[derive(Debug)]
pub(crate) struct Bounce {
    pages: PageBuf,
    scratch: PageBuf,
}

impl Bounce {
    pub(crate) fn new() -> Result<Self> {
        let make = |n| PageBuf::new(n).map_err(Error::sys("memory for a miss"));
        Ok(Self {
            pages: make(MOST_FILLED)?,
            scratch: make(SCRATCH / PAGE)?,
        })
    }
}

impl RegionInner {
    /// Makes sure that a page was in memory at some moment during the call.
    pub(crate) fn bring_in(self: &Arc<Self>, page: usize, write: bool) -> Result<()> {
        let _passage = self.pool.traffic.enter();
        loop {
            match self.words.get(page).state() {
                State::Resident | State::Writeback => return Ok(()),
                State::Busy => self.words.wait_while(page, State::Busy),
                State::Evicted => {
                    if self.words.try_fill(page) {
                        let most = self.window(page);
                        let filled = self.fill(page, most, write)?;
                        self.stream.filled(page + filled, most);
                        if most == self.pool.config.read_ahead {
                            self.hand_over(page + filled);
                        }
                        if write && self.writable_file().is_some() {
                            self.pool.balance_dirty();
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Brings a run of pages in, many at a time.
    pub(crate) fn prefetch(&self, first: usize, pages: usize) -> Result<()> {
        let mut at = first;
        while at < first + pages {
            if self.words.try_fill(at) {
                let most = (first + pages - at).min(MAX_READ_AHEAD);
                self.fill(at, most, false)?;
            }
            at += 1;
        }
        Ok(())
    }

    /// How many pages from this miss on are worth bringing in together.
    fn window(&self, page: usize) -> usize {
        let most = self.pool.config.read_ahead;
        match self.advice.load(Relaxed) {
            1 => return 1,
            2 => return most,
            _ => {}
        }
        self.stream.window(page, most)
    }

    /// Takes the pages from `first` on that are evicted, up to `end`. Returns how many.
    pub(crate) fn claim_evicted(&self, first: usize, end: usize) -> usize {
        (first..end).take_while(|&p| self.words.try_fill(p)).count()
    }

    /// Fills pages that the caller owns, if there is room. False: they have been given back.
    pub(crate) fn fill_or_leave(&self, first: usize, n: usize) -> bool {
        match self.fill_owned(first, n, false) {
            Ok(filled) if filled > 0 => {
                self.pool.counts.filled.fetch_add(n as u64, Relaxed);
                true
            }
            // Whoever needs them will miss, and meet the error, if it is one.
            _ => {
                (first..first + n).for_each(|p| self.words.emptied(p));
                false
            }
        }
    }

    /// Fills a page that the caller owns, and up to `most` - 1 evicted neighbours after it. Returns
    /// pages filled.
    fn fill(&self, first: usize, most: usize, write: bool) -> Result<usize> {
        let start = clock::now();
        let end = (first + most.max(1)).min(self.pages());
        let mut n = 1 + self.claim_evicted(first + 1, end);
        let mut done = self.fill_owned(first, n, write);
        while n > 1 && !matches!(done, Ok(filled) if filled > 0) {
            // No room for all of them, or it is a neighbour that cannot be read.
            let less = n / 2;
            (first + less..first + n).for_each(|p| self.words.emptied(p));
            n = less;
            done = self.fill_owned(first, n, write);
        }
        match done {
            Ok(filled) => {
                let c = &self.pool.counts;
                c.misses.fetch_add(1, Relaxed);
                c.filled.fetch_add(filled as u64, Relaxed);
                c.miss_ns.add(clock::now() - start);
                Ok(filled)
            }
            Err(e) => {
                (first..first + n).for_each(|p| self.words.emptied(p));
                self.pool.counts.failed_misses.fetch_add(1, Relaxed);
                Err(e)
            }
        }
    }

    /// Fills pages that the caller owns: all, or none (0) if there is no room for more than one. On
    /// error all of them still are the caller's.
    fn fill_owned(&self, first: usize, n: usize, write: bool) -> Result<usize> {
        let pool = &self.pool;
        if !pool.make_room(self.book.memcg, n as u64, n == 1)? {
            return Ok(0);
        }
        let give_up = |e| {
            pool.gate.leave(n as u64);
            pool.uncharge(self.book.memcg, n as u64);
            Err(e)
        };
        let mut bounce = pool.bounce();
        let fresh = match self.load(first, n, &mut bounce) {
            Ok(fresh) => fresh,
            Err(e) => return give_up(e),
        };
        // A store that is about to happen would only fault again on a protected page. A page without
        // a copy in the store counts as written anyway.
        let bytes = &bounce.pages.bytes()[..n * PAGE];
        // Before anybody can store to them: a sync passes over blocks that have none.
        if !plant::on(Plant::CountLate) {
            (first..first + n).for_each(|p| self.count_in(p));
        }
        let put = if write && (fresh || n == 1) {
            self.put_in(first, bytes, false)
        } else if write {
            self.put_in(first, &bytes[..PAGE], false)
                .and_then(|()| self.put_in(first + 1, &bytes[PAGE..], true))
        } else {
            self.put_in(first, bytes, true)
        };
        drop(bounce);
        if let Err(e) = put {
            // Nothing has been told, so the store still has it all; what has been put is taken away.
            for p in first..first + n {
                self.take_away(p);
                self.count_out(p);
            }
            return give_up(e);
        }
        self.tell_engine(first, n, write);
        if plant::on(Plant::CountLate) {
            (first..first + n).for_each(|p| self.count_in(p));
        }
        for p in first..first + n {
            // What was zero has no copy anywhere; only the write-protect mark tells if it still is.
            let stored = write && p == first;
            self.words.filled(p, stored && self.is_explicit());
        }
        Ok(n)
    }

    /// Reads contents into the buffer. True if all of it is fresh zeroes.
    fn load(&self, first: usize, n: usize, b: &mut Bounce) -> Result<bool> {
        let c = &self.pool.counts;
        if let Some(file) = &self.backing {
            let buf = &mut b.pages.bytes_mut()[..n * PAGE];
            let from = (first * PAGE) as u64;
            let have = file.len.saturating_sub(from).min(buf.len() as u64) as usize;
            read_exact(&*file.storage, buf, have, from).map_err(Error::io("reading a file"))?;
            c.read_file.fetch_add(n as u64, Relaxed);
            return Ok(false);
        }
        let mut slots = [None; MOST_FILLED];
        let mut stored = 0;
        for (i, s) in slots[..n].iter_mut().enumerate() {
            *s = self.slot(first + i);
            match s {
                None => b.pages.page_mut(i).fill(0),
                Some(_) => stored += 1,
            }
        }
        if stored > 0 {
            let swap = self.pool.swap.as_ref().expect("slot of a swap");
            if plant::on(Plant::SlotEarly) {
                self.give_slots_early(&slots[..n], first);
            }
            let pages = &mut b.pages.bytes_mut()[..n * PAGE];
            let done = swap.get_many(&slots[..n], pages, b.scratch.bytes_mut());
            done.map_err(Error::io("reading swap"))?;
            c.swapped_in.fetch_add(stored, Relaxed);
        }
        Ok(stored == 0)
    }

    /// The planted bug: others may take the slots, and store to them, before they have been read.
    fn give_slots_early(&self, slots: &[Option<u32>], first: usize) {
        let mut core = self.pool.core();
        for (i, slot) in slots.iter().enumerate() {
            if let Some(slot) = *slot {
                self.book.set_slot(first + i, None);
                core.policy.free_slot(None, slot);
            }
        }
    }

    fn tell_engine(&self, first: usize, n: usize, write: bool) {
        let swap = self.pool.swap.as_ref();
        let mut core = self.pool.core();
        let counts = !self.pool.config.store_outside;
        let keep = swap.is_some_and(|s| core.keeps_copies(s, counts, self.book.memcg));
        for i in 0..n {
            let how = Arrival {
                wanted: i == 0,
                write: write && i == 0,
                returned: false,
            };
            core.policy.insert(&self.book, swap, first + i, how, keep);
        }
        // Records and page tables may have grown.
        self.pool.gone(&mut core, 0);
        if write && self.writable_file().is_some() {
            drop(core);
            self.note_dirty(first);
        }
    }
}
