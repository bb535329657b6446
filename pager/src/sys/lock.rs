//! Locks of byte ranges that belong to an open file (`F_OFD_SETLK`), not to a process: two descriptors
//! of one process exclude each other too, and closing a third takes nothing away.

use rustix::fd::{AsFd, AsRawFd};
use std::io;
use std::ops::Range;

/// What a lock excludes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Exclusive locks.
    Shared,
    /// All locks.
    Exclusive,
}

/// What an attempt came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// The range is locked.
    Yes,
    /// Somebody else has a lock on a part of it; of an old lock of a process, which.
    No(Option<u32>),
    /// The file system, or the kernel, has no such locks.
    Unsupported,
}

fn flock(kind: i32, bytes: &Range<i64>) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: bytes.start,
        l_len: bytes.end - bytes.start,
        l_pid: 0,
    }
}

fn call(fd: &impl AsFd, command: i32, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as it is borrowed; the structure is one of this call's own,
    // which the kernel reads and may fill.
    match unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), command, lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Tries to lock bytes of a file, which need not exist.
///
/// # Errors
/// A descriptor that may not have such a lock (exclusive ones must be writable).
pub fn try_lock(fd: &impl AsFd, kind: Kind, bytes: &Range<i64>) -> io::Result<Locked> {
    let number = match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Exclusive => libc::F_WRLCK,
    };
    let done = call(fd, libc::F_OFD_SETLK, &mut flock(number, bytes));
    let Err(e) = done else { return Ok(Locked::Yes) };
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => {
            let mut other = flock(number, bytes);
            let asked = call(fd, libc::F_OFD_GETLK, &mut other);
            // Locks of open files carry -1; one that has been released meanwhile, nothing.
            let known =
                asked.is_ok() && i32::from(other.l_type) != libc::F_UNLCK && other.l_pid > 0;
            Ok(Locked::No(known.then_some(other.l_pid as u32)))
        }
        Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::EOVERFLOW) => {
            Ok(Locked::Unsupported)
        }
        _ => Err(e),
    }
}

/// Gives a lock back.
///
/// # Errors
/// Those of the file system; closing the file gives it back, too.
pub fn unlock(fd: &impl AsFd, bytes: &Range<i64>) -> io::Result<()> {
    call(fd, libc::F_OFD_SETLK, &mut flock(libc::F_UNLCK, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_belong_to_the_open_file() {
        let path = std::env::temp_dir().join(format!("coldset-lock-{}", std::process::id()));
        let open = || {
            let mut o = std::fs::File::options();
            let made = o.read(true).write(true).create(true).truncate(false);
            made.open(&path).unwrap()
        };
        let (a, b) = (open(), open());
        std::fs::remove_file(&path).unwrap();
        let bytes = i64::MAX - 2..i64::MAX;
        match try_lock(&a, Kind::Exclusive, &bytes).unwrap() {
            Locked::Unsupported => return println!("skipped: no such locks here"),
            got => assert_eq!(got, Locked::Yes),
        }
        assert_eq!(
            try_lock(&b, Kind::Shared, &bytes).unwrap(),
            Locked::No(None)
        );
        assert_eq!(try_lock(&b, Kind::Shared, &(0..9)).unwrap(), Locked::Yes);
        unlock(&a, &bytes).unwrap();
        assert_eq!(try_lock(&b, Kind::Shared, &bytes).unwrap(), Locked::Yes);
        assert_eq!(try_lock(&a, Kind::Shared, &bytes).unwrap(), Locked::Yes);
        drop(b);
        assert_eq!(try_lock(&a, Kind::Exclusive, &bytes).unwrap(), Locked::Yes);
        // A lock of the old kind tells whose it is, and is in the way of its own process.
        let old = open();
        std::fs::remove_file(&path).unwrap();
        call(&old, libc::F_SETLK, &mut flock(libc::F_WRLCK, &(0..0))).unwrap();
        let got = try_lock(&old, Kind::Shared, &bytes).unwrap();
        assert_eq!(got, Locked::No(Some(std::process::id())));
    }
}
