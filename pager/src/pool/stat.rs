//! What a pool has done and where it stands.

use super::inner::Pool;
use crate::budget::histogram::Distribution;
use crate::budget::resources::Resources;
use crate::store::Tiers;
use crate::sys::signals::Shield;
use crate::sys::PAGE;
use coldset_engine::Counter;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Latencies, each at most 1/16 above the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// Events.
    pub count: u64,
    /// Half of them took at most this long.
    pub median_ns: u64,
    /// 99 % of them took at most this long.
    pub p99_ns: u64,
    /// All of them took at most this long.
    pub max_ns: u64,
}

impl From<Distribution> for Latency {
    fn from(d: Distribution) -> Self {
        Self {
            count: d.count,
            median_ns: d.median_ns(),
            p99_ns: d.p99_ns(),
            max_ns: d.max_ns,
        }
    }
}

/// A snapshot. Pages are 4 KiB.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Pages that may be in memory, compressed contents included.
    pub budget_pages: u64,
    /// Pages in memory, with those on their way, those that are lent, and what the kernel has read ahead of these.
    pub resident_pages: u64,
    /// Pages of files read in order that are mapped from the page cache now; [`resident_pages`](Self::resident_pages) counts
    /// them, too.
    pub lent_pages: u64,
    /// Memory of compressed contents that counts to the budget.
    pub store_pages: u64,
    /// Memory of records and tables that counts to the budget.
    pub overhead_pages: u64,
    /// Bytes of records of pages, tables of swap slots and page tables, counted to the budget or not.
    pub overhead_bytes: u64,
    /// Highest sum of what counts so far.
    pub peak_pages: u64,
    /// Bytes of memory of compressed contents, counted to the budget or not.
    pub store_bytes: u64,
    /// What swap keeps where, and what recompression has saved.
    pub swap: Tiers,
    /// Batches of transfers to files go through io_uring; else one transfer after the other.
    pub io_uring: bool,
    /// Swap slots in use and in all.
    pub swap_slots: (u64, u64),
    /// Dirty pages of files, as far as known.
    pub dirty_pages: u64,
    /// Misses handled.
    pub misses: u64,
    /// Pages brought in, read-ahead included.
    pub filled: u64,
    /// Misses that failed.
    pub failed_misses: u64,
    /// Pages taken out.
    pub evicted: u64,
    /// Pages read from swap.
    pub swapped_in: u64,
    /// Pages written to swap.
    pub swapped_out: u64,
    /// Pages read from files.
    pub read_file: u64,
    /// Pages of files read in order that have been mapped from the page cache so far, neither filled nor evicted. It only
    /// grows; [`lent_pages`](Self::lent_pages) is how many are mapped so now.
    pub lent: u64,
    /// Pages written by flusher, sync and throttled writers.
    pub written_back: u64,
    /// Pages that turned out dirty when they were evicted, written then.
    pub written_inline: u64,
    /// Writers made to write by the hard dirty limit.
    pub throttled_writes: u64,
    /// Transfers to and from swap and files that have failed: reads, and writes of however many pages. Misses that failed
    /// because of a read are in [`failed_misses`](Self::failed_misses), too.
    pub store_errors: u64,
    /// Transfers of local files that were tried again after `EIO`.
    pub retried: u64,
    /// Reclaim tasks run.
    pub reclaims: u64,
    /// Sweeps of a region.
    pub sweeps: u64,
    /// Mapped pages met by sweeps.
    pub swept: u64,
    /// Misses that waited for an eviction to end.
    pub gate_waits: u64,
    /// From the miss to the page.
    pub miss: Latency,
    /// Of an evicted page, its batch divided by its pages.
    pub evict: Latency,
    /// Counters of the whole pool by the kernel's names: the engine's, and of the pager `pgmajfault` (misses whose page was
    /// read from a file or swap), `pswpin` and `pswpout` (pages), `pgpgin` and `pgpgout` (KiB read from and written to
    /// files, the swap file among them; compressed memory is none). What the kernel reads and serves by itself is in none
    /// of them: pages that are [`lent`](Self::lent), and minor faults; so there is no `pgfault`.
    pub engine: Vec<(&'static str, i64)>,
}

