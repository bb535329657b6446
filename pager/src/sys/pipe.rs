//! Pinning by pipe: a page spliced into a pipe stays alive, and readable, after it has been punched
//! out of its file; a store made in between is seen.

use super::again::{again, patiently};
use super::fd::Kept;
use super::memfd::Extent;
use super::PAGE;
use rustix::io;
use rustix::pipe::{
    fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice, PipeFlags, SpliceFlags,
};

/// A pipe used as a pin.
#[derive(Debug)]
pub struct PinPipe {
    read: Kept,
    write: Kept,
    capacity: usize,
    /// Bytes in it, also after a pin that failed half way.
    held: usize,
}

impl PinPipe {
    /// A pipe for up to `pages` pages; less if the user's share of pipe memory is used up.
    pub fn new(pages: usize) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // Refused beyond the user's share: the default of 16 pages does as well.
        let _ = fcntl_setpipe_size(&write, pages * PAGE);
        let capacity = fcntl_getpipe_size(&write)? / PAGE;
        Ok(Self {
            read: Kept::new(read)?,
            write: Kept::new(write)?,
            capacity,
            held: 0,
        })
    }

    /// Ends the process if one of its ends is not the pager's any more.
    pub fn check(&self) {
        self.read.check();
        self.write.check();
    }

    /// Pages it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes references to contiguous pages of a region. After [`Self::check`].
    pub fn pin(&mut self, file: &Extent, first: usize, pages: usize) -> io::Result<()> {
        assert!(
            self.held + pages * PAGE <= self.capacity * PAGE,
            "pin pipe is full"
        );
        assert!(first + pages <= file.pages(), "pin beyond the region");
        let mut at = file.offset(first);
        let end = at + (pages * PAGE) as u64;
        while at < end {
            // splice moves `at` on by itself.
            let left = (end - at) as usize;
            let flags = SpliceFlags::empty();
            match again(|| splice(file, Some(&mut at), &self.write, None, left, flags))? {
                0 => return Err(io::Errno::IO),
                n => self.held += n,
            }
        }
        Ok(())
    }

    /// Copies all pinned pages out and lets them go.
    pub fn drain(&mut self, buf: &mut [u8]) -> io::Result<()> {
        let len = self.held;
        let mut done = 0;
        while done < len {
            match patiently(|| io::read(&self.read, &mut buf[done..len]))? {
                0 => return Err(io::Errno::IO),
                n => done += n,
            }
        }
        self.held = 0;
        Ok(())
    }
}
