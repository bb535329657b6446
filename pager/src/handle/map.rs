//! Making regions: anonymous memory and maps of any storage.

use super::region::Region;
use crate::budget::account::holds;
use crate::config::MOST_BYTES;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::miss::registry::register;
use crate::pool::group::Group;
use crate::pool::inner::Pool;
use crate::region::area::Area;
use crate::region::backing::Backing;
use crate::store::Storage;
use crate::sys::PAGE;
use std::path::Path;
use std::sync::Arc;

/// What sizes a region can have: [`MOST_BYTES`] at most.
pub(super) const REGION_RANGE: &str = "use 1 to 17592186036224 bytes (16 TiB less 8 KiB)";

/// The number of pages of a region of that many bytes.
///
/// # Errors
/// No region can have that size.
fn pages_for(bytes: u64) -> Result<usize> {
    match bytes {
        1..=MOST_BYTES => Ok(bytes.div_ceil(PAGE as u64) as usize),
        _ => Err(Error::Setting {
            what: "the size of a region",
            value: format!("{bytes} bytes"),
            range: REGION_RANGE,
        }),
    }
}

impl Pool {
    /// Anonymous memory of `bytes` bytes, zeroed, in the root group.
    ///
    /// # Errors
    /// As [`Group::anonymous`].
    pub fn anonymous(&self, bytes: usize) -> Result<Region> {
        self.root().anonymous(bytes)
    }

    /// A shared read-write map of a whole existing file, in the root group.
    ///
    /// # Errors
    /// As [`Group::file`].
    pub fn file(&self, path: impl AsRef<Path>) -> Result<Region> {
        self.root().file(path)
    }

    /// A read-only map of a whole existing file, in the root group.
    ///
    /// # Errors
    /// As [`Group::file`].
    pub fn file_read_only(&self, path: impl AsRef<Path>) -> Result<Region> {
        self.root().file_read_only(path)
    }

    /// A read-only map of a whole remote object, in the root group.
    ///
    /// # Errors
    /// As [`Group::remote`].
    #[cfg(feature = "remote")]
    pub fn remote(&self, operator: &opendal::Operator, path: &str) -> Result<Region> {
        self.root().remote(operator, path)
    }
}

impl Group {
    /// Anonymous memory of `bytes` bytes, zeroed.
    ///
    /// # Errors
    /// [`Error::Overcommit`]; no bytes, or more than 16 TiB less 8 KiB; no address space is left; [`Error::Forked`].
    pub fn anonymous(&self, bytes: usize) -> Result<Region> {
        let res = &self.pool.res;
        let asked = pages_for(bytes as u64)? as u64 * PAGE as u64;
        {
            let _shield = res.enter()?;
            let mut core = res.core();
            // The budget changes under the lock.
            let capacity = holds(res.config.swap.capacity(), res.gate.budget());
            if core.promised() + asked > capacity && !res.config.overcommit {
                return Err(Error::Overcommit {
                    asked,
                    promised: core.promised(),
                    available: capacity,
                });
            }
            core.promise(asked);
        }
        let made = self.map(bytes as u64, None);
        if made.is_err() {
            res.core().release(asked);
        }
        made
    }

    /// A read-only map of a whole remote object, which must not change while it is mapped. For other options use
    /// [`RemoteStorage`](crate::store::RemoteStorage) and [`Self::storage`].
    ///
    /// # Errors
    /// Those of the service; an empty object; no address space is left.
    #[cfg(feature = "remote")]
    pub fn remote(&self, operator: &opendal::Operator, path: &str) -> Result<Region> {
        use crate::store::{RemoteOptions, RemoteStorage};
        let object = RemoteStorage::open(operator, path, RemoteOptions::default())
            .map_err(Error::io("opening a remote object"))?;
        let len = object.len();
        self.storage(Arc::new(object), len, false)
    }

    /// A map of the first `len` bytes of any storage.
    ///
    /// # Errors
    /// No bytes, or more than 16 TiB less 8 KiB; address space; [`Error::Forked`].
    pub fn storage(&self, storage: Arc<dyn Storage>, len: u64, writable: bool) -> Result<Region> {
        let wait = self.pool.res.config.full_wait;
        self.map(len, Some(Backing::new(storage, len, writable, None, wait)))
    }

    pub(super) fn map(&self, bytes: u64, backing: Option<Backing>) -> Result<Region> {
        let pages = pages_for(bytes)?;
        let pool = &self.pool;
        let _shield = pool.res.enter()?;
        pool.start_for_region(backing.as_ref().is_some_and(|b| b.writable))?;
        let faults = pool.faults(self.threads)?;
        let anon = backing.is_none();
        let book = pool.res.core().policy.open(self.memcg, pages, anon)?;
        let tables = pool.res.counts.table_bytes.clone();
        let area = match Area::new(book.clone(), backing, faults, tables) {
            Ok(area) => Arc::new(area),
            Err(e) => {
                pool.res.core().policy.close(&book);
                return Err(e);
            }
        };
        meanwhile();
        pool.res.core().add(area.clone());
        meanwhile();
        if !area.is_explicit() {
            register(area.clone(), pool.misses.clone());
        }
        Ok(Region::new(pool.clone(), area, bytes as usize))
    }

    /// Evicts `bytes` bytes of the group now, as far as possible. Returns the bytes evicted.
    ///
    /// # Errors
    /// [`Error::Forked`]; an error of the store.
    pub fn reclaim(&self, bytes: u64) -> Result<u64> {
        let _shield = self.pool.res.enter()?;
        let nr = bytes.div_ceil(PAGE as u64);
        let freed = self.pool.reclaimer.reclaim(self.memcg, nr, true)?;
        Ok(freed * PAGE as u64)
    }
}
