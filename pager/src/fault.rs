//! Misses: bringing pages in.

use crate::config::MAX_READ_AHEAD;
use crate::error::{Error, Result};
use crate::page::State;
use crate::policy::Arrival;
use crate::region::RegionInner;
use crate::store::compressed::SCRATCH;
use crate::store::storage::read_exact;
use crate::store::swap::clone;
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

fn find(addr: usize) -> Option<Arc<RegionInner>> {
    let all = REGISTRY.read().ok()?;
    let at = all
        .partition_point(|r| r.map.addr() <= addr)
        .checked_sub(1)?;
    let r = &all[at];
    (addr < r.map.addr() + r.map.len()).then(|| r.clone())
}

/// The handler's entry.
pub(crate) fn on_miss(miss: Miss) -> Verdict {
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
        return if n < SPURIOUS {
            Verdict::Handled
        } else {
            Verdict::Pass
        };
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

/// To standard error by its descriptor: the thread that missed may hold the lock of Rust's.
fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

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
            pages: make(MAX_READ_AHEAD)?,
            scratch: make(SCRATCH / PAGE)?,
        })
    }
}

impl RegionInner {
    /// Makes sure that a page was in memory at some moment during the call.
    pub(crate) fn bring_in(&self, page: usize, write: bool) -> Result<()> {
        let _passage = self.pool.traffic.enter();
        loop {
            match self.words.get(page).state() {
                State::Resident | State::Writeback => return Ok(()),
                State::Busy => self.words.wait_while(page, State::Busy),
                State::Evicted => {
                    if self.words.try_fill(page) {
                        let most = self.window(page);
                        self.fill(page, most, write)?;
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
        let s = self.stream.load(Relaxed);
        let (next, window) = ((s >> 8) as usize, (s & 0xFF) as usize);
        let window = if next == page && page > 0 {
            (window * 2).max(2)
        } else {
            1
        };
        window.min(most)
    }

    /// Fills a page that the caller owns, and up to `most` - 1 evicted neighbours after it.
    fn fill(&self, first: usize, most: usize, write: bool) -> Result<()> {
        let start = clock::now();
        let end = (first + most.max(1)).min(self.pages());
        let mut n = 1;
        while first + n < end && self.words.try_fill(first + n) {
            n += 1;
        }
        let mut done = self.fill_owned(first, n, write);
        if n > 1 && !matches!(done, Ok(filled) if filled > 0) {
            // No room for all of them, or it is a neighbour that cannot be read.
            for p in first + 1..first + n {
                self.words.emptied(p);
            }
            n = 1;
            done = self.fill_owned(first, 1, write);
        }
        match done {
            Ok(filled) => {
                self.stream
                    .store((((first + filled) as u64) << 8) | filled as u64, Relaxed);
                let c = &self.pool.counts;
                c.misses.fetch_add(1, Relaxed);
                c.filled.fetch_add(filled as u64, Relaxed);
                c.miss_ns.add(clock::now() - start);
                Ok(())
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
        let mut bounce = match pool.bounce() {
            Ok(b) => b,
            Err(e) => return give_up(e),
        };
        let done = self.load(first, n, &mut bounce);
        let fresh = match done {
            Ok(fresh) => fresh,
            Err(e) => {
                pool.keep_bounce(bounce);
                return give_up(e);
            }
        };
        self.tell_engine(first, n, write);
        // A store that is about to happen would only fault again on a protected page. A page without
        // a copy in the store counts as written anyway.
        let bytes = &bounce.pages.bytes()[..n * PAGE];
        let put = if write && (fresh || n == 1) {
            self.put_in(first, bytes, false)
        } else if write {
            self.put_in(first, &bytes[..PAGE], false)
                .and_then(|()| self.put_in(first + 1, &bytes[PAGE..], true))
        } else {
            self.put_in(first, bytes, true)
        };
        pool.keep_bounce(bounce);
        if let Err(e) = put {
            self.take_back(first, n);
            pool.gate.leave(n as u64);
            return Err(e);
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
        let mut fresh = true;
        for i in 0..n {
            let page = b.pages.page_mut(i);
            match self.slot(first + i) {
                None => page.fill(0),
                Some(slot) => {
                    fresh = false;
                    let swap = self.pool.swap.as_ref().expect("slot of a swap");
                    swap.get(slot, page, b.scratch.bytes_mut())
                        .map_err(|e| Error::Io {
                            what: "reading swap",
                            source: clone(&e),
                        })?;
                    c.swapped_in.fetch_add(1, Relaxed);
                }
            }
        }
        Ok(fresh)
    }

    fn tell_engine(&self, first: usize, n: usize, write: bool) {
        let swap = self.pool.swap.as_ref();
        let plenty = swap.is_some_and(|s| s.bytes() * 2 <= s.limit());
        let mut core = self.pool.core();
        for i in 0..n {
            let how = Arrival {
                wanted: i == 0,
                write: write && i == 0,
                returned: false,
            };
            core.policy.insert(&self.book, swap, first + i, how, plenty);
            self.count_in(first + i);
        }
        if write && self.writable_file().is_some() {
            drop(core);
            self.note_dirty(first);
        }
    }

    /// A fill failed after the engine knew of it: contents of anonymous pages are lost with it, so
    /// this is for regions whose mapping has gone.
    fn take_back(&self, first: usize, n: usize) {
        let mut core = self.pool.core();
        for p in first..first + n {
            self.count_out(p);
            core.policy.forget(&self.book, self.pool.swap.as_ref(), p);
        }
    }
}
