//! Mappings that own themselves, buffers of whole pages, zeroed tables of atomics.

use super::again::again;
use super::fork::between_forks;
use super::memfd::Extent;
use super::PAGE;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io;
use rustix::mm::{
    madvise, mmap, mmap_anonymous, msync, munlock, munmap, Advice, MapFlags, MsyncFlags, ProtFlags,
};
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::Arc;

/// Whether the kernel maps an open file at all. Files that are made while they are read, as those of procfs and sysfs, it
/// does not map, and what it says of their sizes is not true.
///
/// # Errors
/// `ENODEV`, or another number of `mmap`.
pub fn try_to_map(file: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MapFlags::PRIVATE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing existing.
    let p = unsafe { mmap(std::ptr::null_mut(), PAGE, ProtFlags::READ, flags, file, 0)? };
    // SAFETY: the mapping made above, which nobody else knows and nobody has read.
    unsafe { munmap(p, PAGE) }
}

/// A range of address space, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    disowned: AtomicBool,
    /// The pages it maps, which nobody else gets as long as it does.
    of: Option<Arc<Extent>>,
}

// SAFETY: a mapping is an address range and belongs to no thread; it hands out raw pointers only.
unsafe impl Send for Mapping {}
// SAFETY: as above; all methods but drop only read the two fields.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private anonymous memory.
    #[cfg(miri)]
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let layout =
            std::alloc::Layout::from_size_align(len, PAGE).map_err(|_| io::Errno::INVAL)?;
        // SAFETY: no range is empty.
        let p = unsafe { std::alloc::alloc_zeroed(layout) };
        Ok(Self::own(p, len, None))
    }

    /// Private anonymous memory.
    #[cfg(not(miri))]
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing existing.
        let p = unsafe { mmap_anonymous(std::ptr::null_mut(), len, PROT, flags)? };
        Ok(Self::own(p.cast(), len, None))
    }

    /// Pages of a file in memory, shared.
    pub fn shared(of: Arc<Extent>, writable: bool) -> io::Result<Self> {
        let prot = if writable { PROT } else { ProtFlags::READ };
        let (len, from) = (of.pages() * PAGE, of.offset(0));
        let place = Self::place(len)?;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: what it replaces is a part of `place`, which nobody else knows.
        let p = unsafe { mmap(place.start, len, prot, flags, of.as_fd(), from)? };
        place.keep(len);
        Ok(Self::own(p.cast(), len, Some(of)))
    }

    /// Maps pages of an open file, from its byte `from` on, over a part that can only be read: other threads see
    /// either what was there or the file, never anything between. In huge pages, if it can be: the kernel then reads that much at a time,
    /// and as much ahead, whatever read-ahead the device is set to.
    ///
    /// # Errors
    /// The kernel refuses; the part may be lent nevertheless.
    pub fn lend(
        &self,
        offset: usize,
        len: usize,
        file: BorrowedFd<'_>,
        from: u64,
    ) -> io::Result<()> {
        assert!(offset + len <= self.len, "lending beyond the mapping");
        // SAFETY: in this mapping, which is shared, whose pages are holes there, and which stays readable and not
        // writable: nobody holds a reference to what is replaced.
        let at = unsafe { self.start.as_ptr().add(offset) };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // A child that had it could use it, and would have its own mappings at the addresses of the rest.
        between_forks(|| {
            // SAFETY: as above.
            unsafe { mmap(at.cast(), len, ProtFlags::READ, flags, file, from)? };
            self.advise(offset, len, Advice::LinuxDontFork)
        })?;
        self.advise(offset, len, Advice::LinuxHugepage)
    }

    /// Brings pages of a part that has been lent into memory, and maps them.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
        self.advise(offset, len, Advice::LinuxPopulateRead)
    }

    /// Maps its own pages again where a part has been lent, after `prepare` has had the mapping that takes the place. Other
    /// threads see either the file or that.
    pub fn take_back(
        &self,
        offset: usize,
        len: usize,
        prepare: impl FnOnce(&Self) -> io::Result<()>,
    ) -> io::Result<()> {
        assert!(offset + len <= self.len, "taking back beyond the mapping");
        let of = self.of.as_ref().ok_or(io::Errno::INVAL)?;
        let from = of.offset(offset / PAGE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing existing.
        let p = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                of.as_fd(),
                from,
            )?
        };
        let own = Self::own(p.cast(), len, None);
        prepare(&own)?;
        own.dont_fork()?;
        own.no_huge_pages()?;
        // SAFETY: what moves is `own`, which nobody else knows. What it replaces is a part of this mapping that has
        // been lent: readable before and after, and nobody holds a reference to it.
        unsafe {
            let at = self.start.as_ptr().add(offset);
            // Not by rustix, which gives another flag where it goes by the C library, as for ThreadSanitizer.
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            if libc::mremap(p, len, len, flags, at) == libc::MAP_FAILED {
                let e = std::io::Error::last_os_error();
                return Err(io::Errno::from_io_error(&e).unwrap_or(io::Errno::INVAL));
            }
        }
        own.disown();
        Ok(())
    }

    /// Address space for `len` bytes; for as much as a page table maps, or more, at a multiple of that:
    /// then each block of pages has a table of its own.
    fn place(len: usize) -> io::Result<Place> {
        let align = if len >= TABLE_BYTES {
            TABLE_BYTES
        } else {
            PAGE
        };
        let all = len + align - PAGE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing existing.
        let p = unsafe { mmap_anonymous(std::ptr::null_mut(), all, ProtFlags::empty(), flags)? };
        Ok(Place {
            whole: Self::own(p.cast(), all, None),
            start: (p as usize).next_multiple_of(align) as *mut _,
        })
    }

    fn own(p: *mut u8, len: usize, of: Option<Arc<Extent>>) -> Self {
        Self {
            start: NonNull::new(p).expect("mmap never returns null"),
            len,
            disowned: AtomicBool::new(false),
            of,
        }
    }

    /// First byte, valid as long as the mapping lives.
    pub fn ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Address of the first byte.
    pub fn addr(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Bytes of the range.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: the kernel maps no empty range.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A child of fork does not get the range.
    pub fn dont_fork(&self) -> io::Result<()> {
        self.advise(0, self.len, Advice::LinuxDontFork)
    }

    /// The kernel makes no huge pages of the range.
    pub fn no_huge_pages(&self) -> io::Result<()> {
        match self.advise(0, self.len, Advice::LinuxNoHugepage) {
            // A kernel without huge pages does not know the advice.
            Err(io::Errno::INVAL) => Ok(()),
            other => other,
        }
    }

    /// Takes the page-table entries of a byte range away; on private memory also the contents.
    pub fn zap(&self, offset: usize, len: usize) -> io::Result<()> {
        self.advise(offset, len, Advice::LinuxDontNeed)
    }

    /// True if all of the range is mapped, by whatever.
    pub fn is_whole(&self) -> bool {
        // SAFETY: an asynchronous msync changes nothing.
        let done = unsafe { msync(self.start.as_ptr().cast(), self.len, MsyncFlags::ASYNC) };
        // That there is a hole. What else it says is not about the range.
        done != Err(io::Errno::NOMEM)
    }

    /// Undoes `mlock`.
    pub fn unlock(&self) -> io::Result<()> {
        // SAFETY: changes where pages may go, not what they hold.
        unsafe { munlock(self.start.as_ptr().cast(), self.len) }
    }

    /// The range, or a part of it, belongs to somebody else: it will not be unmapped.
    pub fn disown(&self) {
        self.disowned.store(true, Relaxed);
    }

    fn advise(&self, offset: usize, len: usize, advice: Advice) -> io::Result<()> {
        assert!(offset + len <= self.len, "advice beyond the mapping");
        // SAFETY: the range lies inside this mapping. For shared mappings of a memfd DONTNEED drops
        // entries, not contents; for private ones callers own the contents they drop.
        again(|| unsafe { madvise(self.start.as_ptr().add(offset).cast(), len, advice) })
    }
}

