//! Who computes what.

use super::SweepError;
use rustix::fs::{flock, FlockOperation};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A lock on a name, given up when it is dropped or its process ends.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    file: File,
}

impl Claim {
    /// Takes a lock without waiting; none if another process has it.
    pub(super) fn take(path: &Path) -> Result<Option<Self>, SweepError> {
        Self::lock(path, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a lock, waiting for it.
    pub(super) fn wait(path: &Path) -> Result<Self, SweepError> {
        loop {
            if let Some(claim) = Self::lock(path, FlockOperation::LockExclusive)? {
                return Ok(claim);
            }
        }
    }

    fn lock(path: &Path, how: FlockOperation) -> Result<Option<Self>, SweepError> {
        let fail = |e: io::Error| SweepError::io(path, "taking the lock")(e);
        loop {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(fail)?;
            match flock(&file, how) {
                Ok(()) => {}
                Err(e) if e == rustix::io::Errno::WOULDBLOCK => return Ok(None),
                Err(e) if e == rustix::io::Errno::INTR => continue,
                Err(e) => return Err(fail(e.into())),
            }
            // The last holder removes the name: this may be the lock of a file that is gone.
            let ours = file.metadata().map_err(fail)?.ino();
            match fs::metadata(path) {
                Ok(named) if named.ino() == ours => {
                    let path = path.to_owned();
                    return Ok(Some(Self { path, file }));
                }
                _ => drop(file),
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The name goes while the lock is still held.
        let _ = fs::remove_file(&self.path);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}
