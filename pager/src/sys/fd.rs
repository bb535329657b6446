//! Descriptors that the pager keeps: out of the program's way, and looked at before they are used.
//!
//! Programs close descriptors that they do not know: daemons `3..1024`, or up to their limit. So those
//! of the pager lie at and above the soft limit (`RLIMIT_NOFILE`) where the hard limit allows it: the
//! program cannot get such numbers itself, and they do not count against those it can get. The soft
//! limit is raised for the one call that this takes, and put back. Where there is no room above, they
//! lie close below it.
//!
//! Closing those too takes memory away that the program uses. That cannot be mended, and must
//! not end in zeroes, or in a file of the program's that has got the number: before a descriptor is
//! used, it is compared with what it was, and the process ends if it differs. An open file that is the
//! pager's alone, and used by offsets only, is recognized by its position, which is drawn at random and
//! which the kernel tells in half of the time that device and inode take.

use super::again::patiently;
use super::fork::between_forks;
use crate::sys::exit::end;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{seek, statx, AtFlags, SeekFrom, StatxFlags};
use rustix::io::{self, fcntl_dupfd_cloexec};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// The least first number, where the limit allows it: daemons close those below, and `select` takes no
/// others.
const LEAST: u64 = 1024;
/// The highest first number. The kernel's table of descriptors is as long as the highest of them needs
/// (to the next power of two, 8 bytes each), and is copied by fork.
const MOST: u64 = 16384 - 2 * BELOW;
/// Numbers left to the pager below a limit that cannot be exceeded: at most this many, or a quarter.
const BELOW: u64 = 256;

/// From where on descriptors are put, and the soft limit that it takes.
fn place(soft: u64, hard: u64) -> (u64, u64) {
    if soft <= MOST && hard >= soft.max(LEAST) + BELOW {
        (soft.max(LEAST), hard)
    } else {
        let below = soft - BELOW.min(soft / 4);
        (below.min(MOST), soft)
    }
}

/// Moves a descriptor to a high number; it stays where it is if none is free.
pub fn high(fd: OwnedFd) -> OwnedFd {
    // The limit is the process's: one change at a time. A child would keep what another thread has raised.
    let (moved, back) = between_forks(|| duplicate_high(&fd));
    debug_assert!(back.is_ok(), "{back:?}");
    moved.unwrap_or(fd)
}

/// The descriptor with a high number, and how lowering the limit again has ended, which is never refused.
fn duplicate_high(fd: &OwnedFd) -> (io::Result<OwnedFd>, io::Result<()>) {
    let limit = getrlimit(Resource::Nofile);
    let known = |l: Option<u64>| l.unwrap_or(u64::MAX);
    let (first, needed) = place(known(limit.current), known(limit.maximum));
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    let raise = Some(needed) > limit.current && setrlimit(Resource::Nofile, raised).is_ok();
    let moved = fcntl_dupfd_cloexec(fd, first as i32);
    let back = if raise {
        setrlimit(Resource::Nofile, limit)
    } else {
        Ok(())
    };
    (moved, back)
}

/// What a descriptor names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    dev: (u32, u32),
    ino: u64,
}

impl Identity {
    /// What it names now.
    ///
    /// # Errors
    /// It is closed.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        // What the kernel knows is enough: no server is asked.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let s = patiently(|| statx(fd, c"", flags, StatxFlags::INO))?;
        Ok(Self {
            dev: (s.stx_dev_major, s.stx_dev_minor),
            ino: s.stx_ino,
        })
    }
}

/// A descriptor (or what owns one) with a high number that is closed on drop, if it still is what it
/// was.
#[derive(Debug)]
pub struct Kept<T: AsFd = OwnedFd> {
    fd: ManuallyDrop<T>,
    identity: Identity,
    /// The position of the open file, if it has been drawn.
    position: Option<u64>,
}

/// How many positions there are to draw from. Files of ext4 with blocks of 4 KiB can be four times as long.
const POSITIONS: u64 = 1 << 42;

impl<T: AsFd + From<OwnedFd> + Into<OwnedFd>> Kept<T> {
    /// Moves a descriptor up.
    ///
    /// # Errors
    /// The kernel does not say what it is.
    pub fn new(fd: T) -> io::Result<Self> {
        let fd = high(fd.into());
        Ok(Self {
            identity: Identity::of(fd.as_fd())?,
            fd: ManuallyDrop::new(fd.into()),
            position: None,
        })
    }

