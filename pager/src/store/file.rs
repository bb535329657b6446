//! Files and devices: past the page cache, many transfers at a time.

use super::claim::Claimed;
use super::open::{again, make_private, new_private};
use super::storage::{Read, Storage, Write};
use crate::sys::fd::Kept;
use crate::sys::ring::{self, Transfer};
use crate::sys::{self, PAGE};
use rustix::fs::{fadvise, fallocate, fstat, fstatfs, fstatvfs, Advice, FallocateFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The magic number of tmpfs: reserving there takes memory at once.
const TMPFS: i64 = 0x0102_1994;

/// What `O_TMPFILE` gives where it is not known: it contains the bit of `O_DIRECTORY`.
const UNKNOWN_FLAG: [i32; 4] = [libc::EOPNOTSUPP, libc::EISDIR, libc::EINVAL, libc::ENOENT];

/// How transfers are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileOptions {
    /// Whole, aligned pages go past the kernel's page cache, where the file system allows it: the
    /// cache would keep a second copy, which no budget sees. Where it does not, copies are dropped
    /// from the cache after each read and each sync.
    pub direct: bool,
    /// Batches go through io_uring, where the kernel allows it, else one after the other.
    pub ring: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            direct: true,
            ring: true,
        }
    }
}

/// A file. It has at most two descriptors, and the path is not used again once it is open.
#[derive(Debug)]
pub struct FileStorage {
    plain: Kept<File>,
    direct: Option<Kept<File>>,
    /// Bytes it had when it was opened.
    had: AtomicU64,
    /// The file system has refused a direct transfer.
    refused: AtomicBool,
    options: FileOptions,
    /// Why batches are not batched.
    no_ring: Option<&'static str>,
}

