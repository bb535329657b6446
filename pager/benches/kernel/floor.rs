//! The least that a pager outside of the kernel has to do for a miss, whatever it knows and decides.
//!
//! Private memory, a userfaultfd and SIGBUS: the handler reads what is missing, puts it in with `UFFDIO_COPY`, and gives up
//! what came first, in batches, by one call each. No page is looked at for its use, no store is expected, nobody
//! pins, syncs or shares. What this costs more than the kernel's own miss, a pager has to save by missing less.

use crate::arm::Result;
use crate::work::Work;
use coldset_pager::PAGE_SIZE;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// Units that are given up at once, if a unit is a page.
const BATCH: usize = 64;
/// Units that come in while others are on their way out.
const SLACK: usize = 4096;

// The interface, as the header for programs has it.
const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xAA;
const UFFD_FEATURE_SIGBUS: u64 = 1 << 7;
const UFFDIO_API: u64 = 0xC018_AA3F;
const UFFDIO_REGISTER: u64 = 0xC020_AA00;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
const UFFDIO_COPY: u64 = 0xC028_AA03;

/// Where contents come from.
pub enum Source {
    /// A file, read directly.
    File(File),
    /// Pages of memory, compressed with LZ4, and where each begins.
    Packed(Vec<u8>, Vec<usize>),
}

impl Source {
    /// A file, around the page cache.
    pub fn file(path: &Path) -> Result<Self> {
        let mut how = File::options();
        how.read(true).custom_flags(libc::O_DIRECT);
        Ok(Self::File(how.open(path)?))
    }

    /// Memory of `bytes` bytes that `fill` fills.
    pub fn packed(bytes: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        let mut plain = vec![0; bytes];
        fill(&mut plain);
        let (mut all, mut starts) = (Vec::new(), vec![0]);
        for page in plain.chunks(PAGE_SIZE) {
            all.extend(lz4_flex::block::compress(page));
            starts.push(all.len());
        }
        Self::Packed(all, starts)
    }

    /// Contents of the page `first` and of those behind it.
    fn read(&self, first: usize, to: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(f) => f.read_exact_at(to, (first * PAGE_SIZE) as u64),
            Self::Packed(all, starts) => {
                for (i, to) in to.chunks_mut(PAGE_SIZE).enumerate() {
                    let packed = &all[starts[first + i]..starts[first + i + 1]];
                    lz4_flex::block::decompress_into(packed, to).map_err(io::Error::other)?;
                }
                Ok(())
            }
        }
    }
}

/// Memory whose misses the handler serves. It stays until the process ends.
pub struct Floor {
    source: Source,
    base: usize,
    pages: usize,
    /// Pages that come and go together.
    unit: usize,
    budget: usize,
    uffd: OwnedFd,
    pidfd: OwnedFd,
    /// Units in memory, by the order in which they came.
    order: Vec<AtomicU32>,
    came: AtomicUsize,
    left: AtomicUsize,
    leaving: AtomicBool,
    misses: AtomicU64,
}

/// The one of this process.
static THE: AtomicPtr<Floor> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// Where a thread reads to.
    static BOUNCE: Cell<*mut u8> = const { Cell::new(ptr::null_mut()) };
}

