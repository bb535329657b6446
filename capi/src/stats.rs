//! Statistics, as a structure and as JSON.

use crate::error::*;
use crate::pool::coldset_pool;
use coldset_pager::{Latency, Stats, PAGE_SIZE};
use serde_json::{json, Map, Value};
use std::ffi::{c_char, c_int, CString};

/// The state of a pool. Pages are 4 KiB. Later versions may append fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct coldset_stats {
    /// The budget in bytes.
    pub budget_bytes: u64,
    /// Bytes that count to it: pages in memory, memory of compressed contents, and tables that grow with
    /// use, above a share that every pool needs. The metric `coldset_resident_bytes` is `page_bytes` below.
    pub resident_bytes: u64,
    /// Highest `resident_bytes` so far.
    pub peak_bytes: u64,
    /// Bytes of memory of compressed contents.
    pub store_bytes: u64,
    /// Swap slots in use.
    pub swap_slots_used: u64,
    /// Swap slots in all.
    pub swap_slots: u64,
    /// Dirty pages of files, as far as known.
    pub dirty_pages: u64,
    /// Misses handled.
    pub misses: u64,
    /// Misses that failed.
    pub failed_misses: u64,
    /// Pages brought in, read-ahead included.
    pub filled: u64,
    /// Pages taken out.
    pub evicted: u64,
    /// Pages read from swap.
    pub swapped_in: u64,
    /// Pages written to swap.
    pub swapped_out: u64,
    /// Pages read from files.
    pub read_file: u64,
    /// Pages written to files in the background and by sync.
    pub written_back: u64,
    /// Pages written to files when they were evicted.
    pub written_inline: u64,
    /// Transfers to and from swap and files that have failed: reads and writes.
    pub store_errors: u64,
    /// Half of all misses took at most this long, in nanoseconds.
    pub miss_median_ns: u64,
    /// 99 % of all misses took at most this long, in nanoseconds.
    pub miss_p99_ns: u64,
    /// Transfers of local files that were tried again after EIO.
    pub retried: u64,
    /// Bytes of records of pages, tables of swap slots and page tables, counted to the budget or not.
    pub overhead_bytes: u64,
    /// Bytes of pages in memory, a part of `resident_bytes`; the metric `coldset_resident_bytes` is this.
    pub page_bytes: u64,
    /// Bytes of files read in order that are mapped from the page cache now, a part of `page_bytes`.
    pub lent_bytes: u64,
}

impl From<&Stats> for coldset_stats {
    fn from(s: &Stats) -> Self {
        Self {
            budget_bytes: s.budget_pages * PAGE_SIZE as u64,
            resident_bytes: s.resident_bytes(),
            peak_bytes: s.peak_pages * PAGE_SIZE as u64,
            store_bytes: s.store_bytes,
            swap_slots_used: s.swap_slots.0,
            swap_slots: s.swap_slots.1,
            dirty_pages: s.dirty_pages,
            misses: s.misses,
            failed_misses: s.failed_misses,
            filled: s.filled,
            evicted: s.evicted,
            swapped_in: s.swapped_in,
            swapped_out: s.swapped_out,
            read_file: s.read_file,
            written_back: s.written_back,
            written_inline: s.written_inline,
            store_errors: s.store_errors,
            miss_median_ns: s.miss.median_ns,
            miss_p99_ns: s.miss.p99_ns,
            retried: s.retried,
            overhead_bytes: s.overhead_bytes,
            page_bytes: s.resident_pages * PAGE_SIZE as u64,
            lent_bytes: s.lent_pages * PAGE_SIZE as u64,
        }
    }
}

/// Statistics of a pool.
///
/// # Safety
/// `pool` is null or a pool.
unsafe fn stats(pool: *const coldset_pool) -> Result<Stats, Failure> {
    // SAFETY: by contract.
    let pool = unsafe { object(pool, "the pool") }?;
    Ok(pool.pool.get()?.stats())
}

/// Reads the state of the pool. `size` is the caller's `sizeof(struct coldset_stats)`: a newer library fills no more
/// than that, and an older one stores zeroes in the fields it does not know.
///
/// # Safety
/// `pool` is null or a pool; `to` is null or `size` bytes of it may be written.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_stats(
    pool: *const coldset_pool,
    to: *mut coldset_stats,
    size: usize,
) -> c_int {
    status(|| {
        // SAFETY: by contract.
        let now = coldset_stats::from(&unsafe { stats(pool) }?);
        if to.is_null() {
            let text = "the place for the statistics is a null pointer";
            return Err(Failure::new(COLDSET_INVALID, text));
        }
        let known = size.min(size_of::<coldset_stats>());
        let from = (&raw const now).cast::<u8>();
        // SAFETY: `known` bytes can be read from `now`, which has no padding, and by contract `size`
        // bytes can be written; they do not overlap, since `now` is local.
        unsafe {
            to.cast::<u8>().write_bytes(0, size);
            to.cast::<u8>().copy_from_nonoverlapping(from, known);
        }
        Ok(())
    })
}

/// The state of the pool as a JSON object, with latencies and the engine's counters. Free it with
/// `coldset_string_free`. Null on failure.
///
/// # Safety
/// `pool` is null or a pool.
#[no_mangle]
pub unsafe extern "C" fn coldset_pool_stats_json(pool: *const coldset_pool) -> *mut c_char {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by contract.
        let s = unsafe { stats(pool) }?;
        let text = CString::new(json(&s).to_string());
        let text = text.map_err(|e| Failure::new(COLDSET_INTERNAL, e.to_string()))?;
        Ok(text.into_raw())
    })
}

/// Frees a string that this library returned. Null does nothing.
///
/// # Safety
/// `string` is null, or such a string that nobody uses any longer.
#[no_mangle]
pub unsafe extern "C" fn coldset_string_free(string: *mut c_char) {
    guard((), || {
        if !string.is_null() {
            // SAFETY: by contract it comes from `CString::into_raw`.
            drop(unsafe { CString::from_raw(string) });
        }
        Ok(())
    });
}

fn json(s: &Stats) -> Value {
    let c = coldset_stats::from(s);
    let latency = |l: &Latency| {
        json!({
            "count": l.count, "median_ns": l.median_ns, "p99_ns": l.p99_ns, "max_ns": l.max_ns,
        })
    };
    let engine: Map<String, Value> = s
        .engine
        .iter()
        .map(|(name, value)| ((*name).to_string(), json!(value)))
        .collect();
    let named = |all: &[(&str, u64)]| -> Map<String, Value> {
        all.iter()
            .map(|&(n, v)| (n.to_string(), json!(v)))
            .collect()
    };
    let mut all = named(&s.counters());
    let Value::Object(more) = json!({
        "budget_bytes": c.budget_bytes,
        "resident_bytes": c.resident_bytes,
        "peak_bytes": c.peak_bytes,
        "store_bytes": c.store_bytes,
        "page_bytes": c.page_bytes,
        "lent_bytes": c.lent_bytes,
        "swap_slots_used": c.swap_slots_used,
        "swap_slots": c.swap_slots,
        "dirty_pages": c.dirty_pages,
        "swap": named(&s.swap.named()),
        "io_uring": s.io_uring,
        "miss": latency(&s.miss),
        "evict": latency(&s.evict),
        "engine": engine,
    }) else {
        unreachable!("an object")
    };
    all.extend(more);
    Value::Object(all)
}
