//! Regions and pins.

use crate::error::*;
use crate::owned::Owned;
use crate::pool::{coldset_group, coldset_pool, group_of};
use coldset_pager::{Advice, Group, MapOptions, Region, SharedPin};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// Managed memory: anonymous, or a map of a file.
#[derive(Debug)]
pub struct coldset_region {
    region: Owned<Arc<Region>>,
}

/// Pages that stay in memory until they are unpinned.
#[derive(Debug)]
pub struct coldset_pin {
    // Held for what it does when dropped.
    _pin: Owned<SharedPin>,
}

/// The pager reads ahead while misses come in order. The default.
pub const COLDSET_ADVICE_NORMAL: c_int = 0;
/// No read-ahead, for the whole region.
pub const COLDSET_ADVICE_RANDOM: c_int = 1;
/// Full read-ahead, for the whole region.
pub const COLDSET_ADVICE_SEQUENTIAL: c_int = 2;
/// Brings in every page that holds a part of the range.
pub const COLDSET_ADVICE_WILL_NEED: c_int = 3;
/// Drops the pages that lie entirely in the range: anonymous memory reads as zeroes afterwards, files keep what was
/// written. A range that ends with the region covers its last page entirely.
pub const COLDSET_ADVICE_DONT_NEED: c_int = 4;

/// Makes a region.
///
/// # Safety
/// As [`group_of`].
unsafe fn make(
    pool: *const coldset_pool,
    group: *const coldset_group,
    how: impl FnOnce(&Group) -> Result<Region, Failure>,
) -> *mut coldset_region {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by contract.
        let group = unsafe { group_of(pool, group) }?;
        let region = Owned::new(Arc::new(how(&group)?));
        Ok(Box::into_raw(Box::new(coldset_region { region })))
    })
}

/// `len` bytes of zeroed memory in a group (null: in the pool's root).
///
/// Returns null on failure, with `COLDSET_NO_MEMORY` if budget and swap cannot hold it.
///
/// # Safety
/// `pool` is null or a pool, `group` null or a group of it.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_anonymous(
    pool: *const coldset_pool,
    group: *const coldset_group,
    len: usize,
) -> *mut coldset_region {
    // SAFETY: by contract.
    unsafe { make(pool, group, |g| Ok(g.anonymous(len)?)) }
}

/// For `coldset_region_file`: stores reach the file.
pub const COLDSET_MAP_WRITE: c_int = 1;
/// For `coldset_region_file`: there may be other maps of the file. They do not see each other's stores; for
/// programs that keep to different pages, or take turns.
pub const COLDSET_MAP_SHARED: c_int = 2;

/// Maps a whole existing file in a group (null: in the pool's root), as `flags` say
/// (`COLDSET_MAP_...`, 0: read-only). While the map exists, nobody else may write to the file or change its
/// size.
///
/// Returns null on failure, with `COLDSET_BUSY` if this process or another has already mapped the file and either map
/// is writable, or if the file is swap or a journal.
///
/// # Safety
/// `pool` is null or a pool, `group` null or a group of it, `path` null or a string.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_file(
    pool: *const coldset_pool,
    group: *const coldset_group,
    path: *const c_char,
    flags: c_int,
) -> *mut coldset_region {
    let file = |g: &Group| {
        if flags & !(COLDSET_MAP_WRITE | COLDSET_MAP_SHARED) != 0 {
            let text = format!("the flags {flags} are unknown; use COLDSET_MAP_...");
            return Err(Failure::new(COLDSET_INVALID, text));
        }
        let options = MapOptions::new()
            .write(flags & COLDSET_MAP_WRITE != 0)
            .shared(flags & COLDSET_MAP_SHARED != 0);
        // SAFETY: by contract.
        let path = unsafe { text(path, "the path") }?;
        Ok(g.file_with(path, options)?)
    };
    // SAFETY: by contract.
    unsafe { make(pool, group, file) }
}

/// Runs a call on a region.
///
/// # Safety
/// `region` is null or a region.
unsafe fn with<T>(
    region: *const coldset_region,
    call: impl FnOnce(&Arc<Region>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // SAFETY: by contract.
    let region = unsafe { object(region, "the region") }?;
    call(region.region.get()?)
}

/// Address of the first byte; null on failure. Any thread that does not block SIGBUS may use the
/// memory until the region is closed. System calls need a pin on the memory they touch. Stores to a
/// read-only region raise SIGBUS or SIGSEGV.
///
/// # Safety
/// `region` is null or a region.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_data(region: *const coldset_region) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        let address = |r: &Arc<Region>| {
            if r.is_explicit() {
                let text = "the pool is in explicit mode, whose regions have no address; use \
                            fault_mode=sigbus or thread";
                return Err(Failure::new(COLDSET_UNSUPPORTED, text));
            }
            Ok(r.as_ptr().cast())
        };
        // SAFETY: by contract.
        unsafe { with(region, address) }
    })
}

