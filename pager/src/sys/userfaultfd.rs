//! userfaultfd: misses become SIGBUS in the faulting thread, first writes are noted by the kernel.
//!
//! Constants are spelled out because headers of distributions lag behind kernels.

use super::memory::Mapping;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io;

const API: u64 = 0xAA;
const USER_MODE_ONLY: libc::c_int = 1;

const UFFDIO_API: u64 = 0xC018_AA3F;
const UFFDIO_REGISTER: u64 = 0xC020_AA00;
const UFFDIO_COPY: u64 = 0xC028_AA03;

const REGISTER_MISSING: u64 = 1;
const REGISTER_WP: u64 = 2;
const COPY_WP: u64 = 2;

/// Features, by bit.
pub mod feature {
    /// Misses in files in memory.
    pub const MISSING_SHMEM: u64 = 1 << 5;
    /// SIGBUS instead of messages.
    pub const SIGBUS: u64 = 1 << 7;
    /// Write protection of files in memory.
    pub const WP_SHMEM: u64 = 1 << 12;
    /// Write protection of what is not there yet.
    pub const WP_UNPOPULATED: u64 = 1 << 13;
    /// Write faults on protected pages are resolved by the kernel, which notes them.
    pub const WP_ASYNC: u64 = 1 << 15;

    /// What the pager needs, with the names of the kernel's documentation.
    pub const NEEDED: [(u64, &str); 5] = [
        (MISSING_SHMEM, "UFFD_FEATURE_MISSING_SHMEM"),
        (SIGBUS, "UFFD_FEATURE_SIGBUS"),
        (WP_SHMEM, "UFFD_FEATURE_WP_HUGETLBFS_SHMEM"),
        (WP_UNPOPULATED, "UFFD_FEATURE_WP_UNPOPULATED"),
        (WP_ASYNC, "UFFD_FEATURE_WP_ASYNC"),
    ];
}

#[repr(C)]
struct ApiArg {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct RegisterArg {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct CopyArg {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    copy: i64,
}

/// How a copy ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// All pages are there.
    All,
    /// So many bytes were copied, then a page was there already or the address space was changing.
    Some(usize),
}

/// A userfaultfd in SIGBUS, user-mode-only, asynchronous write-protect form.
#[derive(Debug)]
pub struct Userfaultfd(OwnedFd);

impl Userfaultfd {
    fn open() -> io::Result<OwnedFd> {
        // SAFETY: the call takes flags only and returns a new descriptor, which we own.
        unsafe {
            let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
            let fd = libc::syscall(libc::SYS_userfaultfd, flags);
            if fd < 0 {
                return Err(last());
            }
            Ok(OwnedFd::from_raw_fd(fd as i32))
        }
    }

    /// Features the kernel has.
    pub fn features() -> io::Result<u64> {
        let fd = Self::open()?;
        let mut arg = ApiArg {
            api: API,
            features: 0,
            ioctls: 0,
        };
        ioctl(&fd, UFFDIO_API, &mut arg)?;
        Ok(arg.features)
    }

    /// A descriptor with these features.
    pub fn new(features: u64) -> io::Result<Self> {
        let fd = Self::open()?;
        let mut arg = ApiArg {
            api: API,
            features,
            ioctls: 0,
        };
        ioctl(&fd, UFFDIO_API, &mut arg)?;
        Ok(Self(fd))
    }

    /// All features the pager needs.
    pub fn full() -> io::Result<Self> {
        Self::new(feature::NEEDED.iter().map(|f| f.0).sum())
    }

    /// Misses and first writes in the mapping are handled from now on.
    pub fn register(&self, map: &Mapping) -> io::Result<()> {
        let mut arg = RegisterArg {
            start: map.addr() as u64,
            len: map.len() as u64,
            mode: REGISTER_MISSING | REGISTER_WP,
            ioctls: 0,
        };
        ioctl(&self.0, UFFDIO_REGISTER, &mut arg)
    }

    /// Fills holes of the mapping, from byte `offset` on, with a copy of `src`, each page all at
    /// once. `protect`: the first write will be noted.
    pub fn copy(
        &self,
        map: &Mapping,
        offset: usize,
        src: &[u8],
        protect: bool,
    ) -> io::Result<Copied> {
        assert!(offset + src.len() <= map.len(), "copy beyond the mapping");
        let mut arg = CopyArg {
            dst: (map.addr() + offset) as u64,
            src: src.as_ptr() as u64,
            len: src.len() as u64,
            mode: if protect { COPY_WP } else { 0 },
            copy: 0,
        };
        match ioctl(&self.0, UFFDIO_COPY, &mut arg) {
            Ok(()) => Ok(Copied::All),
            Err(io::Errno::AGAIN) => Ok(Copied::Some(arg.copy.max(0) as usize)),
            Err(e) => Err(e),
        }
    }
}

fn ioctl<T>(fd: &OwnedFd, request: u64, arg: &mut T) -> io::Result<()> {
    // SAFETY: `arg` is the structure that belongs to the request, laid out as the kernel has it, and
    // lives through the call. UFFDIO_COPY writes only into holes of a registered mapping that the
    // caller holds by reference, and reads from a slice the caller holds.
    let r = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_mut(arg)) };
    if r < 0 {
        Err(last())
    } else {
        Ok(())
    }
}

fn last() -> io::Errno {
    let e = std::io::Error::last_os_error();
    io::Errno::from_io_error(&e).unwrap_or(io::Errno::IO)
}
