//! How much of a file the kernel's page cache has (`cachestat`, Linux 6.5), and how far the kernel reads ahead of who reads it.

use super::{last_error, PAGE};
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

/// Pages of a window of the kernel's read-ahead on the device of a file (`read_ahead_kb`); none if it does not say.
pub fn read_ahead_pages(file: BorrowedFd<'_>) -> Option<u64> {
    let device = rustix::fs::fstat(file).ok()?.st_dev;
    let device = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    // The last is the disk that a partition is of.
    let places = [
        format!("/sys/class/bdi/{device}/read_ahead_kb"),
        format!("/sys/dev/block/{device}/queue/read_ahead_kb"),
        format!("/sys/dev/block/{device}/../queue/read_ahead_kb"),
    ];
    let text = places
        .iter()
        .find_map(|p| std::fs::read_to_string(p).ok())?;
    let kib: u64 = text.trim().parse().ok()?;
    Some((kib << 10).div_ceil(PAGE as u64))
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
