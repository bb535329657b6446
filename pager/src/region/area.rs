//! A region: a range of addresses whose pages come and go.
//!
//! Anonymous regions and files are the same thing with another backing store.

use crate::error::{Error, Result};
use crate::miss::ahead::Stream;
use crate::page::{PageTable, Words};
use crate::policy::Book;
use crate::pool::inner::PoolInner;
use crate::store::Storage;
use crate::sys::exit::end;
use crate::sys::memfd::{Extent, Memfd};
use crate::sys::memory::Mapping;
use crate::sys::records::Block;
use crate::sys::userfaultfd::{Copied, Userfaultfd};
use crate::sys::PAGE;
use crate::writeback::errseq::ErrSeq;
use coldset_engine::FolioId;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::*};
use std::sync::Arc;

/// What a sweep looks at together.
pub(crate) use crate::sys::records::BLOCK;

/// Attempts, a millisecond apart, to get a page from a kernel that has none.
const SHORT_RETRIES: u32 = 2000;

/// A file behind a region.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) storage: Arc<dyn Storage>,
    /// Bytes of the file that the region covers; beyond it the last page reads as zeroes.
    pub(crate) len: u64,
    pub(crate) writable: bool,
    /// Errors of writes that nobody waited for.
    pub(crate) errors: ErrSeq,
}

/// How pages are put in and taken out.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Misses fault.
    Faulting {
        /// Holds the pages.
        file: Arc<Extent>,
        /// Puts them in. The pool's.
        uffd: Arc<Userfaultfd>,
    },
    /// Pages are used only while pinned; private memory.
    Explicit,
}

/// A region as the pager sees it.
#[derive(Debug)]
pub(crate) struct RegionInner {
    pub(crate) pool: Arc<PoolInner>,
    pub(crate) book: Arc<Book>,
    pub(crate) backing: Option<Backing>,
    pub(crate) memory: Memory,
    pub(crate) map: Mapping,
    pub(crate) words: PageTable,
    /// Whoever reads it in order.
    pub(crate) stream: Stream,
    /// An `Advice`.
    pub(crate) advice: AtomicU8,
    /// Sweeps of this region that have ended.
    pub(crate) sweeps: AtomicU64,
    /// The program has unmapped, moved or replaced a part of it.
    pub(crate) torn: AtomicBool,
}

/// What a region is made from.
pub(crate) struct NewRegion {
    pub(crate) pages: usize,
    pub(crate) book: Arc<Book>,
    pub(crate) backing: Option<Backing>,
    /// None in explicit mode.
    pub(crate) faults: Option<Faults>,
}

/// What a region whose misses fault takes its pages from, and who is told of misses.
pub(crate) struct Faults {
    pub(crate) file: Arc<Memfd>,
    pub(crate) uffd: Arc<Userfaultfd>,
}

impl RegionInner {
    pub(crate) fn new(pool: Arc<PoolInner>, new: NewRegion) -> Result<Self> {
        let sys = Error::sys("making a region");
        let pages = new.pages;
        let (memory, map) = match new.faults {
            None => {
                let map = Mapping::anonymous(pages * PAGE).map_err(&sys)?;
                (Memory::Explicit, map)
            }
            Some(Faults { file, uffd }) => {
                let room = "finding room for a region (is there a limit on file sizes, ulimit -f?)";
                let file = Arc::new(file.extent(pages).map_err(Error::sys(room))?);
                let writable = new.backing.as_ref().is_none_or(|b| b.writable);
                file.check();
                let space =
                    "mapping a region (address space, ulimit -v; or mappings, vm.max_map_count)";
                let map = Mapping::shared(file.clone(), writable).map_err(Error::sys(space))?;
                uffd.register(&map).map_err(&sys)?;
                (Memory::Faulting { file, uffd }, map)
            }
        };
        map.dont_fork().map_err(&sys)?;
        map.no_huge_pages().map_err(&sys)?;
        let words = PageTable::new(Words::new(new.book.records.clone()));
        Ok(Self {
            pool,
            book: new.book,
            backing: new.backing,
            memory,
            map,
            words,
            stream: Stream::default(),
            advice: AtomicU8::new(0),
            sweeps: AtomicU64::new(0),
            torn: AtomicBool::new(false),
        })
    }

    pub(crate) fn pages(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.book.records.blocks()
    }

    /// Pages of a block.
    pub(crate) fn block(&self, b: usize) -> std::ops::Range<usize> {
        b * BLOCK..((b + 1) * BLOCK).min(self.pages())
    }

    pub(crate) fn is_anon(&self) -> bool {
        self.backing.is_none()
    }

