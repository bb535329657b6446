//! Pools and groups.

use crate::error::*;
use crate::owned::Owned;
use coldset_pager::{Group, Limits, Pool, PoolConfig};
use std::ffi::{c_char, c_int};

/// A budget and the regions that share it.
#[derive(Debug)]
pub struct coldset_pool {
    pub(crate) pool: Owned<Pool>,
}

/// A part of a pool with limits of its own.
#[derive(Debug)]
pub struct coldset_group {
    group: Owned<Group>,
}

/// Never reclaimed below this.
pub const COLDSET_LIMIT_MIN: c_int = 0;
/// Reclaimed below this only if there is no other way.
pub const COLDSET_LIMIT_LOW: c_int = 1;
/// Above this, misses of the group reclaim and wait.
pub const COLDSET_LIMIT_HIGH: c_int = 2;
/// Never above this.
pub const COLDSET_LIMIT_MAX: c_int = 3;

/// Version of the library, as "1.2.3".
#[no_mangle]
pub extern "C" fn coldset_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Tries each feature of the kernel that regions need.
///
/// Returns `COLDSET_UNSUPPORTED`, and a message that names the feature, if one is missing.
#[no_mangle]
pub extern "C" fn coldset_probe() -> c_int {
    status(|| coldset_pager::probe(&[]).map_err(|e| coldset_pager::Error::from(e).into()))
}

/// Bytes of a size such as "4096", "512M" or "2GiB".
///
/// # Safety
/// `size` is null or a string; `bytes` is null or may be written.
#[no_mangle]
pub unsafe extern "C" fn coldset_parse_size(size: *const c_char, bytes: *mut u64) -> c_int {
    status(|| {
        // SAFETY: by contract.
        let parsed = coldset_pager::parse_size(unsafe { text(size, "the size") }?)?;
        // SAFETY: by contract null or writable.
        unsafe { put(bytes, parsed, "the place for the result") }
    })
}

/// Stores a result.
///
/// # Safety
/// `to` is null or may be written.
pub(crate) unsafe fn put<T>(to: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if to.is_null() {
        let text = format!("{what} is a null pointer");
        return Err(Failure::new(COLDSET_INVALID, text));
    }
    // SAFETY: not null, and by contract writable; nothing is read or dropped there.
    unsafe { to.write(value) };
    Ok(())
}

/// Makes a pool of `budget` bytes.
///
/// `options` is null, or an array of "name=value" strings that ends with a null pointer:
/// "swap=lz4:8GiB" (or "none", "file:/path:8GiB", "temp:8GiB", two joined by "+"; "+encrypt" after a file;
/// none by default), "policy=v5" (before switches), "switch=name=value", "fault_mode=sigbus" (or thread),
/// "journal=/path", "read_ahead=32" and "batch=64" in pages, "full_wait=5" in seconds,
/// "budget=50%" of the memory cgroup's limit or else of the
/// machine's memory (in place of `budget`, which may be 0 then), "overcommit=true" (regions larger than
/// budget and swap), "shrink_under_pressure=true". A budget that does not fit into the limit of the memory
/// cgroup is lowered, with a line on standard error.
///
/// Returns null on failure.
///
/// # Safety
/// `options` is as described.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_new(
    budget: u64,
    options: *const *const c_char,
) -> *mut coldset_pool {
    guard(std::ptr::null_mut(), || {
        let mut config = PoolConfig::new(budget);
        let mut at = options;
        // SAFETY: the array is null or ends with a null pointer, and `at` stops there.
        while let Some(&option) = unsafe { at.as_ref() }.filter(|o| !o.is_null()) {
            // SAFETY: by contract a string.
            let option = unsafe { text(option, "an option") }?;
            let Some((name, value)) = option.split_once('=') else {
                let text = format!("the option {option:?} has no value; write name=value");
                return Err(Failure::new(COLDSET_INVALID, text));
            };
            if name == "fault_mode" && !matches!(value, "sigbus" | "thread") {
                let text = format!(
                    "fault_mode is {value:?}; use sigbus or thread: there are no calls here that fix pages"
                );
                return Err(Failure::new(COLDSET_INVALID, text));
            }
            config = config.set(name, value)?;
            // SAFETY: the terminating null pointer is still ahead.
            at = unsafe { at.add(1) };
        }
        let pool = Owned::new(Pool::new(config)?);
        Ok(Box::into_raw(Box::new(coldset_pool { pool })))
    })
}

/// Releases a pool. It lives on as long as it has regions or groups. Null does nothing.
///
/// # Safety
/// `pool` is null, or a pool that nobody uses any longer.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_free(pool: *mut coldset_pool) {
    // SAFETY: by contract; pools come from `Box::into_raw`.
    unsafe { free(pool) }
}

/// Writes all dirty pages of files and makes them durable.
///
/// Returns the error of the first page that cannot be written now; else, once, the last error of a write that nobody
/// waited for (in the background, of the swap, of a region that was freed).
///
/// # Safety
/// `pool` is null or a pool.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_sync(pool: *const coldset_pool) -> c_int {
    status(|| {
        // SAFETY: by contract.
        let pool = unsafe { object(pool, "the pool") }?;
        Ok(pool.pool.get()?.sync()?)
    })
}

