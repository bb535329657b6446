//! What is kept of each page of a region, where pages are used.
//!
//! One range of memory holds it all: a root with a word for each block of 512 pages, and behind it what has
//! been made so far, one after the other: blocks, branches of 64 pages, leaves of 8. Nothing moves and
//! nothing is given back before all of it is. What has not been made reads as zero, the value of a page
//! of which nothing is known; memory is taken where something is stored for the first time. A page
//! costs 20 bytes and its share of the rest: 20.6 if its neighbours are used too, 272 if it is alone in
//! its block. The range is a mapping, and for regions of few pages, whose records fill no page, of the allocator's.
//!
//! Making goes by a lock that is held for a few instructions and never while anything can fault into
//! the pager; finding takes none.

use super::memory::Zeroed;
use super::PAGE;
use rustix::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};

/// Pages of a block: what one leaf table of the processor maps.
pub const BLOCK: usize = 512;
const BRANCH: usize = 64;
const LEAF: usize = 8;

/// What positions count in: parts begin at multiples of it.
const UNIT: usize = 32;

/// What is kept of 512 pages together.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct Block {
    branches: [AtomicU32; BLOCK / BRANCH],
    /// When its first dirty page was found, nanoseconds; 0 = all clean.
    pub dirty_since: AtomicU64,
    /// When the file's own pages were mapped in its place last, in pages that had come in before; 0 = never.
    pub lent_at: AtomicU64,
    /// Its pages that are in memory or on their way.
    pub in_memory: AtomicU32,
    /// Not 0: the kernel has, or may have, a table of its own for it.
    pub table: AtomicU32,
}

#[derive(Debug)]
#[repr(C, align(32))]
struct Branch([AtomicU32; BRANCH / LEAF]);

#[derive(Debug)]
#[repr(C, align(32))]
struct Leaf {
    shadow: [AtomicU64; LEAF],
    word: [AtomicU32; LEAF],
    folio: [AtomicU32; LEAF],
    slot: [AtomicU32; LEAF],
}

/// What is kept of one page.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    leaf: &'a Leaf,
    at: usize,
}

impl<'a> Record<'a> {
    /// State, marks and pins.
    #[inline]
    pub fn word(self) -> &'a AtomicU32 {
        &self.leaf.word[self.at]
    }

    /// Engine's folio + 1 while in memory.
    #[inline]
    pub fn folio(self) -> &'a AtomicU32 {
        &self.leaf.folio[self.at]
    }

    /// Swap slot + 1 while evicted.
    #[inline]
    pub fn slot(self) -> &'a AtomicU32 {
        &self.leaf.slot[self.at]
    }

    /// Shadow << 1 | 1 while evicted.
    #[inline]
    pub fn shadow(self) -> &'a AtomicU64 {
        &self.leaf.shadow[self.at]
    }
}

#[derive(Debug)]
struct Made {
    /// Bytes of the mapping that are used.
    end: usize,
    blocks: usize,
    /// Bytes that the meter has been told of.
    told: u64,
}

/// Records of the pages of a region.
#[derive(Debug)]
pub struct Records {
    memory: Zeroed,
    pages: usize,
    root: usize,
    made: Mutex<Made>,
    /// Bytes of memory that all records take together that share it.
    meter: Arc<AtomicU64>,
}

impl Records {
    /// Of `pages` pages of which nothing is known. `meter` counts the memory they take.
    pub fn new(pages: usize, meter: Arc<AtomicU64>) -> io::Result<Self> {
        let blocks = pages.div_ceil(BLOCK).max(1);
        let root = (blocks * size_of::<AtomicU32>()).next_multiple_of(UNIT);
        let most = root
            + blocks * size_of::<Block>()
            + pages.div_ceil(BRANCH) * size_of::<Branch>()
            + pages.div_ceil(LEAF) * size_of::<Leaf>();
        Ok(Self {
            memory: Zeroed::new(most, UNIT)?,
            pages,
            root,
            made: Mutex::new(Made {
                end: root,
                blocks: 0,
                told: 0,
            }),
            meter,
        })
    }

    /// Pages that records can be made for.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Blocks, the last of which may be shorter.
    pub fn blocks(&self) -> usize {
        self.pages.div_ceil(BLOCK)
    }

