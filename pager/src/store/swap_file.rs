//! A swap file with a name: one page that says whose it is, then the slots.
//!
//! The file stays when its pool has gone, cut back to that page, so that the next pool knows it for a
//! swap file. A program that was killed leaves what it held; the next pool empties it.

use super::claim::{Claim, Purpose};
use super::file::{FileOptions, FileStorage};
use super::open::{existing, is_still, make_private, new_private};
use super::storage::{Read, Storage, Write};
use crate::error::{Error, Result};
use crate::sys::memory::PageBuf;
use crate::sys::PAGE;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// First bytes.
const MAGIC: &str = "coldset-swap 1\n";
const HEADER: u64 = PAGE as u64;
/// Times that a file may go away, or come, while it is being looked at.
const RETRIES: usize = 100;

/// The storage of the slots.
#[derive(Debug)]
pub(crate) struct SwapFile {
    file: Arc<FileStorage>,
    pid: u32,
    _claim: Claim,
}

impl SwapFile {
    /// Creates a file for `bytes` bytes of slots, with all the space it will need, or takes one that has
    /// been a swap file and is nobody's now. It belongs to its owner alone.
    ///
    /// # Errors
    /// What is there is something else, somebody else's, or in use; not enough space.
    pub(crate) fn create(path: &Path, bytes: u64) -> Result<Self> {
        for _ in 0..RETRIES {
            let (file, new) = match new_private(path).map_err(|e| Error::file(path, e))? {
                Some(f) => (f, true),
                None => match existing(path, true, false) {
                    Err(Error::File { errno, .. }) if errno == libc::ENOENT => continue,
                    other => (other?, false),
                },
            };
            if !new {
                refuse_foreign(path, &file)?;
            }
            let named = |e| Error::file(path, e);
            let storage = FileStorage::from_file(file, true, FileOptions::default());
            let file = Arc::new(storage.map_err(named)?);
            let claim = match Claim::new(path, file.clone(), Purpose::Swap) {
                Err(Error::InUse { path, used, remedy }) => {
                    let used = name_holder(used, file.plain());
                    return Err(Error::InUse { path, used, remedy });
                }
                other => other?,
            };
            // Between its creation and the claim it may have become another's.
            if !is_still(path, file.plain()).map_err(named)? {
                continue;
            }
            let others = file.plain().metadata().map_err(named)?.mode() & 0o077;
            if !new && others != 0 {
                // Others may have it open: they keep the old one.
                std::fs::remove_file(path).map_err(named)?;
                continue;
            }
            let made = Self::begin(path, file, claim, bytes);
            if made.is_err() && new {
                // Nothing of it has been used. What cannot be removed is as empty as a swap file is that has
                // been given up.
                let _ = std::fs::remove_file(path);
            }
            return made;
        }
        Err(Error::File {
            what: "",
            path: path.into(),
            why: "other programs create and remove it all the time".into(),
            errno: libc::EBUSY,
        })
    }

    fn begin(path: &Path, file: Arc<FileStorage>, claim: Claim, bytes: u64) -> Result<Self> {
        let named = |e| Error::file(path, e);
        make_private(file.plain()).map_err(named)?;
        // What a pool that was killed has left.
        file.set_len(0).map_err(named)?;
        file.allocate(path, HEADER + bytes).map_err(named)?;
        let made = Self {
            file,
            pid: std::process::id(),
            _claim: claim,
        };
        made.write_header(&format!(
            "pid {}\nslots {}\n",
            made.pid,
            bytes / PAGE as u64
        ))
        .map_err(named)?;
        Ok(made)
    }

    fn write_header(&self, text: &str) -> io::Result<()> {
        let mut page = PageBuf::new(1)?;
        let text = format!("{MAGIC}page {PAGE}\n{text}");
        page.bytes_mut()[..text.len()].copy_from_slice(text.as_bytes());
        super::storage::write_full(&*self.file, page.bytes(), 0)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        // A child of fork has no right to it.
        if self.pid == std::process::id() {
            // Nobody is there to be told. What stays is emptied by the next pool, and unreadable meanwhile to
            // all but the owner.
            let _ = self.write_header("closed\n");
            let _ = self.file.set_len(HEADER);
        }
    }
}

/// An existing file that is not a swap file of this user's.
fn refuse_foreign(path: &Path, f: &File) -> Result<()> {
    let refuse = |why: String| {
        Err(Error::File {
            what: "",
            path: path.into(),
            why,
            errno: libc::EEXIST,
        })
    };
    let owner = f.metadata().map_err(|e| Error::file(path, e))?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return refuse(format!(
            "it exists and belongs to user {owner}; give another path for swap"
        ));
    }
    let mut head = [0; MAGIC.len()];
    match f.read_exact_at(&mut head, 0) {
        Ok(()) if head == *MAGIC.as_bytes() => Ok(()),
        Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => Err(Error::file(path, e)),
        _ => refuse(
            "it exists and is not a swap file of coldset; give another path, or remove it if nobody \
             needs it"
                .into(),
        ),
    }
}

/// Adds what the holder has written down, if the kernel does not tell.
fn name_holder(used: String, f: &File) -> String {
    let mut head = [0; 256];
    let n = f.read_at(&mut head, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&head[..n]);
    let pid = { text.lines() }.find_map(|l| l.strip_prefix("pid ")?.parse().ok());
    match pid {
        Some(pid) if used == super::claim::used_by(None) => super::claim::used_by(Some(pid)),
        _ => used,
    }
}

impl Storage for SwapFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, HEADER + offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, HEADER + offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn read_many(&self, reads: &mut [Read<'_>]) {
        reads.iter_mut().for_each(|r| r.offset += HEADER);
        self.file.read_many(reads);
        reads.iter_mut().for_each(|r| r.offset -= HEADER);
    }

    fn write_many(&self, writes: &mut [Write<'_>]) {
        writes.iter_mut().for_each(|w| w.offset += HEADER);
        self.file.write_many(writes);
        writes.iter_mut().for_each(|w| w.offset -= HEADER);
    }
}
