//! The sealed file in memory behind the regions of a pool. Its descriptor never leaves the pager.

use super::again::{again, patiently};
use super::fd::Kept;
use super::ranges::Ranges;
use super::PAGE;
use crate::sys::exit::end;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    fallocate, fcntl_add_seals, ftruncate, memfd_create, FallocateFlags, MemfdFlags, SealFlags,
};
use rustix::io;
use rustix::process::{getrlimit, Resource};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Pages of a pool's file: far more than there are addresses. Holes take no memory.
const PAGES: u64 = 1 << 46;
/// Pages that one page table of the lowest level maps. Ranges of at least as many begin at a multiple,
/// so that the kernel may lay out their mappings as it does for a file of their own.
const TABLE: usize = 512;

/// A file in memory of fixed size, divided among regions.
#[derive(Debug)]
pub struct Memfd {
    fd: Kept,
    free: Mutex<Ranges>,
    pid: u32,
}

impl Memfd {
    /// A file of holes.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = Kept::new_alone(again(|| memfd_create("coldset", flags))?)?;
        // A limit on the sizes of files is one on this file, too; exceeding it would be a signal.
        let limit = getrlimit(Resource::Fsize).current;
        let pages = PAGES.min(limit.unwrap_or(u64::MAX) / PAGE as u64);
        again(|| ftruncate(&fd, pages * PAGE as u64))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self {
            fd,
            free: Mutex::new(Ranges::new(pages as usize)),
            pid: std::process::id(),
        })
    }

    /// A range of pages, all of them holes, that nobody else has. `EFBIG`: there is none of this length,
    /// which takes a limit on the sizes of files (`ulimit -f`).
    pub fn extent(self: &Arc<Self>, pages: usize) -> io::Result<Extent> {
        let align = if pages >= TABLE { TABLE } else { 1 };
        let first = self.free().take(pages, align);
        Ok(Extent {
            file: self.clone(),
            first: first.ok_or(io::Errno::FBIG)?,
            pages,
            leaked: AtomicBool::new(false),
        })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Ranges> {
        // No step leaves it half changed but by a failing allocation, which ends the process.
        self.free.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn punch(&self, first: usize, pages: usize) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (from, len) = ((first * PAGE) as u64, (pages * PAGE) as u64);
        patiently(|| fallocate(&self.fd, flags, from, len))
    }

    /// Pages it holds.
    pub fn resident(&self) -> io::Result<u64> {
        Ok(again(|| rustix::fs::fstat(&self.fd))?.st_blocks as u64 * 512 / PAGE as u64)
    }
}

/// The pages of one region in the pool's file, counted from the region's first. When it is dropped they
/// are removed, and others may get them.
#[derive(Debug)]
pub struct Extent {
    file: Arc<Memfd>,
    first: usize,
    pages: usize,
    leaked: AtomicBool,
}

impl Extent {
    /// Pages of the extent.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Ends the process if the file's descriptor is not the pager's any more.
    pub fn check(&self) {
        self.file.fd.check();
    }

    /// Removes pages: unmapped everywhere, translations flushed, gone from the file. After
    /// [`Self::check`].
    pub fn punch(&self, first: usize, pages: usize) -> io::Result<()> {
        assert!(first + pages <= self.pages, "punch beyond the region");
        self.file.punch(self.first + first, pages)
    }

    /// As [`Self::punch`]. The process ends if it fails: others may wait for these pages.
    pub fn remove(&self, first: usize, pages: usize) {
        if let Err(e) = self.punch(first, pages) {
            self.check();
            end(&format!("pages cannot be taken out of memory: {e}"));
        }
    }

    /// Reads pages through the descriptor, which maps nothing. Holes read as zeroes. Ends the process
    /// if what has been read may have come from another file.
    pub fn read(&self, first: usize, buf: &mut [u8]) -> io::Result<()> {
        assert!(
            first * PAGE + buf.len() <= self.pages * PAGE,
            "read beyond the region"
        );
        let from = self.offset(first);
        let mut done = 0;
        while done < buf.len() {
            let read = again(|| io::pread(&self.file.fd, &mut buf[done..], from + done as u64));
            if !matches!(read, Ok(n) if n > 0) {
                self.check();
            }
            match read? {
                0 => return Err(io::Errno::IO),
                n => done += n,
            }
        }
        // It never comes back once it is gone: it was there all the time.
        self.check();
        Ok(())
    }

    /// Where a page lies in the file, in bytes.
    pub fn offset(&self, page: usize) -> u64 {
        ((self.first + page) * PAGE) as u64
    }

    /// Something still maps these pages, or may: nobody gets them again.
    pub fn leak(&self) {
        self.leaked.store(true, Relaxed);
    }
}

impl AsFd for Extent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.fd.as_fd()
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        // A child of fork shares the file, and has no right to what is in it.
        if std::process::id() != self.file.pid || !self.file.fd.is_ours() {
            return;
        }
        let empty = self.file.punch(self.first, self.pages).is_ok();
        if empty && !self.leaked.load(Relaxed) {
            self.file.free().give(self.first, self.pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::{Mapping, PageBuf};

    fn store(map: &Mapping, page: usize, v: u8) {
        // SAFETY: the mapping is writable, and nobody else knows it.
        unsafe { map.ptr().add(page * PAGE).write_volatile(v) };
    }

    fn contents(e: &Extent) -> Vec<u8> {
        let mut buf = PageBuf::new(e.pages()).unwrap();
        e.read(0, buf.bytes_mut()).unwrap();
        buf.bytes().iter().step_by(PAGE).copied().collect()
    }

    #[test]
    fn what_follows_in_a_range_finds_it_empty() {
        let file = Arc::new(Memfd::new().unwrap());
        let make = |pages| Arc::new(file.extent(pages).unwrap());
        let (before, e) = (make(3), make(8));
        let map = Mapping::shared(e.clone(), true).unwrap();
        let map_before = Mapping::shared(before.clone(), true).unwrap();
        (0..3).for_each(|p| store(&map_before, p, 7));
        (0..8).for_each(|p| store(&map, p, 9));
        assert_eq!(file.resident().unwrap(), 11);
        assert_eq!(contents(&e), [9; 8]);
        let at = e.offset(0);
        e.punch(1, 2).unwrap();
        assert_eq!(contents(&e), [9, 0, 0, 9, 9, 9, 9, 9]);
        drop(e);
        assert_eq!(file.resident().unwrap(), 9, "the mapping keeps them");
        drop(map);
        assert_eq!(file.resident().unwrap(), 3);
        let again = make(8);
        assert_eq!(again.offset(0), at, "the range is used again");
        assert_eq!(contents(&again), [0; 8]);
        assert_eq!(contents(&before), [7; 3]);
    }

    #[test]
    fn what_somebody_may_still_map_is_not_used_again() {
        let file = Arc::new(Memfd::new().unwrap());
        let e = Arc::new(file.extent(4).unwrap());
        let at = e.offset(0);
        let map = Mapping::shared(e, true).unwrap();
        store(&map, 0, 1);
        // The program has moved a part of it elsewhere.
        map.disown();
        drop(map);
        assert_eq!(file.resident().unwrap(), 0);
        assert!(file.extent(4).unwrap().offset(0) > at);
    }
}
