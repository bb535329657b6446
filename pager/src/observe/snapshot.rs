//! Where a pool stands, as data: for Python, for the socket, for Prometheus. Sizes are in bytes where
//! the name says so, else in pages; times in nanoseconds.

use crate::budget::histogram::Distribution;
use coldset_engine::Counter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a pool stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Number of the pool in its process, from 1.
    pub pool: u64,
    /// Policy by its name, with `+switch=value` for each switch set.
    pub policy: String,
    /// How misses reach the pager: `sigbus`, `thread` or `explicit`.
    pub fault_mode: String,
    /// Why it is `explicit` although `FaultMode::Auto` asked for the other.
    pub fallback: Option<String>,
    /// When this was taken, on the monotonic clock.
    pub now_ns: u64,
    /// Since the pool was made.
    pub age_ns: u64,
    /// What pages in memory and compressed contents may take.
    pub budget_bytes: u64,
    /// Pages in memory, those on their way included.
    pub resident_bytes: u64,
    /// Pages of files read in order that are mapped from the page cache now; part of the resident ones. Older versions do
    /// not tell.
    #[serde(default)]
    pub lent_bytes: u64,
    /// Memory of compressed contents that counts to the budget.
    pub store_bytes: u64,
    /// Memory of compressed contents, counted to the budget or not.
    pub store_memory_bytes: u64,
    /// The highest sum of resident and store so far.
    pub peak_bytes: u64,
    /// Dirty pages of files, as far as known.
    pub dirty_bytes: u64,
    /// Contents in swap.
    pub swap_used_bytes: u64,
    /// Contents that swap can hold.
    pub swap_bytes: u64,
    /// What is in which tier of the swap, by the names of [`crate::store::Tiers`]' fields.
    pub swap_tiers: BTreeMap<String, u64>,
    /// Counters of the pager, by the names of [`crate::Stats`]' fields.
    pub counters: BTreeMap<String, u64>,
    /// Levels of the pool (pages), by the kernel's names.
    pub levels: BTreeMap<String, i64>,
    /// Events of the pool, by the kernel's names; those that [`Stats::engine`](crate::Stats::engine) has.
    pub events: BTreeMap<String, i64>,
    /// Latencies: `miss` (from the miss to the page), `evict` (a page's share of its batch), `writeback`
    /// (a run of pages to its file), `lock_wait` (for the engine's lock, where it was not free).
    pub latency: BTreeMap<String, Distribution>,
    /// The root group, with the others below it.
    pub groups: GroupSnapshot,
    /// Regions, oldest first.
    pub regions: Vec<RegionSnapshot>,
}

/// A group. All but `lists` includes the groups below.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupSnapshot {
    /// Path from the root, `/`.
    pub name: String,
    /// The engine's number of it.
    pub memcg: u32,
    /// Pages charged now, in bytes.
    pub usage_bytes: u64,
    /// Most pages charged so far.
    pub peak_bytes: u64,
    /// Contents in swap.
    pub swap_bytes: u64,
    /// Protected whatever happens.
    pub min_bytes: u64,
    /// Protected if there is another way.
    pub low_bytes: u64,
    /// Limit above which misses wait; none = no limit.
    pub high_bytes: Option<u64>,
    /// Limit; of the root, what the compressed store leaves of the budget.
    pub max_bytes: Option<u64>,
    /// Levels (pages) that are not zero, as memory.stat has them.
    pub levels: BTreeMap<String, i64>,
    /// Events that are not zero, as memory.stat and memory.events have them.
    pub events: BTreeMap<String, i64>,
    /// What the group's own lists hold.
    pub lists: Lists,
    /// Groups directly below.
    pub children: Vec<GroupSnapshot>,
}

/// The lists of a group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Lists {
    /// Lists by generation.
    Generations {
        /// The oldest generation of anonymous pages.
        min_seq_anon: u64,
        /// The oldest generation of file pages.
        min_seq_file: u64,
        /// The youngest generation.
        max_seq: u64,
        /// All generations, oldest first.
        generations: Vec<Generation>,
    },
    /// Active and inactive, in pages; a policy with one list a type uses the inactive ones.
    Classic {
        /// Inactive anonymous pages.
        inactive_anon: u64,
        /// Active anonymous pages.
        active_anon: u64,
        /// Inactive file pages.
        inactive_file: u64,
        /// Active file pages.
        active_file: u64,
    },
}

/// A generation of a group's lists.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Generation {
    /// Its sequence number; the youngest has the highest.
    pub seq: u64,
    /// Since it became the youngest.
    pub age_ns: u64,
    /// Anonymous pages on its lists.
    pub anon_pages: u64,
    /// File pages on its lists.
    pub file_pages: u64,
}

/// What a region is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// Anonymous memory, backed by swap.
    Anonymous,
    /// A file or storage, shared read-write.
    File,
    /// The same, read-only.
    FileReadOnly,
}

/// A region of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionSnapshot {
    /// Number of the region in its pool.
    pub region: u32,
    /// What it is.
    pub kind: RegionKind,
    /// Path of its group.
    pub group: String,
    /// Bytes of address space, whole pages.
    pub bytes: u64,
    /// Pages of it in memory, those on their way included.
    pub resident_bytes: u64,
}

/// Counters that are levels, not events.
pub(crate) fn is_level(c: Counter) -> bool {
    use Counter::*;
    matches!(
        c,
        InactiveAnon
            | ActiveAnon
            | InactiveFile
            | ActiveFile
            | Unevictable
            | AnonPages
            | FilePages
            | KernelPages
            | KernelOther
            | FileDirty
            | Writeback
            | SwapCached
            | IsolatedAnon
            | IsolatedFile
    )
}
