//! Mappings whose pages are loaded from and stored to one byte at a time.

#![allow(unsafe_code)]

use super::PAGE;
use rustix::fd::AsFd;
use rustix::mm::{
    madvise, mlock, mmap, mmap_anonymous, mprotect, munmap, Advice as MapAdvice, MapFlags,
    MprotectFlags, ProtFlags,
};
use std::ffi::c_void;
use std::io;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Relaxed};

/// A mapping of whole pages.
#[derive(Debug)]
pub(crate) struct Map {
    at: NonNull<c_void>,
    pages: usize,
}

// SAFETY: memory of the process, which any thread may use; its bytes are loaded and stored atomically.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// `pages` pages of a file, from its beginning, shared.
    pub fn file(file: impl AsFd, pages: usize, writable: bool) -> io::Result<Self> {
        let prot = match writable {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        };
        // SAFETY: the kernel chooses the address, so no memory of the program is replaced.
        let at = unsafe { mmap(null_mut(), pages * PAGE, prot, MapFlags::SHARED, file, 0) }?;
        Ok(Self::of(at, pages))
    }

    /// Anonymous memory, for which nothing is set aside.
    pub fn anonymous(pages: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let at = unsafe { mmap_anonymous(null_mut(), pages * PAGE, prot, flags) }?;
        Ok(Self::of(at, pages))
    }

    /// Shared memory of this process alone. Unlike [`Self::anonymous`], it has no reverse map in common with a mapping beside it.
    pub fn shared(pages: usize) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let at = unsafe { mmap_anonymous(null_mut(), pages * PAGE, prot, MapFlags::SHARED) }?;
        Ok(Self::of(at, pages))
    }

    /// Anonymous memory that stays in memory; if a node is named, in that one's.
    pub fn locked(pages: usize, node: Option<u32>) -> io::Result<Self> {
        let map = Self::anonymous(pages)?;
        if let Some(node) = node {
            map.bind(node)?;
        }
        // SAFETY: the mapping is ours, and that its pages are in memory changes nothing of what they hold.
        unsafe { mlock(map.at.as_ptr(), pages * PAGE) }?;
        Ok(map)
    }

    /// Its pages come from this node, below 64.
    fn bind(&self, node: u32) -> io::Result<()> {
        let nodes: libc::c_ulong = 1 << node;
        // The kernel looks at one bit fewer than it is told of.
        let bits = libc::c_ulong::from(libc::c_ulong::BITS) + 1;
        // SAFETY: the kernel reads the one word of `nodes`, and where new pages of a mapping of ours come from changes
        // nothing of what they hold.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.at.as_ptr(),
                self.pages * PAGE,
                libc::MPOL_BIND,
                &raw const nodes,
                bits,
                0,
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn of(at: *mut c_void, pages: usize) -> Self {
        let at = NonNull::new(at).expect("a mapping is not at address 0");
        Self { at, pages }
    }

    /// As if it were mapped anew: anonymous memory holds zeros, pages of files are mapped when they are used again.
    pub fn forget(&self) -> io::Result<()> {
        // SAFETY: the memory stays mapped; its bytes are loaded and stored atomically, and may be anybody's.
        unsafe {
            madvise(
                self.at.as_ptr(),
                self.pages * PAGE,
                MapAdvice::LinuxDontNeed,
            )
        }?;
        Ok(())
    }

    /// A byte of a page. Threads share it, and so do processes.
    fn byte(&self, page: usize, offset: usize) -> &AtomicU8 {
        assert!(offset < PAGE, "byte {offset} of a page");
        // SAFETY: within the mapping, which is readable and lives as long as self. Whoever else uses it does so by
        // bytes, too.
        unsafe { AtomicU8::from_ptr(self.at(page * PAGE + offset)) }
    }

    /// Where a byte of it is.
    #[inline]
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        let (page, pages) = (offset / PAGE, self.pages);
        assert!(page < pages, "page {page} of {pages}");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.at.as_ptr().cast::<u8>().add(offset) }
    }

    /// Loads a byte of a page.
    #[inline]
    pub fn load(&self, page: usize, offset: usize) -> u8 {
        self.byte(page, offset).load(Relaxed)
    }

    /// Stores a byte to a page of a writable mapping.
    #[inline]
    pub fn store(&self, page: usize, offset: usize, value: u8) {
        self.byte(page, offset).store(value, Relaxed);
    }

    /// Stores words to a page of a writable mapping, from the second one on: the first one is used by bytes.
    pub fn store_words(&self, page: usize, words: impl Iterator<Item = u64>) {
        for (at, word) in (1..PAGE / 8).zip(words) {
            let at = self.at(page * PAGE + at * 8).cast::<u64>();
            // SAFETY: within the mapping, as checked by `at`, and aligned like it. Nobody uses these words by bytes.
            unsafe { AtomicU64::from_ptr(at) }.store(word, Relaxed);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: no reference into the mapping is ever handed out.
        let _ = unsafe { munmap(self.at.as_ptr(), self.pages * PAGE) };
    }
}

/// Makes the CPU forget its translations. The kernel clears accessed bits without a flush, and what the
/// CPU still translates by itself does not set them again: such accesses are unseen.
#[derive(Debug)]
pub(crate) struct Unseen(Map);

/// More pages than the kernel flushes one by one.
const PAGES: usize = 64;

impl Unseen {
    /// Memory whose protection is changed for that. The kernel holds the lock of its reverse map meanwhile, so that lock must not
    /// be the one of what the task uses: reclaim keeps all pages behind a lock that it does not get.
    pub fn new() -> io::Result<Self> {
        let map = Map::shared(PAGES)?;
        (0..PAGES).for_each(|page| map.store(page, 0, 1));
        // If they left memory, nothing would be flushed. Where no memory may be locked, reclaim of the whole machine can take
        // them, but no limit of the group, which they are not charged to.
        // SAFETY: that its pages are in memory changes nothing of what they hold.
        let _ = unsafe { mlock(map.at.as_ptr(), PAGES * PAGE) };
        Ok(Self(map))
    }

    /// Flushes all translations of this address space on this CPU.
    pub fn flush(&self) -> io::Result<()> {
        let (at, len) = (self.0.at.as_ptr(), PAGES * PAGE);
        // SAFETY: nobody uses these pages while they are read-only.
        unsafe {
            mprotect(at, len, MprotectFlags::READ)?;
            mprotect(at, len, MprotectFlags::READ | MprotectFlags::WRITE)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else the lock that is held while its protection changes may be that of a mapping beside it.
    #[test]
    fn what_is_changed_to_flush_is_no_private_memory() {
        let unseen = Unseen::new().unwrap();
        unseen.flush().unwrap();
        let at = format!("{:x}-", unseen.0.at.as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&at)).unwrap();
        assert_eq!(line.split(' ').nth(1), Some("rw-s"), "{line}");
    }
}
