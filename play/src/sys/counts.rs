//! Numbers in memory that processes share: who writes one may be killed at any time, and it stays.

#![allow(unsafe_code)]

use super::{Map, PAGE};
use rustix::fd::AsFd;
use rustix::fs::{fstat, ftruncate, memfd_create, MemfdFlags};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Bytes of a number: a cache line, so that nobody waits for another one's.
const LINE: usize = 64;

/// Numbers in a file that is nothing but memory.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    map: Arc<Map>,
    len: usize,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Count {
    all: Counts,
    at: usize,
}

impl Counts {
    /// So many zeros. They have their memory at once, so that it is this process that pays for it. The file is for
    /// who shall share them.
    pub fn make(len: usize) -> io::Result<(Self, File)> {
        let file = memfd_create("coldset-play", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, pages(len) as u64 * PAGE as u64)?;
        let counts = Self::of(&file, len)?;
        (0..len).for_each(|at| counts.number(at).store(0, Relaxed));
        Ok((counts, file.into()))
    }

    /// As many as a file of another process holds.
    pub fn shared(file: impl AsFd) -> io::Result<Self> {
        let size = fstat(&file)?.st_size as usize;
        Self::of(file, size / PAGE * PAGE / LINE)
    }

    fn of(file: impl AsFd, len: usize) -> io::Result<Self> {
        let map = Map::file(file, pages(len), true)?.into();
        Ok(Self { map, len })
    }

    /// One of them.
    ///
    /// # Errors
    /// There are not so many.
    pub fn count(&self, at: usize) -> io::Result<Count> {
        let all = self.clone();
        match at < self.len {
            true => Ok(Count { all, at }),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn number(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.len, "number {at} of {}", self.len);
        // SAFETY: within the mapping, which has room for all of them and lives as long as self, and aligned; whoever
        // else uses this memory does so by the same atomic numbers.
        unsafe { AtomicU64::from_ptr(self.map.at(at * LINE).cast()) }
    }
}

/// Pages that so many numbers take.
fn pages(len: usize) -> usize {
    (len * LINE).div_ceil(PAGE).max(1)
}

impl Count {
    /// One more. Nobody else counts here.
    #[inline]
    pub fn add(&self) {
        let number = self.all.number(self.at);
        number.store(number.load(Relaxed) + 1, Relaxed);
    }

    /// How many there are.
    pub fn get(&self) -> u64 {
        self.all.number(self.at).load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shared_and_apart() {
        let (ours, file) = Counts::make(100).unwrap();
        let theirs = Counts::shared(&file).unwrap();
        for at in [0, 1, 99] {
            (0..=at).for_each(|_| theirs.count(at).unwrap().add());
        }
        let found = [0, 1, 2, 98, 99].map(|at| ours.count(at).unwrap().get());
        assert_eq!(found, [1, 2, 0, 0, 100]);
        assert!(ours.count(100).is_err() && theirs.count(1000).is_err());
    }
}
