//! File maps, by path.

use super::map::REGION_RANGE;
use super::region::Region;
use crate::config::MOST_BYTES;
use crate::error::{Error, Result};
use crate::pool::group::Group;
use crate::region::backing::Backing;
use crate::store::claim::{Claim, Purpose};
use crate::store::open::{existing, writable_or_new};
use crate::store::{FileOptions, FileStorage};
use crate::sys::memory::try_to_map;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// How a file is mapped: read-only by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapOptions {
    write: bool,
    shared: bool,
    empty: bool,
    grow: u64,
}

impl MapOptions {
    /// A read-only map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores reach the file.
    pub fn write(mut self, on: bool) -> Self {
        self.write = on;
        self
    }

    /// Allows other maps of the file, here and in other processes, and writers. They do not see each other's stores,
    /// and the last store to a page by one of them replaces the whole page: this is for programs that keep to
    /// different pages, or take turns. The file still may not be swap or a journal.
    pub fn shared(mut self, on: bool) -> Self {
        self.shared = on;
        self
    }

    /// Creates the file, or empties it once it is certain that nobody uses it. Needs [`Self::write`].
    pub fn empty(mut self, on: bool) -> Self {
        self.empty = on;
        self
    }

    /// First makes the file at least that many bytes long, 16 TiB less 8 KiB at most. Needs [`Self::write`].
    pub fn grow_to(mut self, bytes: u64) -> Self {
        self.grow = bytes;
        self
    }
}

impl Group {
    /// A shared read-write map of a whole existing file. Stores reach the file by writeback: periodically, at `sync`,
    /// and when the region is dropped. While the region exists, nobody else may write to the file or change its size;
    /// the pager refuses other maps of it.
    ///
    /// # Errors
    /// [`Error::InUse`]: the file is already mapped, by whatever path, or is swap or a journal; [`Error::File`]: it
    /// cannot be opened, is not a regular file, is of a file system that
    /// does not map files (such as procfs and sysfs), or is empty; no address space is left.
    pub fn file(&self, path: impl AsRef<Path>) -> Result<Region> {
        self.file_with(path, MapOptions::new().write(true))
    }

    /// A read-only map of a whole existing file, on the same terms; other read-only maps are allowed.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn file_read_only(&self, path: impl AsRef<Path>) -> Result<Region> {
        self.file_with(path, MapOptions::new())
    }

    /// A map of a whole file with the given options.
    ///
    /// # Errors
    /// As [`Self::file`]; options that need [`MapOptions::write`] without it; a size that no region can have.
    ///
    /// ```
    /// # use coldset_pager::{Error, MapOptions, Pool, PoolConfig};
    /// # let path = std::env::temp_dir().join(format!("both-{}", std::process::id()));
    /// # let pool = match Pool::new(PoolConfig::new(4 << 20)) {
    /// #     Err(Error::Missing(m)) => return Ok(println!("{m}")),
    /// #     other => other?,
    /// # };
    /// let new = MapOptions::new().write(true).empty(true).grow_to(1 << 20);
    /// let first = pool.root().file_with(&path, new)?;
    /// assert!(matches!(pool.file(&path), Err(Error::InUse { .. })));
    /// let knows_better = MapOptions::new().write(true).shared(true);
    /// let second = pool.root().file_with(&path, knows_better)?;
    /// # drop((first, second));
    /// # std::fs::remove_file(&path).expect("the file");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn file_with(&self, path: impl AsRef<Path>, o: MapOptions) -> Result<Region> {
        let path = path.as_ref();
        let named = |e| Error::file(path, e);
        // A child of fork is refused before anything is emptied.
        let _shield = self.pool.res.shield()?;
        if (o.empty || o.grow > 0) && !o.write {
            return Err(Error::Mode(
                "a file that is only read cannot be emptied or grown",
            ));
        }
        if o.grow > MOST_BYTES {
            // Before anything is created or emptied.
            return Err(Error::Setting {
                what: "the size that a file is to grow to",
                value: format!("{} bytes", o.grow),
                range: REGION_RANGE,
            });
        }
        let file = match o.empty {
            true => writable_or_new(path)?,
            false => existing(path, o.write, true)?,
        };
        if let Err(e) = try_to_map(file.as_fd()) {
            return Err(match e {
                Errno::NODEV => Error::File {
                    what: "",
                    path: path.into(),
                    why: "its file system does not support mapping: its contents are made while they are read, and its \
                          size says nothing; read it instead"
                        .into(),
                    errno: libc::ENODEV,
                },
                other => named(other.into()),
            });
        }
        let purpose = match (o.shared, o.write) {
            (true, _) => Purpose::Shared,
            (false, true) => Purpose::Write,
            (false, false) => Purpose::Read,
        };
        let storage = FileStorage::from_file(file, o.write, FileOptions::default());
        let storage = Arc::new(storage.map_err(named)?);
        let claim = Claim::new(path, storage.clone(), purpose)?;
        if o.empty {
            storage.set_len(0).map_err(named)?;
        }
        let mut len = storage.len().map_err(named)?;
        if len < o.grow {
            storage.set_len(o.grow).map_err(named)?;
            len = o.grow;
        }
        if len == 0 {
            return Err(Error::File {
                what: "",
                path: path.into(),
                why: "it is empty, and there is nothing to map".into(),
                errno: libc::EINVAL,
            });
        }
        let storage = self.pool.res.counts.retrying(storage);
        let wait = self.pool.res.config.full_wait;
        let backing = Backing::new(storage, len, o.write, Some(path), wait);
        let mut region = self.map(len, Some(backing))?;
        region.claim = Some(claim);
        Ok(region)
    }
}
