//! userfaultfd: misses become SIGBUS in the faulting thread, or messages to threads of ours; first
//! writes are noted by the kernel.
//!
//! Constants are spelled out because headers of distributions lag behind kernels.

use super::again::again;
use super::fd::Kept;
use super::memory::Mapping;
use super::{last_error, PAGE};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{open, Mode, OFlags};
use rustix::io;

const API: u64 = 0xAA;
const USER_MODE_ONLY: libc::c_int = 1;

const UFFDIO_API: u64 = 0xC018_AA3F;
const UFFDIO_REGISTER: u64 = 0xC020_AA00;
const UFFDIO_WAKE: u64 = 0x8010_AA02;
const UFFDIO_COPY: u64 = 0xC028_AA03;
const UFFDIO_WRITEPROTECT: u64 = 0xC018_AA06;
const UFFDIO_POISON: u64 = 0xC020_AA08;
/// Of `/dev/userfaultfd`.
const USERFAULTFD_IOC_NEW: u64 = 0xAA00;

const EVENT_PAGEFAULT: u8 = 0x12;
const PAGEFAULT_WRITE: u64 = 1;

const REGISTER_MISSING: u64 = 1;
const REGISTER_WP: u64 = 2;
const COPY_WP: u64 = 2;

/// Features, by bit.
pub mod feature {
    /// A mapping that is moved stays registered, and whoever moved it waits until a message about it has been read.
    pub const EVENT_REMAP: u64 = 1 << 2;
    /// Misses in files in memory.
    pub const MISSING_SHMEM: u64 = 1 << 5;
    /// SIGBUS instead of messages.
    pub const SIGBUS: u64 = 1 << 7;
    /// Write protection of files in memory.
    pub const WP_SHMEM: u64 = 1 << 12;
    /// Write protection of what is not there yet.
    pub const WP_UNPOPULATED: u64 = 1 << 13;
    /// Pages can be made to fail.
    pub const POISON: u64 = 1 << 14;
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

#[repr(C)]
struct RangeArg {
    start: u64,
    len: u64,
}

#[repr(C)]
struct PoisonArg {
    start: u64,
    len: u64,
    mode: u64,
    updated: i64,
}

#[repr(C)]
struct ProtectArg {
    start: u64,
    len: u64,
    mode: u64,
}

/// A message of the kernel's; of its variants only that of a page fault is looked at.
#[repr(C)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    more: u64,
}

/// A miss as a message tells it. The thread that missed sleeps until it is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissMessage {
    /// Faulting address.
    pub addr: usize,
    /// It was a store.
    pub write: bool,
}

/// How a copy ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// All pages are there.
    All,
    /// So many bytes were copied, then a page was there already or the address space was changing.
    Some(usize),
}

/// A userfaultfd with asynchronous write protection: in SIGBUS, user-mode-only form, or with
/// messages, also for misses of system calls.
#[derive(Debug)]
pub struct Userfaultfd {
    fd: Kept,
    features: u64,
}

impl Userfaultfd {
    fn open() -> io::Result<OwnedFd> {
        Self::open_with(USER_MODE_ONLY)
    }