/// Bytes; 0 on failure.
///
/// # Safety
/// `region` is null or a region.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_len(region: *const coldset_region) -> usize {
    // SAFETY: by contract.
    guard(0, || unsafe { with(region, |r| Ok(r.len())) })
}

/// The bytes of a call.
fn range(offset: usize, len: usize) -> Result<std::ops::Range<usize>, Failure> {
    let end = offset.checked_add(len);
    let text = || format!("{len} bytes from {offset} on do not lie in any region");
    Ok(offset..end.ok_or_else(|| Failure::new(COLDSET_INVALID, text()))?)
}

/// Writes the dirty pages of a byte range and makes them durable. Does nothing for anonymous memory.
///
/// Returns the first error of the range, no matter who else syncs; else, once, the last error of a write to the file
/// that nobody waited for.
///
/// # Safety
/// `region` is null or a region.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_sync(
    region: *const coldset_region,
    offset: usize,
    len: usize,
) -> c_int {
    // SAFETY: by contract.
    status(|| unsafe { with(region, |r| Ok(r.sync(range(offset, len)?)?)) })
}

/// Tells the pager how a byte range will be used (`COLDSET_ADVICE_...`).
///
/// # Safety
/// `region` is null or a region.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_advise(
    region: *const coldset_region,
    offset: usize,
    len: usize,
    advice: c_int,
) -> c_int {
    status(|| {
        let advice = match advice {
            COLDSET_ADVICE_NORMAL => Advice::Normal,
            COLDSET_ADVICE_RANDOM => Advice::Random,
            COLDSET_ADVICE_SEQUENTIAL => Advice::Sequential,
            COLDSET_ADVICE_WILL_NEED => Advice::WillNeed,
            COLDSET_ADVICE_DONT_NEED => Advice::DontNeed,
            other => {
                let text = format!("there is no advice {other}; use COLDSET_ADVICE_...");
                return Err(Failure::new(COLDSET_INVALID, text));
            }
        };
        let bytes = range(offset, len)?;
        // SAFETY: by contract.
        unsafe { with(region, |r| Ok(r.advise(bytes, advice)?)) }
    })
}

/// Bytes of a byte range that are in memory, in whole pages; 0 on failure and for an empty range.
///
/// # Safety
/// `region` is null or a region.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_resident(
    region: *const coldset_region,
    offset: usize,
    len: usize,
) -> usize {
    guard(0, || {
        let bytes = range(offset, len)?;
        let pages = |r: &Arc<Region>| Ok(r.resident(bytes)? * coldset_pager::PAGE_SIZE);
        // SAFETY: by contract.
        unsafe { with(region, pages) }
    })
}

/// Brings a byte range in and keeps it in memory until `coldset_unpin`. Until then system calls may use it, and store
/// to it if `write` is not 0; without a pin they fail with EFAULT on evicted memory. A pin of an empty range keeps
/// nothing.
///
/// Returns null on failure.
///
/// # Safety
/// `region` is null or a region.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_pin(
    region: *const coldset_region,
    offset: usize,
    len: usize,
    write: c_int,
) -> *mut coldset_pin {
    guard(std::ptr::null_mut(), || {
        let bytes = range(offset, len)?;
        // SAFETY: by contract.
        let pin = unsafe { with(region, |r| Ok(r.pin_shared(bytes, write != 0)?)) }?;
        let _pin = Owned::new(pin);
        Ok(Box::into_raw(Box::new(coldset_pin { _pin })))
    })
}

/// Releases a pin. Null does nothing.
///
/// # Safety
/// `pin` is null, or a pin that nobody uses any longer.
#[no_mangle]
pub unsafe extern "C" fn coldset_unpin(pin: *mut coldset_pin) {
    // SAFETY: by contract; pins come from `Box::into_raw`.
    unsafe { free(pin) }
}

/// Writes dirty pages, unmaps and frees the region, even if it returns an error. The exception is `COLDSET_BUSY`:
/// pins are left, and nothing has been done. Null does nothing.
///
/// # Safety
/// `region` is null, or a region of which nobody uses the handle or the memory any longer.
#[no_mangle]
pub unsafe extern "C" fn coldset_region_close(region: *mut coldset_region) -> c_int {
    status(|| {
        // SAFETY: by contract.
        let Some(r) = (unsafe { region.as_ref() }) else {
            return Ok(());
        };
        if r.region.get().is_ok_and(|r| Arc::strong_count(r) > 1) {
            let text = "the region is pinned; call coldset_unpin first";
            return Err(Failure::new(COLDSET_BUSY, text));
        }
        // SAFETY: by contract nobody else uses it, and regions come from `Box::into_raw`.
        let r = unsafe { Box::from_raw(region) };
        match Arc::into_inner(r.region.take()?) {
            Some(region) => Ok(region.close()?),
            None => unreachable!("nobody else pins it meanwhile"),
        }
    })
}