impl FileStorage {
    /// Opens an existing file.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        Self::open_with(path, writable, FileOptions::default())
    }

    /// As [`Self::open`], with options.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn open_with(path: &Path, writable: bool, options: FileOptions) -> io::Result<Self> {
        let plain = OpenOptions::new().read(true).write(writable).open(path)?;
        Self::from_file(plain, writable, options)
    }

    /// Takes an open file.
    ///
    /// # Errors
    /// Those of asking for its size.
    pub fn from_file(plain: File, writable: bool, options: FileOptions) -> io::Result<Self> {
        let direct = options
            .direct
            .then(|| again(&plain, writable, libc::O_DIRECT));
        if options.direct {
            // What is read ahead is the pager's to decide; a file system that does not take advice reads
            // ahead in vain.
            let _ = fadvise(&plain, 0, None, Advice::Random);
        }
        let no_ring = match options.ring {
            true => ring::available().err(),
            false => Some("not asked for"),
        };
        Ok(Self {
            had: AtomicU64::new(length(&plain)?),
            plain: Kept::new(plain)?,
            // Without: through the page cache, whose copies are dropped.
            direct: direct.and_then(|f| Kept::new_alone(f.ok()?).ok()),
            refused: AtomicBool::new(false),
            options,
            no_ring,
        })
    }

    /// Creates (or empties) a file of `bytes` bytes. A new one is readable by its owner only.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn create(path: &Path, bytes: u64) -> io::Result<Self> {
        let f = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        f.set_len(bytes)?;
        Self::from_file(f, true, FileOptions::default())
    }

    /// Makes it `bytes` bytes long and reserves its space: writes cannot fail for want of it later. File
    /// systems that cannot reserve, and those in memory, are only asked if they have as much. `path` is
    /// for messages.
    ///
    /// # Errors
    /// Not enough space: the text says how much there is.
    pub(crate) fn allocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.plain.set_len(bytes)?;
        self.had.store(bytes, Relaxed);
        self.reserve(path, bytes)
    }

    /// Makes it that long.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.had.store(bytes, Relaxed);
        self.plain.set_len(bytes)
    }

    /// The file itself, for what is no transfer.
    pub(crate) fn plain(&self) -> &File {
        &self.plain
    }

    /// Creates a file of `bytes` bytes without a name, in `$TMPDIR` or else `/var/tmp` (`/tmp` often
    /// is memory), with all the space it will need. It never has a name; where the file system cannot do
    /// that, it has one until before anything is written, and is its owner's alone from the start.
    ///
    /// # Errors
    /// Those of creating it; not enough space.
    pub fn temporary(bytes: u64) -> io::Result<Self> {
        let folder = std::env::var_os("TMPDIR").filter(|v| !v.is_empty());
        let folder = PathBuf::from(folder.unwrap_or_else(|| "/var/tmp".into()));
        // Nobody, not even by the descriptor, can give it a name (O_EXCL).
        let unnamed = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_TMPFILE | libc::O_EXCL)
            .open(&folder);
        let made = match unnamed {
            // The file system (or the kernel) does not know that flag.
            Err(e) if UNKNOWN_FLAG.contains(&e.raw_os_error().unwrap_or(0)) => {
                Self::named_for_a_moment(&folder)
            }
            made => made,
        };
        let said = |e: io::Error| {
            let text = format!("{}: {e}; TMPDIR names the folder", folder.display());
            io::Error::new(e.kind(), text)
        };
        let f = made.map_err(said)?;
        make_private(&f)?;
        let made = Self::from_file(f, true, FileOptions::default())?;
        made.allocate(&folder, bytes)?;
        Ok(made)
    }

    fn named_for_a_moment(folder: &Path) -> io::Result<File> {
        static FILES: AtomicU32 = AtomicU32::new(0);
        loop {
            let n = FILES.fetch_add(1, Relaxed);
            let path = folder.join(format!("coldset-swap.{}.{n}", std::process::id()));
            // Nobody else's file, and none that a link points at.
            if let Some(f) = new_private(&path)? {
                std::fs::remove_file(&path)?;
                return Ok(f);
            }
        }
    }

    fn reserve(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let space = sys::again::again(|| fstatvfs(&self.plain))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let full = || {
            let text = format!(
                "{} needs {bytes} bytes, and its file system has {free} bytes free",
                path.display()
            );
            io::Error::new(io::ErrorKind::StorageFull, text)
        };
        if bytes > free {
            return Err(full());
        }
        if sys::again::again(|| fstatfs(&self.plain))?.f_type == TMPFS {
            return Ok(());
        }
        match fallocate(&self.plain, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::NOSPC) => Err(full()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) | Ok(()) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Nothing is written beyond the end of a file that somebody has shortened: what was there is gone, and
    /// writing would make it long again, with holes.
    fn check_end(&self, end: u64) -> io::Result<()> {
        let (had, now) = (self.had.load(Relaxed), self.len()?);
        if now < had && end > now {
            let text = format!(
                "the file has been shortened from {had} to {now} bytes while it was in use; bytes up to \
                 {end} cannot be written"
            );
            return Err(io::Error::other(text));
        }
        Ok(())
    }

    /// Size now.
    ///
    /// # Errors
    /// Those of asking the file system.
    pub fn len(&self) -> io::Result<u64> {
        length(&self.plain)
    }

    /// True if it has no bytes.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Do whole pages go past the page cache?
    pub fn is_direct(&self) -> bool {
        self.direct.is_some() && !self.refused.load(Relaxed)
    }

    /// Why batches are done one transfer after the other; none if io_uring does them.
    pub fn no_ring(&self) -> Option<&str> {
        self.no_ring
    }

    /// The descriptor for a transfer, which is the pager's; true if it goes past the page cache.
    fn file_for(&self, at: *const u8, len: usize, offset: u64) -> (&File, bool) {
        let aligned = len.is_multiple_of(PAGE)
            && offset.is_multiple_of(PAGE as u64)
            && (at as usize).is_multiple_of(PAGE)
            && len > 0;
        let (f, direct) = match &self.direct {
            Some(f) if aligned && !self.refused.load(Relaxed) => (f, true),
            _ => (&self.plain, false),
        };
        f.check();
        (f, direct)
    }

    /// The result of a direct transfer, or of a plain one instead if the file system wants other
    /// sizes than pages.
    fn unless_refused<T>(
        &self,
        done: io::Result<T>,
        plain: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        match done {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                let done = plain(&self.plain)?;
                self.refused.store(true, Relaxed);
                Ok(done)
            }
            other => other,
        }
    }

    /// Drops clean pages from the page cache; `len` 0 = to the end.
    fn forget(&self, offset: u64, len: u64) {
        if self.options.direct {
            // Only pages that lie in the range as a whole are dropped.
            let end = offset
                .saturating_add(len)
                .checked_next_multiple_of(PAGE as u64);
            let end = end.unwrap_or(u64::MAX);
            let offset = offset / PAGE as u64 * PAGE as u64;
            let len = NonZeroU64::new(if len == 0 { 0 } else { end - offset });
            // Advice: without it the copies stay until the kernel wants their memory.
            let _ = fadvise(&self.plain, offset, len, Advice::DontNeed);
        }
    }

    fn batched(&self, n: usize) -> bool {
        n > 1 && self.no_ring.is_none()
    }
}

