//! How much of a file the kernel's page cache has (`cachestat`, Linux 6.5).

use super::last_error;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io;

/// The number of the call, the same on all machines.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Answer {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of a byte range that are in the page cache.
///
/// # Errors
/// A kernel without the call; a file system without a page cache.
pub fn cached(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
    let range = Range { offset, len };
    let mut answer = Answer::default();
    // SAFETY: both structures are laid out as the kernel has them and live through the call, which writes only the
    // second.
    let r = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut answer,
            0,
        )
    };
    match r {
        0 => Ok(answer.cache),
        _ => Err(last_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{memfd_create, MemfdFlags};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn pages_are_counted_in_their_range() {
        let mut file = File::from(memfd_create("coldset-test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(&[1; 5 * 4096]).unwrap();
        file.set_len(64 << 12).unwrap();
        let count = |from: u64, pages: u64| cached(file.as_fd(), from << 12, pages << 12);
        match count(0, 64) {
            Err(io::Errno::NOSYS) => println!("skipped: a kernel without cachestat"),
            all => {
                assert_eq!(all, Ok(5));
                assert_eq!(count(3, 61), Ok(2));
            }
        }
    }
}
