//! Where a pool stands, as data: for Python, for the socket, for Prometheus. Sizes are in bytes where
//! the name says so, else in pages; times in nanoseconds.

use super::histogram::Distribution;
use crate::config::FaultMode;
use crate::pool::inner::{Pool, PoolInner};
use crate::region::area::RegionInner;
use crate::sys::{clock, PAGE};
use coldset_engine::lruvec::LruvecView;
use coldset_engine::memcg::{PageCounter, UNLIMITED};
use coldset_engine::{Counter, Engine, MemcgId, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// The engine's levels of the pool (pages), by the kernel's names.
    pub levels: BTreeMap<String, i64>,
    /// The engine's events of the pool, by the kernel's names.
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
    /// Pages charged.
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
    /// The engine's levels (pages) that are not zero, as memory.stat has them.
    pub levels: BTreeMap<String, i64>,
    /// The engine's events that are not zero, as memory.stat and memory.events have them.
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
    /// Multi-generational.
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

/// A generation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Generation {
    /// Its number.
    pub seq: u64,
    /// Since it became the youngest.
    pub age_ns: u64,
    /// Anonymous pages.
    pub anon_pages: u64,
    /// File pages.
    pub file_pages: u64,
}

/// What a region is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// Anonymous memory.
    Anonymous,
    /// A file or storage, shared read-write.
    File,
    /// The same, read-only.
    FileReadOnly,
}

/// A region.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionSnapshot {
    /// Number of the region in its pool.
    pub region: u32,
    /// What it is.
    pub kind: RegionKind,
    /// Path of its group.
    pub group: String,
    /// Its size.
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
            | FileDirty
            | Writeback
            | SwapCached
            | IsolatedAnon
            | IsolatedFile
    )
}

const fn bytes(pages: u64) -> u64 {
    pages.saturating_mul(PAGE as u64)
}

impl Pool {
    /// Where the pool stands, in full. [`Pool::stats`] is the short form.
    ///
    /// # Panics
    /// In a child of fork.
    pub fn snapshot(&self) -> Snapshot {
        self.inner
            .of_this_process()
            .snapshot()
            .expect("the pager has failed before")
    }
}

impl PoolInner {
    /// None if a panic has left the engine in an unknown state.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let stats = self.stats_unless_failed()?;
        let core = self.core_unless_failed()?;
        let engine = core.policy.engine();
        let top = core.policy.top;
        let (levels, events) = counters(engine, top, true);
        let names = &core.group_names;
        let groups = group(engine, top, names);
        let kept: Vec<Arc<RegionInner>> = core.regions.values().cloned().collect();
        let regions = kept.iter().map(|r| {
            let group = names.get(&r.book.memcg).cloned();
            (r, group.unwrap_or_else(|| "/".into()))
        });
        let regions: Vec<_> = regions.collect();
        drop(core);
        let regions = regions.into_iter().map(|(r, group)| region(r, group));
        let now_ns = clock::now();
        let c = &self.counts;
        let latency = [
            ("miss", &c.miss_ns),
            ("evict", &c.evict_ns),
            ("writeback", &c.writeback_ns),
            ("lock_wait", &c.lock_ns),
        ];
        Some(Snapshot {
            pool: self.id,
            policy: self.config.policy_name.clone(),
            fault_mode: match (self.pagemap.is_some(), self.config.fault) {
                (true, FaultMode::Thread) => "thread",
                (true, _) => "sigbus",
                (false, _) => "explicit",
            }
            .into(),
            fallback: self.missing.as_ref().map(ToString::to_string),
            now_ns,
            age_ns: now_ns - self.born_ns,
            budget_bytes: bytes(stats.budget_pages),
            resident_bytes: bytes(stats.resident_pages),
            store_bytes: bytes(stats.store_pages),
            store_memory_bytes: stats.store_bytes,
            peak_bytes: bytes(stats.peak_pages),
            dirty_bytes: bytes(stats.dirty_pages),
            swap_used_bytes: bytes(stats.swap_slots.0),
            swap_bytes: bytes(stats.swap_slots.1),
            swap_tiers: stats
                .swap
                .named()
                .into_iter()
                .map(|(n, v)| (n.to_string(), v))
                .collect(),
            counters: stats
                .counters()
                .into_iter()
                .map(|(k, v)| (k.to_string(), v))
                .collect(),
            levels,
            events,
            latency: latency
                .into_iter()
                .map(|(k, h)| (k.to_string(), h.read()))
                .collect(),
            groups,
            regions: regions.collect(),
        })
    }
}

