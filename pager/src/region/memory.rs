//! The memory of a region: how pages are put in, copied and taken away.

use super::lent::Lent;
use crate::error::{Error, Result};
use crate::sys::exit::end;
use crate::sys::fork::Withheld;
use crate::sys::memfd::{Extent, Memfd};
use crate::sys::memory::Mapping;
use crate::sys::pagemap::{Pagemap, Run, Scan};
use crate::sys::userfaultfd::{Copied, Userfaultfd};
use crate::sys::PAGE;
use rustix::io::{self, Errno};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Attempts, a millisecond apart, to get a page from a kernel that has none.
const SHORT_RETRIES: u32 = 2000;

/// A range of addresses, and what is behind it.
#[derive(Debug)]
pub(crate) struct Memory {
    /// None in explicit mode: private memory, used only while it is pinned.
    source: Option<Source>,
    /// Dropped first: its addresses are the program's once the mapping is gone.
    _withheld: Withheld,
    pub(super) map: Mapping,
    /// The program has unmapped, moved or replaced a part of it.
    pub(super) torn: AtomicBool,
    /// Where the file's own pages are mapped.
    pub(super) lent: Lent,
}

/// What a region whose misses fault takes its pages from, and who is told of misses. Both the pool's.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) file: Arc<Memfd>,
    pub(crate) uffd: Arc<Userfaultfd>,
}

#[derive(Debug)]
struct Source {
    /// Holds the pages.
    file: Arc<Extent>,
    /// Puts them in.
    uffd: Arc<Userfaultfd>,
}

impl Memory {
    /// Of so many pages, without any contents. `faults`: none in explicit mode.
    pub(super) fn new(pages: usize, faults: Option<Faults>, writable: bool) -> Result<Self> {
        let sys = Error::sys("making a region");
        let (source, map) = match faults {
            None => {
                let map = Mapping::anonymous(pages * PAGE).map_err(&sys)?;
                (None, map)
            }
            Some(Faults { file, uffd }) => {
                let room = "finding room for a region (is there a limit on file sizes, ulimit -f?)";
                let file = Arc::new(file.extent(pages).map_err(Error::sys(room))?);
                file.check();
                let space =
                    "mapping a region (address space, ulimit -v; or mappings, vm.max_map_count)";
                let map = Mapping::shared(file.clone(), writable).map_err(Error::sys(space))?;
                uffd.register(&map).map_err(&sys)?;
                (Some(Source { file, uffd }), map)
            }
        };
        map.dont_fork().map_err(&sys)?;
        map.no_huge_pages().map_err(&sys)?;
        Ok(Self {
            source,
            _withheld: Withheld::new(map.addr()..map.addr() + map.len()),
            map,
            torn: AtomicBool::new(false),
            lent: Lent::default(),
        })
    }

    /// Are pages used only while they are pinned?
    pub(crate) fn is_explicit(&self) -> bool {
        self.source.is_none()
    }

    /// First address.
    pub(crate) fn addr(&self) -> usize {
        self.map.addr()
    }

    /// First byte.
    pub(crate) fn ptr(&self) -> *mut u8 {
        self.map.ptr()
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// The part of the pool's file that holds the pages; none in explicit mode.
    pub(crate) fn extent(&self) -> Option<&Extent> {
        self.source.as_ref().map(|s| &*s.file)
    }

    /// Who is told of its misses; nobody in explicit mode.
    pub(super) fn uffd(&self) -> Option<&Userfaultfd> {
        self.source.as_ref().map(|s| &*s.uffd)
    }

    /// Puts contents into pages that the caller owns (BUSY). `protect`: the next store is noted.
    pub(crate) fn put_in(&self, first: usize, src: &[u8], protect: bool) -> Result<()> {
        let Some(Source { uffd, .. }) = &self.source else {
            self.store_explicit(first, src);
            return Ok(());
        };
        let (mut done, mut most) = (0, src.len());
        let (mut zapped, mut short) = (0, 0);
        while done < src.len() {
            let part = &src[done..src.len().min(done + most)];
            match uffd.copy(&self.map, first * PAGE + done, part, protect) {
                Ok(Copied::All) => done += part.len(),
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
                // The pages are ours and not there: what is, is the mark of a miss that failed
                // (`miss/handler.rs`).
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

    /// Copies pages that the caller owns or has under writeback.
    pub(crate) fn read(&self, first: usize, to: &mut [u8]) -> io::Result<()> {
        match &self.source {
            Some(s) => s.file.read(first, to),
            None => {
                self.load_explicit(first, to);
                Ok(())
            }
        }
    }

    /// Takes pages that the caller owns out of memory. What they hold is lost.
    pub(crate) fn remove(&self, first: usize, pages: usize) {
        if let Some(s) = &self.source {
            return s.file.remove(first, pages);
        }
        let zap = || self.map.zap(first * PAGE, pages * PAGE);
        // Refused if the program has locked all of its memory.
        let done = zap().or_else(|_| self.map.unlock().and_then(|()| zap()));
        if let Err(e) = done {
            end(&format!("pages cannot be dropped from memory: {e}"));
        }
    }

    /// The descriptor of the file is the pager's.
    pub(crate) fn check(&self) {
        if let Some(s) = &self.source {
            s.file.check();
        }
    }

    /// Takes write protection of a byte range away. False: it cannot be, or there is none.
    pub(super) fn unprotect(&self, offset: usize, len: usize) -> bool {
        let done = |s: &Source| s.uffd.unprotect(&self.map, offset, len).is_ok();
        self.source.as_ref().is_some_and(done)
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

    /// Copies pages of an explicit region that the caller owns or has under writeback.
    #[allow(unsafe_code)]
    fn load_explicit(&self, first: usize, to: &mut [u8]) {
        assert!((first * PAGE) + to.len() <= self.map.len());
        // SAFETY: the range is inside the mapping, private memory that is always readable. The pages
        // are owned, or under writeback; a writer with a guard may change bytes meanwhile, which the
        // mark it leaves repairs: the page is written again.
        unsafe {
            let from = self.map.ptr().add(first * PAGE);
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
        }
    }

    /// Scans pages of it. False: the kernel refused, or some of them are lent.
    pub(crate) fn scan(
        &self,
        pm: &Pagemap,
        what: Scan,
        pages: Range<usize>,
        found: impl FnMut(Run),
    ) -> bool {
        let scan = || pm.scan(&self.map, what, pages.start, pages.len(), found);
        let done = self.lent.unless(&pages, scan);
        done.is_some_and(|done| self.scanned(done))
    }

    // ------------------------------------------------------------ misses told by messages

    /// Wakes the threads that wait for a page.
    pub(crate) fn wake(&self, page: usize) -> io::Result<()> {
        let wake = |s: &Source| s.uffd.wake(&self.map, page * PAGE);
        self.source.as_ref().map_or(Ok(()), wake)
    }

    /// Threads that wait for the page get SIGBUS, system calls EFAULT.
    pub(crate) fn fail(&self, page: usize) {
        if let Some(s) = &self.source {
            // Refused if somebody else could bring it in after all.
            let _ = s.uffd.poison(&self.map, page * PAGE);
            let _ = s.uffd.wake(&self.map, page * PAGE);
        }
    }
}
