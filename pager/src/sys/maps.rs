//! Which file is mapped at an address (`PROCMAP_QUERY`, Linux 6.11).

use super::fd::Kept;
use super::last_error;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{open, statx, AtFlags, Mode, OFlags, StatxFlags};
use rustix::io;

const PROCMAP_QUERY: u64 = 0xC068_6611;

#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    addr: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    name_size: u32,
    build_id_size: u32,
    name_addr: u64,
    build_id_addr: u64,
}

/// The mappings of this process.
#[derive(Debug)]
pub struct Maps(Kept<OwnedFd>);

impl Maps {
    /// # Errors
    /// No `/proc`, or a kernel that does not answer.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let maps = Self(Kept::new(open("/proc/self/maps", flags, Mode::empty())?)?);
        let here: fn() -> io::Result<Self> = Self::open;
        maps.at(here as usize)?;
        Ok(maps)
    }

    /// The mapping that an address lies in.
    fn at(&self, addr: usize) -> io::Result<Query> {
        self.0.check();
        let mut q = Query {
            size: size_of::<Query>() as u64,
            addr: addr as u64,
            ..Query::default()
        };
        // SAFETY: the structure that belongs to the request, laid out as the kernel has it; it lives
        // through the call, which writes nowhere else (no name and no build id are asked for).
        let r = unsafe { libc::ioctl(self.0.as_fd().as_raw_fd(), PROCMAP_QUERY as _, &raw mut q) };
        match r {
            0.. => Ok(q),
            _ => Err(last_error()),
        }
    }

    /// Is this file mapped in the range, from its byte `offset` on? By several mappings, if the program's own advice about a
    /// part has split one.
    pub fn shows(&self, addr: usize, len: usize, file: BorrowedFd<'_>, offset: u64) -> bool {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let Ok(s) = statx(file, c"", flags, StatxFlags::INO) else {
            return false;
        };
        let mut at = addr;
        while at < addr + len {
            let of_it = |q: &Query| {
                let here = offset + (at - addr) as u64;
                q.inode == s.stx_ino && q.offset + (at as u64 - q.start) == here
            };
            match self.at(at).ok().filter(of_it) {
                Some(q) => at = q.end as usize,
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memfd::Memfd;
    use crate::sys::memory::Mapping;
    use crate::sys::PAGE;
    use rustix::mm::{madvise, Advice};
    use std::sync::Arc;

    #[test]
    fn a_range_is_told_from_others() {
        let Ok(maps) = Maps::open() else {
            println!("skipped: the kernel does not say what is mapped (Linux 6.11)");
            return;
        };
        let file = Arc::new(Memfd::new().unwrap());
        let _first = file.extent(3).unwrap();
        let extent = Arc::new(file.extent(16).unwrap());
        let map = Mapping::shared(extent.clone(), false).unwrap();
        let at = |page: usize| map.addr() + page * PAGE;
        let of = extent.as_fd();
        assert!(maps.shows(at(0), 16 * PAGE, of, extent.offset(0)));
        assert!(maps.shows(at(5), 2 * PAGE, of, extent.offset(5)));
        assert!(!maps.shows(at(5), 2 * PAGE, of, extent.offset(6)));
        assert!(!maps.shows(at(15), 2 * PAGE, of, extent.offset(15)));
        assert!(!maps.shows(at(0), PAGE, maps.0.as_fd(), extent.offset(0)));
        // SAFETY: advice about a page of the mapping.
        unsafe { madvise(at(3) as *mut _, PAGE, Advice::Random).unwrap() };
        assert!(maps.shows(at(0), 16 * PAGE, of, extent.offset(0)));
    }
}
