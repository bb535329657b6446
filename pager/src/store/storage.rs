//! Files and devices, and transfers that are complete or an error.

use crate::sys::PAGE;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Something read and written at byte offsets. Transfers may be short.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Reads into `buf`. 0 = the end of the storage.
    ///
    /// # Errors
    /// Those of the device.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `buf`.
    ///
    /// # Errors
    /// Those of the device.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// Everything written so far is durable when this returns.
    ///
    /// # Errors
    /// Those of the device.
    fn sync(&self) -> io::Result<()>;
}

/// Reads into all of `buf`, of which the first `have` bytes must exist; beyond them it is zeroed. All
/// of `buf` is offered to the storage, so that transfers stay aligned.
///
/// # Errors
/// Those of the storage; `UnexpectedEof` if it ends early, as a file that was truncated does.
pub fn read_exact(s: &dyn Storage, buf: &mut [u8], have: usize, offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < have {
        match s.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => {
                let at = offset + done as u64;
                let text = format!("it ends at byte {at}: it has been truncated");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    buf[have..].fill(0);
    Ok(())
}

/// Writes all of `buf`.
///
/// # Errors
/// Those of the storage; a write that transfers nothing is `WriteZero`.
pub fn write_full(s: &dyn Storage, buf: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match s.write_at(&buf[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A file. Whole, aligned pages go past the kernel's page cache where the file system allows it, so
/// that the budget is not spent a second time there.
#[derive(Debug)]
pub struct FileStorage {
    plain: File,
    direct: Option<File>,
}

impl FileStorage {
    /// Opens an existing file.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let plain = OpenOptions::new().read(true).write(writable).open(path)?;
        let direct = OpenOptions::new()
            .read(true)
            .write(writable)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .ok();
        Ok(Self { plain, direct })
    }

    /// Creates (or empties) a file of `bytes` bytes, readable by its owner only.
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
        drop(f);
        Self::open(path, true)
    }

    /// Size now.
    ///
    /// # Errors
    /// Those of asking the file system.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.plain.metadata()?.len())
    }

    /// True if it has no bytes.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    fn file_for(&self, at: *const u8, len: usize, offset: u64) -> &File {
        let aligned =
            len % PAGE == 0 && offset % PAGE as u64 == 0 && at as usize % PAGE == 0 && len > 0;
        self.direct
            .as_ref()
            .filter(|_| aligned)
            .unwrap_or(&self.plain)
    }
}

/// Transfers past the page cache have rules of their own: a device with larger blocks, a limit on the
/// size of files that is no multiple of a block. The page cache knows no such rules.
fn refused(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::EINVAL)
}

impl Storage for FileStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let f = self.file_for(buf.as_ptr(), buf.len(), offset);
        match f.read_at(buf, offset) {
            Err(e) if refused(&e) => self.plain.read_at(buf, offset),
            done => done,
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let f = self.file_for(buf.as_ptr(), buf.len(), offset);
        match f.write_at(buf, offset) {
            Err(e) if refused(&e) => self.plain.write_at(buf, offset),
            done => done,
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.plain.sync_data()
    }
}