/// Levels and events of a group and what is below it; with `all`, also those that are zero.
fn counters(
    engine: &Engine,
    memcg: MemcgId,
    all: bool,
) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
    let (mut levels, mut events) = (BTreeMap::new(), BTreeMap::new());
    for &c in Counter::ALL {
        let v = engine.memcgs.live(memcg, c);
        if all || v != 0 {
            let to = if is_level(c) {
                &mut levels
            } else {
                &mut events
            };
            to.insert(c.name().to_string(), v);
        }
    }
    (levels, events)
}

fn group(engine: &Engine, memcg: MemcgId, names: &BTreeMap<MemcgId, String>) -> GroupSnapshot {
    let (levels, events) = counters(engine, memcg, false);
    let m = &engine.memcgs[memcg];
    let counter: &PageCounter = m.memory();
    let limit = |pages: u64| (pages < UNLIMITED).then(|| bytes(pages));
    let below = names.keys().copied();
    let children = below.filter(|&c| engine.memcgs[c].parent() == Some(memcg));
    GroupSnapshot {
        name: names.get(&memcg).cloned().unwrap_or_else(|| "/".into()),
        memcg: memcg.0,
        usage_bytes: bytes(counter.usage()),
        peak_bytes: bytes(counter.watermark()),
        swap_bytes: bytes(m.swap().usage()),
        min_bytes: bytes(counter.min()),
        low_bytes: bytes(counter.low()),
        high_bytes: limit(counter.high()),
        max_bytes: limit(counter.max()),
        levels,
        events,
        lists: lists(engine, memcg),
        children: children.map(|c| group(engine, c, names)).collect(),
    }
}

fn lists(engine: &Engine, memcg: MemcgId) -> Lists {
    match engine.lruvec_view(memcg, NodeId(0)) {
        Some(LruvecView::MultiGen { gens, .. }) => {
            let max_seq = gens.last().map_or(0, |g| g.seq);
            let first = |there: fn(&coldset_engine::lruvec::GenView) -> bool| {
                gens.iter().find(|g| there(g)).map_or(max_seq, |g| g.seq)
            };
            Lists::Generations {
                min_seq_anon: first(|g| g.anon.is_some()),
                min_seq_file: first(|g| g.file.is_some()),
                max_seq,
                generations: gens
                    .iter()
                    .map(|g| Generation {
                        seq: g.seq,
                        age_ns: g.age,
                        anon_pages: g.anon.unwrap_or(0),
                        file_pages: g.file.unwrap_or(0),
                    })
                    .collect(),
            }
        }
        view => {
            use coldset_engine::lruvec::LruList::*;
            let all = match view {
                Some(LruvecView::Lists(all)) => all,
                _ => Vec::new(),
            };
            let of = |list| all.iter().find(|l| l.0 == list).map_or(0, |l| l.1);
            Lists::Classic {
                inactive_anon: of(InactiveAnon),
                active_anon: of(ActiveAnon),
                inactive_file: of(InactiveFile),
                active_file: of(ActiveFile),
            }
        }
    }
}

fn region(r: &RegionInner, group: String) -> RegionSnapshot {
    let resident: u64 = (0..r.blocks()).map(|b| u64::from(r.in_block(b))).sum();
    RegionSnapshot {
        region: r.book.object.0,
        kind: match &r.backing {
            None => RegionKind::Anonymous,
            Some(b) if b.writable => RegionKind::File,
            Some(_) => RegionKind::FileReadOnly,
        },
        group,
        bytes: bytes(r.pages() as u64),
        resident_bytes: bytes(resident),
    }
}