    fn open_with(flags: libc::c_int) -> io::Result<OwnedFd> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | flags;
        // SAFETY: the call takes flags only.
        again(|| own(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) }))
    }

    /// For misses of system calls too: root, CAP_SYS_PTRACE, a sysctl, or access to the device.
    fn open_privileged() -> io::Result<OwnedFd> {
        match Self::open_with(0) {
            Err(refused @ io::Errno::PERM) => {
                let flags = OFlags::RDWR | OFlags::CLOEXEC;
                let Ok(device) = open("/dev/userfaultfd", flags, Mode::empty()) else {
                    return Err(refused);
                };
                let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
                // SAFETY: this request takes flags by value.
                let fd =
                    unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW as _, flags) };
                own(fd.into())
            }
            other => other,
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
        again(|| ioctl(&fd, UFFDIO_API, &mut arg))?;
        Ok(arg.features)
    }

    /// A descriptor with these features.
    pub fn new(features: u64) -> io::Result<Self> {
        Self::with_api(Self::open()?, features)
    }

    fn with_api(fd: OwnedFd, features: u64) -> io::Result<Self> {
        let mut arg = ApiArg {
            api: API,
            features,
            ioctls: 0,
        };
        again(|| ioctl(&fd, UFFDIO_API, &mut arg))?;
        Ok(Self {
            fd: Kept::new(fd)?,
            features,
        })
    }

    /// What a call says. One that no userfaultfd says ends the process if this is none any more.
    fn said(&self, done: io::Result<()>) -> io::Result<()> {
        if matches!(
            done,
            Err(io::Errno::BADF | io::Errno::NOTTY | io::Errno::INVAL)
        ) {
            self.fd.check();
        }
        done
    }

    /// Ends the process if the descriptor is not the pager's any more.
    pub fn check(&self) {
        self.fd.check();
    }

    /// Do mappings stay registered when they are moved?
    pub fn follows_moves(&self) -> bool {
        self.features & feature::EVENT_REMAP != 0
    }

    /// All features the pager needs, and misses as signals; mappings stay registered when they are moved. Somebody has to
    /// [read the messages](Self::next_message) about that.
    pub fn with_signals() -> io::Result<Self> {
        let needed: u64 = feature::NEEDED.iter().map(|f| f.0).sum();
        Self::new(needed | feature::EVENT_REMAP)
    }

    /// As [`Self::with_signals`], with messages instead of SIGBUS, and for misses of the kernel's too.
    pub fn with_messages() -> io::Result<Self> {
        let needed: u64 = feature::NEEDED.iter().map(|f| f.0).sum();
        let features = needed & !feature::SIGBUS | feature::POISON;
        Self::with_api(Self::open_privileged()?, features)
    }

    /// The next message, if there is one and it is of a miss.
    pub fn next_message(&self) -> io::Result<Option<MissMessage>> {
        let mut bytes = [0u8; size_of::<Message>()];
        match io::read(&self.fd, &mut bytes) {
            Ok(n) if n == bytes.len() => {}
            Ok(_) => return Err(io::Errno::IO),
            Err(io::Errno::AGAIN | io::Errno::INTR) => return Ok(None),
            Err(e) => return Err(e),
        }
        // SAFETY: the kernel has written a whole message; every bit pattern is one.
        let m = unsafe { bytes.as_ptr().cast::<Message>().read_unaligned() };
        Ok((m.event == EVENT_PAGEFAULT).then_some(MissMessage {
            addr: m.address as usize,
            write: m.flags & PAGEFAULT_WRITE != 0,
        }))
    }

    /// Threads that sleep for a page of the mapping look again.
    pub fn wake(&self, map: &Mapping, offset: usize) -> io::Result<()> {
        let mut arg = RangeArg {
            start: (map.addr() + offset) as u64,
            len: PAGE as u64,
        };
        self.said(again(|| ioctl(&self.fd, UFFDIO_WAKE, &mut arg)))
    }

    /// An access to this page, which must be a hole, is SIGBUS or EFAULT until its entry is zapped.
    /// Wakes who sleeps for it.
    pub fn poison(&self, map: &Mapping, offset: usize) -> io::Result<()> {
        assert!(offset + PAGE <= map.len(), "poison beyond the mapping");
        let mut arg = PoisonArg {
            start: (map.addr() + offset) as u64,
            len: PAGE as u64,
            mode: 0,
            updated: 0,
        };
        self.said(again(|| ioctl(&self.fd, UFFDIO_POISON, &mut arg)))
    }

    /// Takes write protection away from a range, also the marks of it that pages have left which are not
    /// there any more: all of the range counts as written.
    pub fn unprotect(&self, map: &Mapping, offset: usize, len: usize) -> io::Result<()> {
        assert!(offset + len <= map.len(), "beyond the mapping");
        let mut arg = ProtectArg {
            start: (map.addr() + offset) as u64,
            len: len as u64,
            mode: 0,
        };
        self.said(again(|| ioctl(&self.fd, UFFDIO_WRITEPROTECT, &mut arg)))
    }

    /// Misses and first writes in the mapping are handled from now on.
    pub fn register(&self, map: &Mapping) -> io::Result<()> {
        let mut arg = RegisterArg {
            start: map.addr() as u64,
            len: map.len() as u64,
            mode: REGISTER_MISSING | REGISTER_WP,
            ioctls: 0,
        };
        self.said(again(|| ioctl(&self.fd, UFFDIO_REGISTER, &mut arg)))
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
        match self.said(ioctl(&self.fd, UFFDIO_COPY, &mut arg)) {
            Ok(()) => Ok(Copied::All),
            Err(io::Errno::AGAIN | io::Errno::INTR) => Ok(Copied::Some(arg.copy.max(0) as usize)),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for Userfaultfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The descriptor a call has returned, or its error.
fn own(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: a new descriptor, which nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn ioctl<T>(fd: &impl AsFd, request: u64, arg: &mut T) -> io::Result<()> {
    // SAFETY: `arg` is the structure that belongs to the request, laid out as the kernel has it, and
    // lives through the call. UFFDIO_COPY and UFFDIO_POISON change only holes of a registered mapping
    // that the caller holds by reference; the former reads from a slice the caller holds.
    let r = unsafe {
        libc::ioctl(
            fd.as_fd().as_raw_fd(),
            request as _,
            std::ptr::from_mut(arg),
        )
    };
    if r < 0 {
        Err(last_error())
    } else {
        Ok(())
    }
}