/// Changes the budget to `bytes` while the pool is in use. A smaller budget evicts pages before this returns.
///
/// `COLDSET_NO_MEMORY`: the budget is unchanged, because too much is pinned or promised to regions.
///
/// # Safety
/// `pool` is null or a pool.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_resize(pool: *const coldset_pool, bytes: u64) -> c_int {
    status(|| {
        // SAFETY: by contract.
        let pool = unsafe { object(pool, "the pool") }?;
        Ok(pool.pool.get()?.resize(bytes)?)
    })
}

/// Starts a journal of the pool's decisions in a new file, for `coldset lab replay`.
///
/// # Safety
/// `pool` is null or a pool, `path` null or a string.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_record(
    pool: *const coldset_pool,
    path: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: by contract.
        let (pool, path) = unsafe { (object(pool, "the pool")?, text(path, "the path")?) };
        Ok(pool.pool.get()?.record(path)?)
    })
}

/// Ends the journal, which is then complete unless this returns an error.
///
/// # Safety
/// `pool` is null or a pool.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_stop_recording(pool: *const coldset_pool) -> c_int {
    status(|| {
        // SAFETY: by contract.
        let pool = unsafe { object(pool, "the pool") }?;
        Ok(pool.pool.get()?.stop_recording()?)
    })
}

/// Evicts up to `bytes` bytes of a group (null: of the whole pool) now. If `evicted` is not null, it receives the
/// number of bytes evicted.
///
/// # Safety
/// `pool` is null or a pool, `group` null or a group of it; `evicted` is null or may be written.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_reclaim(
    pool: *const coldset_pool,
    group: *const coldset_group,
    bytes: u64,
    evicted: *mut u64,
) -> c_int {
    status(|| {
        // SAFETY: by contract.
        let gone = unsafe { group_of(pool, group) }?.reclaim(bytes)?;
        if !evicted.is_null() {
            // SAFETY: by contract writable.
            unsafe { put(evicted, gone, "the result") }?;
        }
        Ok(())
    })
}

/// The group, or the root of the pool.
///
/// # Safety
/// Each is null or a live object.
pub(crate) unsafe fn group_of(
    pool: *const coldset_pool,
    group: *const coldset_group,
) -> Result<Group, Failure> {
    // SAFETY: by contract.
    let pool = unsafe { object(pool, "the pool") }?;
    // SAFETY: by contract.
    match unsafe { group.as_ref() } {
        None => Ok(pool.pool.get()?.root()),
        Some(g) => {
            let (pool, group) = (pool.pool.get()?, g.group.get()?);
            if !group.is_of(pool) {
                let text = format!("the group {} is one of another pool", group.name());
                return Err(Failure::new(COLDSET_INVALID, text));
            }
            Ok(group.clone())
        }
    }
}

/// Makes a group without limits below `parent` (null: directly below the root). The group and its name, which metrics
/// use as a label, live as long as the pool.
///
/// Returns null on failure, for example if the name is empty or taken by another group below `parent`.
///
/// # Safety
/// `pool` is null or a pool, `parent` null or a group of it, `name` null or a string.
#[no_mangle]
pub unsafe extern "C" fn coldset_group_new(
    pool: *const coldset_pool,
    parent: *const coldset_group,
    name: *const c_char,
) -> *mut coldset_group {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by contract.
        let name = unsafe { text(name, "the name") }?;
        // SAFETY: by contract.
        let group = unsafe { group_of(pool, parent) }?.group(name, Limits::new())?;
        let group = Owned::new(group);
        Ok(Box::into_raw(Box::new(coldset_group { group })))
    })
}

/// Releases the handle of a group; the group stays in its pool. Null does nothing.
///
/// # Safety
/// `group` is null, or a group that nobody uses any longer.
#[no_mangle]
pub unsafe extern "C" fn coldset_group_free(group: *mut coldset_group) {
    // SAFETY: by contract; groups come from `Box::into_raw`.
    unsafe { free(group) }
}

/// Sets one limit (`COLDSET_LIMIT_...`) of a group to `bytes`; `UINT64_MAX` removes it. A lower max
/// or high takes effect before this returns, as far as pages can be evicted; a thread that has begun to reclaim for a
/// max or high that was lower still takes its batch.
///
/// # Safety
/// `group` is null or a group.
#[no_mangle]
pub unsafe extern "C" fn coldset_group_set(
    group: *const coldset_group,
    limit: c_int,
    bytes: u64,
) -> c_int {
    status(|| {
        let limits = Limits::new();
        let limits = match limit {
            COLDSET_LIMIT_MIN => limits.min(bytes),
            COLDSET_LIMIT_LOW => limits.low(bytes),
            COLDSET_LIMIT_HIGH => limits.high(bytes),
            COLDSET_LIMIT_MAX => limits.max(bytes),
            other => {
                let text = format!("there is no limit {other}; use COLDSET_LIMIT_MIN to _MAX");
                return Err(Failure::new(COLDSET_INVALID, text));
            }
        };
        // SAFETY: by contract.
        let group = unsafe { object(group, "the group") }?;
        Ok(group.group.get()?.set(limits)?)
    })
}

/// Bytes of pages of the group, and of groups below it, that are in memory; 0 on failure.
///
/// # Safety
/// `group` is null or a group.
#[no_mangle]
pub unsafe extern "C" fn coldset_group_usage(group: *const coldset_group) -> u64 {
    guard(0, || {
        // SAFETY: by contract.
        let group = unsafe { object(group, "the group") }?;
        Ok(group.group.get()?.usage())
    })
}
