//! PAGEMAP_SCAN: which pages of a range are mapped, which have been written since armed.

use super::again::again;
use super::fd::Kept;
use super::memory::Mapping;
use super::{last_error, PAGE};
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{open, Mode, OFlags};
use rustix::io;

const PAGEMAP_SCAN: u64 = 0xC060_6610;
const WP_MATCHING: u64 = 1;
const CHECK_WPASYNC: u64 = 2;

/// Has been written since it was armed, or never was armed.
pub const WRITTEN: u64 = 1 << 1;
/// A page-table entry maps it: it was touched since the last zap.
pub const PRESENT: u64 = 1 << 3;

#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    anyof: u64,
    returned: u64,
}

/// A run of pages of the same categories.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Found {
    start: u64,
    end: u64,
    categories: u64,
}

/// What a scan looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// Mapped pages, with [`WRITTEN`] if they have been written.
    Present,
    /// Written pages, mapped or not. A page never armed counts.
    Written,
    /// As `Written`, and arms what it reports, atomically: a store is either before, and then in memory
    /// when the scan returns, or after, and then noted.
    WrittenAndArm,
}

/// A run of pages in a mapping, with the categories asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First page, from the start of the mapping.
    pub first: usize,
    /// Pages of the run.
    pub pages: usize,
    /// Bits of [`WRITTEN`] and [`PRESENT`].
    pub categories: u64,
}

/// The process's own page map.
#[derive(Debug)]
pub struct Pagemap(Kept);

/// Runs fetched by one call.
const RUNS: usize = 64;

impl Pagemap {
    /// Opens `/proc/self/pagemap`.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = open("/proc/self/pagemap", flags, Mode::empty())?;
        Kept::new_alone(fd).map(Self)
    }

    /// Ends the process if the descriptor is not the pager's any more.
    pub fn check(&self) {
        self.0.check();
    }

    /// Calls `each` for every run of pages of `first..first + pages` that a scan finds. EPERM says that
    /// something else is mapped there.
    pub fn scan(
        &self,
        map: &Mapping,
        what: Scan,
        first: usize,
        pages: usize,
        mut each: impl FnMut(Run),
    ) -> io::Result<()> {
        let (mask, returned, flags) = match what {
            Scan::Present => (PRESENT, PRESENT | WRITTEN, CHECK_WPASYNC),
            Scan::Written => (WRITTEN, WRITTEN, CHECK_WPASYNC),
            Scan::WrittenAndArm => (WRITTEN, WRITTEN, WP_MATCHING | CHECK_WPASYNC),
        };
        assert!(
            (first + pages) * PAGE <= map.len(),
            "scan beyond the mapping"
        );
        let mut found = [Found::default(); RUNS];
        let mut start = (map.addr() + first * PAGE) as u64;
        let end = (map.addr() + (first + pages) * PAGE) as u64;
        while start < end {
            let mut arg = ScanArg {
                size: size_of::<ScanArg>() as u64,
                flags,
                start,
                end,
                vec: found.as_mut_ptr() as u64,
                vec_len: RUNS as u64,
                mask,
                returned,
                ..ScanArg::default()
            };
            // SAFETY: the argument is laid out as the kernel has it; it points to RUNS records that
            // live through the call; the range lies in a mapping the caller holds.
            let scan = |arg: &mut ScanArg| match unsafe {
                libc::ioctl(
                    self.0.as_fd().as_raw_fd(),
                    PAGEMAP_SCAN as _,
                    std::ptr::from_mut(arg),
                )
            } {
                n if n < 0 => Err(last_error()),
                n => Ok(n),
            };
            let n = again(|| scan(&mut arg)).inspect_err(|&e| {
                // What the program has done to the range; a scan of what is no page map says others.
                if e != io::Errno::PERM {
                    self.check();
                }
            })?;
            for f in &found[..n as usize] {
                each(Run {
                    first: (f.start as usize - map.addr()) / PAGE,
                    pages: (f.end - f.start) as usize / PAGE,
                    categories: f.categories,
                });
            }
            if arg.walk_end <= start {
                break;
            }
            start = arg.walk_end;
        }
        Ok(())
    }
}