    /// As [`Self::new`], of an open file that nobody else has and whose position nobody uses: looking at it
    /// takes half of the time.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_alone(fd: T) -> io::Result<Self> {
        let mut kept = Self::new(fd)?;
        let mut drawn = [0; 8];
        if getrandom::fill(&mut drawn).is_ok() {
            // Not a small number, as those of files that are read in order.
            let position = POSITIONS + u64::from_ne_bytes(drawn) % POSITIONS;
            // Refused where files cannot be that long: then device and inode have to do.
            kept.position = seek(kept.as_fd(), SeekFrom::Start(position)).ok();
        }
        Ok(kept)
    }
}

impl<T: AsFd> Kept<T> {
    /// True if the number still means what it meant.
    pub fn is_ours(&self) -> bool {
        let here = |position| seek(self.fd.as_fd(), SeekFrom::Current(0)) == Ok(position);
        self.position.is_some_and(here) || Identity::of(self.fd.as_fd()) == Ok(self.identity)
    }

    /// Ends the process if the descriptor has been closed, or is something else by now. About 0.2 us with a
    /// drawn position, 0.5 us without.
    pub fn check(&self) {
        if !self.is_ours() {
            let fd = self.as_fd().as_raw_fd();
            match Identity::of(self.fd.as_fd()) {
                // The first look has failed for another reason.
                Ok(now) if now == self.identity => {}
                Ok(_) | Err(io::Errno::BADF) => lost(fd),
                // It may be the pager's, or not.
                Err(e) => end(&format!(
                    "the kernel does not tell whether descriptor {fd} still is the pager's: {e}"
                )),
            }
        }
    }
}

impl<T: AsFd> AsFd for Kept<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// To be used after [`Kept::check`].
impl<T: AsFd> Deref for Kept<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.fd
    }
}

impl<T: AsFd> Drop for Kept<T> {
    fn drop(&mut self) {
        // What is there now may be the program's.
        if self.is_ours() {
            // SAFETY: not used after this, because the value is going away.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

/// The end of the process: memory or files that the program relies on are out of reach.
fn lost(fd: i32) -> ! {
    end(&format!(
        "descriptor {fd} of the pager has been closed or replaced by the program (as closerange and \
         closefrom do), and with it memory and files in use; close only descriptors that the program \
         has opened, or make the pool afterwards"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{memfd_create, MemfdFlags};

    fn file() -> OwnedFd {
        memfd_create("coldset-test", MemfdFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn numbers_lie_where_the_program_has_none() {
        // The usual limits of a shell, a service, a container, and those that leave no choice.
        assert_eq!(place(1024, 524_288), (1024, 524_288));
        assert_eq!(place(1024, 4096), (1024, 4096));
        assert_eq!(place(256, 4096), (1024, 4096));
        assert_eq!(place(65536, 524_288), (MOST, 65536));
        assert_eq!(place(1_048_576, 1_048_576), (MOST, 1_048_576));
        assert_eq!(place(20_000, 20_000), (MOST, 20_000));
        assert_eq!(place(4096, 4096), (3840, 4096));
        assert_eq!(place(1024, 1024), (768, 1024));
        assert_eq!(place(64, 64), (48, 64));
        assert_eq!(place(u64::MAX, u64::MAX), (MOST, u64::MAX));
        assert_eq!(place(0, 0), (0, 0));
    }

    #[test]
    fn a_descriptor_goes_up_and_the_limit_stays() {
        let before = getrlimit(Resource::Nofile);
        let fd = high(file());
        assert_eq!(getrlimit(Resource::Nofile), before);
        let (first, _) = place(
            before.current.unwrap_or(u64::MAX),
            before.maximum.unwrap_or(u64::MAX),
        );
        assert!(fd.as_raw_fd() as u64 >= first, "{fd:?}");
    }

    #[test]
    fn another_file_under_the_number_is_noticed_and_left_alone() {
        for alone in [false, true] {
            noticed_and_left_alone(match alone {
                true => Kept::new_alone(file()).unwrap(),
                false => Kept::new(file()).unwrap(),
            });
        }
    }

    /// One that somebody has moved, which nobody should, still is what it was.
    #[test]
    fn a_position_is_drawn_and_is_not_all_that_counts() {
        let [a, b] = [0, 1].map(|_| Kept::new_alone(file()).unwrap());
        assert!(a.position.is_some() && a.position != b.position);
        assert!(a.is_ours());
        seek(a.as_fd(), SeekFrom::Start(0)).unwrap();
        assert!(a.is_ours());
    }

    fn noticed_and_left_alone(kept: Kept) {
        assert!(kept.is_ours());
        let theirs = file();
        let number = kept.as_fd().as_raw_fd();
        // SAFETY: what the test replaces is its own.
        unsafe { assert_eq!(libc::dup2(theirs.as_raw_fd(), number), number) };
        assert!(!kept.is_ours());
        drop(kept);
        // SAFETY: as above.
        unsafe { assert_eq!(libc::close(number), 0, "it had been closed") };
    }
}