    pub(crate) fn is_explicit(&self) -> bool {
        matches!(self.memory, Memory::Explicit)
    }

    /// Can pages of it become dirty?
    pub(crate) fn writable_file(&self) -> Option<&Backing> {
        self.backing.as_ref().filter(|b| b.writable)
    }

    // ------------------------------------------------------------ tables

    pub(crate) fn folio(&self, page: usize) -> Option<FolioId> {
        self.book.folio(page)
    }

    pub(crate) fn slot(&self, page: usize) -> Option<u32> {
        self.book.slot(page)
    }

    /// What is known of a block; none: no page of it has been used.
    pub(crate) fn known_block(&self, b: usize) -> Option<&Block> {
        self.book.records.block(b)
    }

    /// When a block's first dirty page was found, nanoseconds; 0 = all clean.
    pub(crate) fn dirty_since(&self, b: usize) -> u64 {
        self.known_block(b)
            .map_or(0, |b| b.dirty_since.load(Relaxed))
    }

    pub(crate) fn in_block(&self, b: usize) -> u32 {
        self.known_block(b).map_or(0, |b| b.in_memory.load(Relaxed))
    }

    // ------------------------------------------------------------ memory

    /// Puts contents into pages that the caller owns (BUSY). `protect`: the next store is noted.
    pub(crate) fn put_in(&self, first: usize, src: &[u8], protect: bool) -> Result<()> {
        match &self.memory {
            Memory::Explicit => {
                self.store_explicit(first, src);
                Ok(())
            }
            Memory::Faulting { uffd, .. } => {
                let (mut done, mut most) = (0, src.len());
                let (mut zapped, mut short) = (0, 0);
                while done < src.len() {
                    let part = &src[done..src.len().min(done + most)];
                    match uffd.copy(&self.map, first * PAGE + done, part, protect) {
                        Ok(Copied::All) if done + part.len() < src.len() => done += part.len(),
                        Ok(Copied::All) => break,
                        // The address space is changing (fork, mremap elsewhere): again.
                        Ok(Copied::Some(n)) => done += n,
                        // The program's own madvise has split the range: one call cannot go across.
                        Err(Errno::NOENT) if part.len() > PAGE => most = PAGE,
                        // The kernel's own memory is short (a cgroup's limit): the contents exist only
                        // here, so it is worth waiting.
                        Err(Errno::NOMEM) if short < SHORT_RETRIES => {
                            short += 1;
                            std::thread::sleep(std::time::Duration::from_millis(1));
                        }
                        // The pages are ours and not there: what is, is the mark of a miss that
                        // failed (`handler.rs`).
                        Err(Errno::EXIST) if zapped <= src.len() / PAGE => {
                            zapped += 1;
                            self.map
                                .zap(first * PAGE + done, src.len() - done)
                                .map_err(Error::sys("zapping a region"))?;
                        }
                        Err(e) => return Err(Error::sys("UFFDIO_COPY")(e)),
                    }
                }
                Ok(())
            }
        }
    }

    /// Copies into pages of an explicit region that the caller owns.
    #[allow(unsafe_code)]
    fn store_explicit(&self, first: usize, src: &[u8]) {
        assert!((first * PAGE) + src.len() <= self.map.len());
        // SAFETY: the range is inside the mapping. The caller owns the pages (BUSY): nobody has a
        // guard on them and nobody gets one before the state changes. `src` is a buffer of the
        // pager's, never managed memory.
        unsafe {
            let to = self.map.ptr().add(first * PAGE);
            std::ptr::copy_nonoverlapping(src.as_ptr(), to, src.len());
        }
    }

    /// Drops pages of an explicit region that the caller owns. What they hold is lost.
    pub(crate) fn drop_explicit(&self, first: usize, pages: usize) {
        let zap = || self.map.zap(first * PAGE, pages * PAGE);
        // Refused if the program has locked all of its memory.
        let done = zap().or_else(|_| self.map.unlock().and_then(|()| zap()));
        if let Err(e) = done {
            end(&format!("pages cannot be dropped from memory: {e}"));
        }
    }

    /// Copies pages of an explicit region that the caller owns or has under writeback.
    #[allow(unsafe_code)]
    pub(crate) fn load_explicit(&self, first: usize, to: &mut [u8]) {
        assert!((first * PAGE) + to.len() <= self.map.len());
        // SAFETY: the range is inside the mapping, private memory that is always readable. The pages
        // are owned, or under writeback; a writer with a guard may change bytes meanwhile, which the
        // mark it leaves repairs: the page is written again.
        unsafe {
            let from = self.map.ptr().add(first * PAGE);
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
        }
    }
}