impl Pool {
    /// Where the pool stands.
    ///
    /// # Panics
    /// In a child of fork.
    pub fn stats(&self) -> Stats {
        let stats = Stats::of(self.inner.res.of_this_process());
        stats.expect("the pager has failed before")
    }
}

impl Stats {
    /// None if a panic has left the engine in an unknown state.
    pub(super) fn of(res: &Resources) -> Option<Self> {
        let c = &res.counts;
        let get = |a: &AtomicU64| a.load(Relaxed);
        let _shield = Shield::new();
        let core = res.core_unless_failed()?;
        let count = |k: Counter| core.counter(res.top, k);
        let engine = Counter::ALL
            .iter()
            .filter_map(|&k| Some((k.name(), count(k)?)));
        let engine = engine.collect();
        let dirty = count(Counter::FileDirty).unwrap_or(0).max(0) as u64;
        let (slots, overhead) = (core.policy.slots(), res.overhead_bytes(&core));
        let lent_pages = core.regions().map(|r| r.memory().lent_pages()).sum();
        drop(core);
        Some(Stats {
            budget_pages: res.gate.budget(),
            resident_pages: res.gate.resident(),
            lent_pages,
            store_pages: res.gate.store(),
            overhead_pages: res.gate.extra(),
            overhead_bytes: overhead,
            peak_pages: res.gate.peak(),
            store_bytes: res.swap.as_ref().map_or(0, |s| s.bytes()),
            swap: res.swap.as_ref().map(|s| s.tiers()).unwrap_or_default(),
            io_uring: crate::sys::ring::available().is_ok(),
            swap_slots: slots,
            dirty_pages: dirty,
            misses: get(&c.misses),
            filled: get(&c.filled),
            failed_misses: get(&c.failed_misses),
            evicted: get(&c.evicted),
            swapped_in: get(&c.swapped_in),
            swapped_out: get(&c.swapped_out),
            read_file: get(&c.read_file),
            lent: get(&c.lent),
            written_back: get(&c.written_back),
            written_inline: get(&c.written_inline),
            throttled_writes: get(&c.throttled_writes),
            store_errors: get(&c.store_errors),
            retried: get(&c.retried),
            reclaims: get(&c.reclaims),
            sweeps: get(&c.sweeps),
            swept: get(&c.swept),
            gate_waits: res.gate.waits(),
            miss: c.miss_ns.read().into(),
            evict: c.evict_ns.read().into(),
            engine,
        })
    }

    /// Bytes in memory that count to the budget.
    pub fn resident_bytes(&self) -> u64 {
        (self.resident_pages + self.store_pages + self.overhead_pages) * PAGE as u64
    }

    /// Counters of events, by the names of their fields.
    pub fn counters(&self) -> [(&'static str, u64); 17] {
        [
            ("misses", self.misses),
            ("filled", self.filled),
            ("failed_misses", self.failed_misses),
            ("evicted", self.evicted),
            ("swapped_in", self.swapped_in),
            ("swapped_out", self.swapped_out),
            ("read_file", self.read_file),
            ("lent", self.lent),
            ("written_back", self.written_back),
            ("written_inline", self.written_inline),
            ("throttled_writes", self.throttled_writes),
            ("store_errors", self.store_errors),
            ("retried", self.retried),
            ("reclaims", self.reclaims),
            ("sweeps", self.sweeps),
            ("swept", self.swept),
            ("gate_waits", self.gate_waits),
        ]
    }

    /// One of [`Self::engine`] by its name; none if a pool does not count this.
    pub fn engine(&self, name: &str) -> Option<i64> {
        self.engine
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| *v)
    }
}