impl Floor {
    /// Memory for the work, of which `unit` pages come and go together.
    pub fn new(source: Source, work: &Work, unit: usize) -> Result<&'static Self> {
        let uffd = open()?;
        let len = work.pages * PAGE_SIZE;
        let base = private(len)? as usize;
        let mut register = [base as u64, len as u64, UFFDIO_REGISTER_MODE_MISSING, 0];
        // SAFETY: the structure of this call is four words; memory of our own.
        check(unsafe { libc::ioctl(uffd.as_raw_fd(), UFFDIO_REGISTER as _, &mut register) })?;
        // SAFETY: a call without memory.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
        check(pidfd as i32)?;
        let budget = work.budget / unit;
        let this = Box::leak(Box::new(Self {
            source,
            base,
            pages: work.pages,
            unit,
            budget,
            uffd,
            // SAFETY: a descriptor that was opened a moment ago.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd as i32) },
            order: (0..budget + SLACK).map(|_| AtomicU32::new(0)).collect(),
            came: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            misses: AtomicU64::new(0),
        }));
        THE.store(this, Release);
        // SAFETY: a handler of this signal's kind, which touches what is leaked above.
        unsafe {
            let mut how = std::mem::zeroed::<libc::sigaction>();
            how.sa_sigaction = on_miss as *const () as usize;
            how.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            check(libc::sigaction(libc::SIGBUS, &how, ptr::null_mut()))?;
        }
        Ok(this)
    }

    /// Where it lies.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Misses and units given up so far.
    pub fn counts(&self) -> (u64, u64) {
        let left = self.left.load(Relaxed) * self.unit;
        (self.misses.load(Relaxed), left as u64)
    }

    /// What memory holds is what the source holds: a floor that cheats is none.
    pub fn check(&self) -> Result<()> {
        let mut page = Page([0; PAGE_SIZE]);
        for p in (0..self.pages).step_by((self.pages / 64).max(1)) {
            self.source.read(p, &mut page.0)?;
            let at = (self.base + p * PAGE_SIZE) as *const [u8; PAGE_SIZE];
            // SAFETY: inside the mapping, which is there until the process ends; nobody stores to it.
            if unsafe { at.read_volatile() } != page.0 {
                return Err(format!("page {p} of the floor is not what it should be").into());
            }
        }
        Ok(())
    }

    fn miss(&self, page: usize) -> io::Result<()> {
        self.misses.fetch_add(1, Relaxed);
        if self.came.load(Relaxed) - self.left.load(Relaxed) >= self.budget {
            self.give_up()?;
        }
        let first = page / self.unit * self.unit;
        let bytes = self.unit.min(self.pages - first) * PAGE_SIZE;
        let bounce = self.bounce()?;
        // SAFETY: the thread's own buffer, of a unit's length.
        self.source.read(first, unsafe {
            std::slice::from_raw_parts_mut(bounce, bytes)
        })?;
        let to = self.base + first * PAGE_SIZE;
        let mut copy = [to as u64, bounce as u64, bytes as u64, 0, 0];
        // SAFETY: the structure of this call is five words; from our buffer to our mapping.
        match check(unsafe { libc::ioctl(self.uffd.as_raw_fd(), UFFDIO_COPY as _, &mut copy) }) {
            Ok(()) => {
                let at = self.came.fetch_add(1, Relaxed);
                self.order[at % self.order.len()].store((first / self.unit) as u32, Relaxed);
                Ok(())
            }
            // Another thread was first.
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Gives up what came first, if no other thread does.
    fn give_up(&self) -> io::Result<()> {
        if self.leaving.swap(true, Acquire) {
            return Ok(());
        }
        let batch = if self.unit == 1 { BATCH } else { 1 };
        let from = self.left.load(Relaxed);
        let mut units = [0; BATCH];
        for (i, u) in units[..batch].iter_mut().enumerate() {
            *u = self.order[(from + i) % self.order.len()].load(Relaxed);
        }
        units[..batch].sort_unstable();
        let ranges = units.map(|u| libc::iovec {
            iov_base: (self.base + u as usize * self.unit * PAGE_SIZE) as *mut libc::c_void,
            iov_len: self.unit.min(self.pages - u as usize * self.unit) * PAGE_SIZE,
        });
        // SAFETY: ranges of our own mapping, whose contents are where they came from.
        let done = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                self.pidfd.as_raw_fd(),
                ranges.as_ptr(),
                batch,
                libc::MADV_DONTNEED,
                0,
            )
        };
        if done < 0 {
            // A kernel before 6.13.
            for r in &ranges[..batch] {
                // SAFETY: as above.
                check(unsafe { libc::madvise(r.iov_base, r.iov_len, libc::MADV_DONTNEED) })?;
            }
        }
        self.left.fetch_add(batch, Relaxed);
        self.leaving.store(false, Release);
        Ok(())
    }

    fn bounce(&self) -> io::Result<*mut u8> {
        let mut at = BOUNCE.get();
        if at.is_null() {
            at = private(self.unit * PAGE_SIZE)?;
            BOUNCE.set(at);
        }
        Ok(at)
    }
}

/// A page for direct reads.
#[repr(align(4096))]
struct Page([u8; PAGE_SIZE]);

extern "C" fn on_miss(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: set before any memory is registered; the kernel gives a valid structure.
    let (floor, at) = unsafe { (&*THE.load(Acquire), (*info).si_addr() as usize) };
    let done = match at.checked_sub(floor.base).map(|b| b / PAGE_SIZE) {
        Some(page) if page < floor.pages => floor.miss(page),
        _ => Err(io::Error::other("SIGBUS elsewhere")),
    };
    if let Err(e) = done {
        eprintln!("bench: the floor: {e}");
        std::process::abort();
    }
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: a call without memory; the descriptor is checked before it is owned.
    let uffd = unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY);
        check(fd as i32)?;
        OwnedFd::from_raw_fd(fd as i32)
    };
    let mut api = [UFFD_API, UFFD_FEATURE_SIGBUS, 0];
    // SAFETY: the structure of this call is three words.
    check(unsafe { libc::ioctl(uffd.as_raw_fd(), UFFDIO_API as _, &mut api) })?;
    Ok(uffd)
}

/// New private memory, of single pages.
fn private(len: usize) -> io::Result<*mut u8> {
    let (prot, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, prot, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping made above.
    unsafe { libc::madvise(at, len, libc::MADV_NOHUGEPAGE) };
    Ok(at.cast())
}

fn check(done: i32) -> io::Result<()> {
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