/// Bytes that one page table of the lowest level maps.
const TABLE_BYTES: usize = 512 * PAGE;

/// Address space that holds nothing yet.
struct Place {
    whole: Mapping,
    start: *mut std::ffi::c_void,
}

impl Place {
    /// Gives back all but `len` bytes from `start` on, which are somebody's now.
    fn keep(self, len: usize) {
        self.whole.disown();
        let (from, end) = (self.whole.addr(), self.whole.addr() + self.whole.len);
        let kept = self.start as usize..self.start as usize + len;
        for (from, end) in [(from, kept.start), (kept.end, end)] {
            if from < end {
                // SAFETY: this part is ours alone, and nothing has been put there.
                let _ = unsafe { munmap(from as *mut _, end - from) };
            }
        }
    }
}

const PROT: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Drop for Mapping {
    fn drop(&mut self) {
        let leak = || self.of.iter().for_each(|of| of.leak());
        if self.disowned.load(Relaxed) {
            return leak();
        }
        #[cfg(miri)]
        // SAFETY: under Miri all memory comes from the allocator, with this layout.
        unsafe {
            let layout = std::alloc::Layout::from_size_align_unchecked(self.len, PAGE);
            std::alloc::dealloc(self.start.as_ptr(), layout);
        }
        #[cfg(not(miri))]
        // SAFETY: the range is ours and nobody can name it any more.
        if unsafe { munmap(self.start.as_ptr().cast(), self.len) }.is_err() {
            // Splitting a mapping takes one more of them, of which there may be no more.
            leak();
        }
    }
}