/// Bytes of a file now. A server of files may be interrupted when it is asked.
fn length(file: &File) -> io::Result<u64> {
    let stat = sys::again::again(|| fstat(file))?;
    Ok(stat.st_size as u64)
}

impl Claimed for FileStorage {
    fn fd(&self) -> BorrowedFd<'_> {
        self.plain.as_fd()
    }
}

/// What a ring says; none if it has not done it.
fn outcome(done: Option<i32>) -> Option<io::Result<usize>> {
    match done? {
        n if n >= 0 => Some(Ok(n as usize)),
        e if [-libc::EAGAIN, -libc::EINTR, -libc::EINVAL, -libc::ECANCELED].contains(&e) => None,
        e => Some(Err(io::Error::from_raw_os_error(-e))),
    }
}

impl Storage for FileStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let (f, direct) = self.file_for(buf.as_ptr(), buf.len(), offset);
        let done = f.read_at(buf, offset);
        if direct {
            return self.unless_refused(done, |plain| plain.read_at(buf, offset));
        }
        self.forget(offset, buf.len() as u64);
        done
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.check_end(offset.saturating_add(buf.len() as u64))?;
        let (f, direct) = self.file_for(buf.as_ptr(), buf.len(), offset);
        let done = f.write_at(buf, offset);
        if direct {
            return self.unless_refused(done, |plain| plain.write_at(buf, offset));
        }
        done
    }

    fn sync(&self) -> io::Result<()> {
        self.plain.check();
        let done = self.plain.sync_data();
        if !self.is_direct() {
            self.forget(0, 0);
        }
        done
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.plain.check();
        self.direct.is_some().then(|| self.plain.as_fd())
    }

    fn read_many(&self, reads: &mut [Read<'_>]) {
        let mut done = Vec::new();
        if self.batched(reads.len()) {
            let mut all: Vec<Transfer<'_>> = reads
                .iter_mut()
                .map(|r| {
                    let (f, _) = self.file_for(r.buf.as_ptr(), r.buf.len(), r.offset);
                    Transfer::read(f.as_raw_fd(), r.buf, r.offset)
                })
                .collect();
            done = ring::run(&mut all);
        }
        for (i, r) in reads.iter_mut().enumerate() {
            r.done = match outcome(done.get(i).copied().flatten()) {
                Some(done) => done,
                None => self.read_at(r.buf, r.offset),
            };
        }
        if !self.is_direct() {
            for r in reads.iter() {
                self.forget(r.offset, r.buf.len() as u64);
            }
        }
    }

    fn write_many(&self, writes: &mut [Write<'_>]) {
        let mut done = Vec::new();
        let end = writes
            .iter()
            .map(|w| w.offset.saturating_add(w.buf.len() as u64))
            .max();
        // If not, one by one: each with its own answer.
        let fits = self.check_end(end.unwrap_or(0)).is_ok();
        if fits && self.batched(writes.len()) {
            let mut all: Vec<Transfer<'_>> = writes
                .iter()
                .map(|w| {
                    let (f, _) = self.file_for(w.buf.as_ptr(), w.buf.len(), w.offset);
                    Transfer::write(f.as_raw_fd(), w.buf, w.offset)
                })
                .collect();
            done = ring::run(&mut all);
        }
        for (i, w) in writes.iter_mut().enumerate() {
            w.done = match outcome(done.get(i).copied().flatten()) {
                Some(done) => done,
                None => self.write_at(w.buf, w.offset),
            };
        }
    }
}