    /// What is known of a page, if anything is.
    #[inline]
    pub fn find(&self, page: usize) -> Option<Record<'_>> {
        let branch = self.branch(page)?;
        let leaf: &Leaf = self.part(branch.0[page % BRANCH / LEAF].load(Acquire))?;
        let at = page % LEAF;
        Some(Record { leaf, at })
    }

    /// The record of a page, made if there is none.
    #[inline]
    pub fn make(&self, page: usize) -> Record<'_> {
        match self.find(page) {
            Some(r) => r,
            None => self.make_all(page),
        }
    }

    #[cold]
    fn make_all(&self, page: usize) -> Record<'_> {
        let block = self.make_block(page / BLOCK);
        let branch: &Branch = self.made(&block.branches[page % BLOCK / BRANCH]);
        let leaf: &Leaf = self.made(&branch.0[page % BRANCH / LEAF]);
        let at = page % LEAF;
        Record { leaf, at }
    }

    /// What is known of a block, if anything is.
    #[inline]
    pub fn block(&self, b: usize) -> Option<&Block> {
        self.part(self.roots()[b].load(Acquire))
    }

    /// A block, made if there is none.
    pub fn make_block(&self, b: usize) -> &Block {
        self.made(&self.roots()[b])
    }

    /// Pages of a range that may be known, in order: those that share a leaf with one that is.
    pub fn known(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let mut next = range.start;
        std::iter::from_fn(move || {
            while next < range.end {
                let step = if self.block(next / BLOCK).is_none() {
                    BLOCK
                } else if self.branch(next).is_none() {
                    BRANCH
                } else if self.find(next).is_none() {
                    LEAF
                } else {
                    next += 1;
                    return Some(next - 1);
                };
                next = (next / step + 1) * step;
            }
            None
        })
    }

    #[inline]
    fn branch(&self, page: usize) -> Option<&Branch> {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        let block = self.block(page / BLOCK)?;
        self.part(block.branches[page % BLOCK / BRANCH].load(Acquire))
    }

    #[inline]
    fn roots(&self) -> &[AtomicU32] {
        // SAFETY: the range begins with so many words, zeroed, aligned to UNIT, and used
        // as atomics only, as long as self lives.
        unsafe { std::slice::from_raw_parts(self.memory.ptr().cast(), self.blocks()) }
    }

    /// The part at a position of those that [`Self::made`] has stored for a `T`; none at 0.
    #[inline]
    fn part<T>(&self, at: u32) -> Option<&T> {
        if at == 0 {
            return None;
        }
        let offset = at as usize * UNIT;
        debug_assert!(offset >= self.root && offset + size_of::<T>() <= self.memory.size());
        // SAFETY: positions come from `made`, which has set this part of the range aside for a value
        // of this type (each word that names a part is used with one type only); it is aligned to
        // UNIT, and zeroed, which is a value: parts consist of atomics. It stays as long as self.
        Some(unsafe { &*self.memory.ptr().add(offset).cast::<T>() })
    }

    /// The part that a word names; if it names none yet, a new one.
    fn made<T>(&self, word: &AtomicU32) -> &T {
        const { assert!(align_of::<T>() <= UNIT) };
        if let Some(part) = self.part(word.load(Acquire)) {
            return part;
        }
        let mut made = self.made.lock().expect("records");
        let mut at = word.load(Acquire);
        if at == 0 {
            let end = made.end + size_of::<T>().next_multiple_of(UNIT);
            assert!(end <= self.memory.size(), "more parts than pages need");
            at = (made.end / UNIT) as u32;
            made.end = end;
            made.blocks += usize::from(size_of::<T>() == size_of::<Block>());
            self.tell(&mut made);
            word.store(at, Release);
        }
        drop(made);
        self.part(at).expect("not 0")
    }

    /// Bytes: pages that parts have begun, and of the root at most one for each block; or all of what is less than a page.
    fn tell(&self, made: &mut Made) {
        let parts = made.end.div_ceil(PAGE) - self.root / PAGE;
        let root = self.root.div_ceil(PAGE).min(made.blocks);
        let now = match self.memory.is_mapped() {
            true => (parts + root) * PAGE,
            false => self.memory.size(),
        } as u64;
        self.meter.fetch_add(now - made.told, Relaxed);
        made.told = now;
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let told = self.made.get_mut().map_or(0, |m| m.told);
        self.meter.fetch_sub(told, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn records(pages: usize) -> (Records, Arc<AtomicU64>) {
        let meter = Arc::new(AtomicU64::new(0));
        (Records::new(pages, meter.clone()).unwrap(), meter)
    }

    #[test]
    fn nothing_is_known_and_nothing_taken_before_something_is_made() {
        let (r, meter) = records(1 << 20);
        assert!(r.find(0).is_none() && r.find((1 << 20) - 1).is_none());
        assert!(r.block(3).is_none());
        assert_eq!(r.known(0..1 << 20).count(), 0);
        assert_eq!(meter.load(Relaxed), 0);
        r.make(4711).slot().store(5, Relaxed);
        assert_eq!(r.find(4711).unwrap().slot().load(Relaxed), 5);
        assert_eq!(r.find(4711).unwrap().word().load(Relaxed), 0);
        assert!(r.block(4711 / BLOCK).is_some());
        assert_eq!(
            r.known(0..1 << 20).collect::<Vec<_>>(),
            Vec::from_iter(4704..4712)
        );
        assert_eq!(r.known(4706..4708).count(), 2);
        assert!(meter.load(Relaxed) <= 3 * PAGE as u64);
        drop(r);
        assert_eq!(meter.load(Relaxed), 0);
    }

    #[test]
    fn all_pages_fit_and_no_two_share_anything() {
        for pages in [1, 7, 8, 9, 511, 512, 513, 2000] {
            let (r, meter) = records(pages);
            let set = |v: usize| v as u32 + 1;
            for p in (0..pages).rev() {
                let x = r.make(p);
                x.word().store(set(p), Relaxed);
                x.folio().store(set(p) * 3, Relaxed);
                x.slot().store(set(p) * 5, Relaxed);
                x.shadow().store(set(p) as u64 * 7, Relaxed);
            }
            for p in 0..pages {
                let x = r.find(p).unwrap();
                let all = [x.word(), x.folio(), x.slot()].map(|a| a.load(Relaxed));
                assert_eq!(all, [set(p), set(p) * 3, set(p) * 5]);
                assert_eq!(x.shadow().load(Relaxed), set(p) as u64 * 7);
            }
            assert_eq!(r.known(0..pages).count(), pages);
            let told = meter.load(Relaxed) as usize;
            assert!(told <= pages * 21 + 3 * PAGE, "{told} bytes for {pages}");
            assert!(pages > 8 || told <= 512, "{told} bytes for {pages}");
        }
    }

    #[test]
    fn threads_that_make_the_same_records_get_the_same() {
        let pages = if cfg!(miri) { 600 } else { 20_000 };
        let (r, _) = records(pages);
        std::thread::scope(|s| {
            for t in 0..4 {
                let r = &r;
                s.spawn(move || {
                    for i in 0..pages {
                        let p = (i * 7 + t * 13) % pages;
                        r.make(p).word().fetch_add(1, Relaxed);
                        r.make_block(p / BLOCK).in_memory.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        let mut seen = BTreeMap::new();
        for p in 0..pages {
            *seen
                .entry(r.find(p).unwrap().word().load(Relaxed))
                .or_insert(0) += 1;
        }
        assert_eq!(seen, BTreeMap::from([(4, pages)]));
        let counted: u32 = (0..r.blocks())
            .map(|b| r.block(b).unwrap().in_memory.load(Relaxed))
            .sum();
        assert_eq!(counted as usize, 4 * pages);
    }

    /// What a region of 100 GiB costs of which 20,000 pages are used.
    #[cfg(not(miri))]
    #[test]
    fn pages_far_apart_cost_little() {
        let pages = 100 << 18;
        let (r, meter) = records(pages);
        let mut x = 1u64;
        for _ in 0..20_000 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            r.make((x >> 33) as usize % pages).word().store(2, Relaxed);
        }
        let told = meter.load(Relaxed);
        assert!(told < 6 << 20, "{told} bytes");
    }
}