/// A page-aligned buffer of zeroed pages, never managed by a pager.
#[derive(Debug)]
pub struct PageBuf(Mapping);

impl PageBuf {
    /// A buffer of `pages` pages.
    pub fn new(pages: usize) -> io::Result<Self> {
        Mapping::anonymous(pages.max(1) * PAGE).map(Self)
    }

    /// All its pages, one after the other.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable, initialised (zeroed by the kernel) and lives as long as
        // self; writers need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.0.ptr(), self.0.len()) }
    }

    /// All its pages, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.ptr(), self.0.len()) }
    }

    /// The page of an index.
    pub fn page(&self, i: usize) -> &[u8] {
        &self.bytes()[i * PAGE..(i + 1) * PAGE]
    }

    /// The page of an index, to be written.
    pub fn page_mut(&mut self, i: usize) -> &mut [u8] {
        &mut self.bytes_mut()[i * PAGE..(i + 1) * PAGE]
    }
}

/// Zeroed memory for values that are changed through `&`: a mapping, whose untouched pages take nothing, or less than a page from
/// the allocator.
#[derive(Debug)]
pub struct Zeroed(Kind);

#[derive(Debug)]
enum Kind {
    Mapped(Mapping),
    Small { start: NonNull<u8>, layout: Layout },
}

// SAFETY: as of a mapping: a range of addresses that hands out raw pointers only.
unsafe impl Send for Zeroed {}
// SAFETY: as above.
unsafe impl Sync for Zeroed {}

impl Zeroed {
    /// `len` bytes at a multiple of `align`, which is at most a page; some more if they are mapped.
    ///
    /// # Errors
    /// Address space.
    pub fn new(len: usize, align: usize) -> io::Result<Self> {
        if len == 0 || len >= PAGE {
            let mapped = Mapping::anonymous(len.max(1).next_multiple_of(PAGE))?;
            return Ok(Self(Kind::Mapped(mapped)));
        }
        let layout = Layout::from_size_align(len, align).map_err(|_| io::Errno::INVAL)?;
        // SAFETY: not of size 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::Errno::NOMEM)?;
        Ok(Self(Kind::Small { start, layout }))
    }

    /// First byte, valid as long as self.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        match &self.0 {
            Kind::Mapped(m) => m.ptr(),
            Kind::Small { start, .. } => start.as_ptr(),
        }
    }

    /// Bytes.
    #[inline]
    pub fn size(&self) -> usize {
        match &self.0 {
            Kind::Mapped(m) => m.len(),
            Kind::Small { layout, .. } => layout.size(),
        }
    }

    /// It takes memory page by page, where it is used.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Kind::Mapped(_))
    }
}

impl Drop for Zeroed {
    fn drop(&mut self) {
        if let Kind::Small { start, layout } = self.0 {
            // SAFETY: from `alloc_zeroed` with this layout, and nobody can name it any more.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

/// Types for which all-zero bytes are a value and that are changed through `&`.
///
/// # Safety
/// Zeroed memory must be a valid value of the type, and it must need no drop.
pub unsafe trait ZeroedAtomic: Sync {}
// SAFETY: atomics have the representation of their integer.
unsafe impl ZeroedAtomic for AtomicU8 {}
// SAFETY: as above.
unsafe impl ZeroedAtomic for AtomicU32 {}
// SAFETY: as above.
unsafe impl ZeroedAtomic for AtomicU64 {}

/// A table of zeroed atomics whose untouched parts take no memory.
#[derive(Debug)]
pub struct Table<T> {
    map: Mapping,
    len: usize,
    of: PhantomData<T>,
}

impl<T: ZeroedAtomic> Table<T> {
    /// A table of `len` zeroes.
    pub fn new(len: usize) -> io::Result<Self> {
        let bytes = (len.max(1) * size_of::<T>()).next_multiple_of(PAGE);
        Ok(Self {
            map: Mapping::anonymous(bytes)?,
            len,
            of: PhantomData,
        })
    }
}

impl<T: ZeroedAtomic> std::ops::Deref for Table<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping is page-aligned, zeroed, holds at least `len` values of a type for
        // which zeroes are valid, and is only ever used as such.
        unsafe { std::slice::from_raw_parts(self.map.ptr().cast(), self.len) }
    }
}
