//! The sealed file in memory behind a region. Its descriptor never leaves the pager.

use super::PAGE;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    fallocate, fcntl_add_seals, ftruncate, memfd_create, FallocateFlags, MemfdFlags, SealFlags,
};
use rustix::io;

/// A file in memory of fixed size.
#[derive(Debug)]
pub struct Memfd(OwnedFd);

impl Memfd {
    /// A file of `pages` holes.
    pub fn new(pages: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("coldset", flags)?;
        ftruncate(&fd, (pages * PAGE) as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self(fd))
    }

    /// Removes pages: unmapped everywhere, translations flushed, gone from the file.
    pub fn punch(&self, first: usize, pages: usize) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.0, flags, (first * PAGE) as u64, (pages * PAGE) as u64)
    }

    /// Reads pages through the descriptor, which maps nothing. Holes read as zeroes.
    pub fn read(&self, first: usize, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let n = io::pread(&self.0, &mut buf[done..], (first * PAGE + done) as u64)?;
            if n == 0 {
                return Err(io::Errno::IO);
            }
            done += n;
        }
        Ok(())
    }

    /// Pages it holds.
    pub fn resident(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.0)?.st_blocks as u64 * 512 / PAGE as u64)
    }
}

impl AsFd for Memfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
