//! Gathers where a pool stands.

use super::inner::{Pool, PoolInner};
use super::stat::Stats;
use crate::budget::core::Core;
use crate::config::FaultMode;
use crate::meanwhile::meanwhile;
use crate::observe::registry::Observed;
use crate::observe::snapshot::{
    is_level, Generation, GroupSnapshot, Lists, RegionKind, RegionSnapshot, Snapshot,
};
use crate::region::area::Area;
use crate::sys::fork::OfMaker;
use crate::sys::signals::Shield;
use crate::sys::{clock, PAGE};
use coldset_engine::lruvec::LruvecView;
use coldset_engine::memcg::{PageCounter, UNLIMITED};
use coldset_engine::{Counter, Engine, MemcgId, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

const fn bytes(pages: u64) -> u64 {
    pages.saturating_mul(PAGE as u64)
}

impl Pool {
    /// Where the pool stands, in full. [`Pool::stats`] is the short form.
    ///
    /// # Panics
    /// In a child of fork.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.res.of_this_process();
        let snapshot = Observed::snapshot(&*self.inner);
        snapshot.expect("the pager has failed before")
    }
}

impl Observed for OfMaker<PoolInner> {
    fn snapshot(&self) -> Option<Snapshot> {
        let res = &*self.res;
        // The lock may be held for ever in a child of fork.
        if !res.is_of_this_process() {
            return None;
        }
        let stats = Stats::of(res)?;
        meanwhile();
        let _shield = Shield::new();
        let core = res.core_unless_failed()?;
        let top = res.top;
        let (levels, events) = counters(&core, top, true);
        let names = &core.group_names;
        let groups = group(&core, top);
        let kept: Vec<Arc<Area>> = core.regions().cloned().collect();
        let regions = kept.iter().map(|r| {
            let group = names.get(&r.book().memcg).cloned();
            (r, group.unwrap_or_else(|| "/".into()))
        });
        let regions: Vec<_> = regions.collect();
        drop(core);
        meanwhile();
        let regions = regions.into_iter().map(|(r, group)| region(r, group));
        let now_ns = clock::now();
        let c = &res.counts;
        let latency = [
            ("miss", &c.miss_ns),
            ("evict", &c.evict_ns),
            ("writeback", &c.writeback_ns),
            ("lock_wait", &c.lock_ns),
        ];
        Some(Snapshot {
            pool: self.id,
            policy: res.config.policy_name.clone(),
            fault_mode: match (res.pagemap.is_some(), res.config.fault) {
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
            lent_bytes: bytes(stats.lent_pages),
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
    core: &Core,
    memcg: MemcgId,
    all: bool,
) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
    let (mut levels, mut events) = (BTreeMap::new(), BTreeMap::new());
    for &c in Counter::ALL {
        let Some(v) = core.counter(memcg, c) else {
            continue;
        };
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

fn group(core: &Core, memcg: MemcgId) -> GroupSnapshot {
    let (engine, names) = (core.policy.engine(), &core.group_names);
    let (levels, events) = counters(core, memcg, false);
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
        children: children.map(|c| group(core, c)).collect(),
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

fn region(r: &Area, group: String) -> RegionSnapshot {
    let resident: u64 = (0..r.blocks()).map(|b| u64::from(r.in_block(b))).sum();
    RegionSnapshot {
        region: r.book().object.0,
        kind: match r.backing() {
            None => RegionKind::Anonymous,
            Some(b) if b.writable => RegionKind::File,
            Some(_) => RegionKind::FileReadOnly,
        },
        group,
        bytes: bytes(r.pages() as u64),
        resident_bytes: bytes(resident),
    }
}
