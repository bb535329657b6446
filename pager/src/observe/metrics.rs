//! Snapshots in the text form of Prometheus (OpenMetrics 1.0).

use super::registry::{snapshot_all, ProcessSnapshot};
use super::snapshot::{GroupSnapshot, Lists, RegionKind, Snapshot};
use crate::budget::histogram::Distribution;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{text, DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Bounds of the buckets told: powers of two from 1 us to 17 s. The finer ones would be 600 lines.
const OCTAVES: std::ops::RangeInclusive<u32> = 10..=34;

/// Where all pools of this process stand, in that form.
pub(crate) fn exposition() -> String {
    exposition_of(snapshot_all())
}

fn exposition_of(snapshot: ProcessSnapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(snapshot)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("writing to a string");
    text
}

/// A metric as Prometheus is told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name, with the unit.
    pub name: String,
    /// `gauge`, `counter` or `histogram`.
    pub kind: String,
    /// What it is.
    pub help: String,
}

/// All metrics, in the order of a scrape.
pub fn metrics() -> Vec<Metric> {
    let nothing = ProcessSnapshot {
        version: ProcessSnapshot::VERSION,
        pid: 0,
        program: String::new(),
        pools: Vec::new(),
    };
    let mut all: Vec<Metric> = Vec::new();
    for line in exposition_of(nothing).lines() {
        let mut words = line.splitn(4, ' ');
        let (_, Some(what), Some(name), Some(rest)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        match what {
            "HELP" => all.push(Metric {
                name: name.into(),
                kind: String::new(),
                help: rest.into(),
            }),
            "TYPE" => {
                if let Some(m) = all.iter_mut().find(|m| m.name == name) {
                    m.kind = rest.into();
                }
            }
            _ => {}
        }
    }
    // The text form adds an ending to samples of counters.
    for m in all.iter_mut().filter(|m| m.kind == "counter") {
        m.name.push_str("_total");
    }
    all
}

#[derive(Debug)]
struct Scrape(ProcessSnapshot);

type Labels = Vec<(&'static str, String)>;

impl Scrape {
    /// One line for each pool, group, or whatever `rows` makes of a pool.
    fn gauge(
        &self,
        to: &mut DescriptorEncoder<'_>,
        (name, help, unit): (&str, &str, Option<Unit>),
        rows: impl Fn(&Snapshot) -> Vec<(Labels, i64)>,
    ) -> fmt::Result {
        let mut e = to.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for pool in &self.0.pools {
            for (labels, v) in rows(pool) {
                let labels = with_pool(pool, labels);
                e.encode_family(&labels)?.encode_gauge(&v)?;
            }
        }
        Ok(())
    }

    fn counter(
        &self,
        to: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        rows: impl Fn(&Snapshot) -> Vec<(Labels, u64)>,
    ) -> fmt::Result {
        let mut e = to.encode_descriptor(name, help, None, MetricType::Counter)?;
        for pool in &self.0.pools {
            for (labels, v) in rows(pool) {
                let labels = with_pool(pool, labels);
                let none: Option<&prometheus_client::metrics::exemplar::Exemplar<Labels, f64>> =
                    None;
                e.encode_family(&labels)?.encode_counter(&v, none)?;
            }
        }
        Ok(())
    }

    fn histogram(&self, to: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> fmt::Result {
        let full = format!("{name}_duration");
        let mut e =
            to.encode_descriptor(&full, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for pool in &self.0.pools {
            let key = name.strip_prefix("coldset_").unwrap_or(name);
            let Some(d) = pool.latency.get(key) else {
                continue;
            };
            let labels = with_pool(pool, Vec::new());
            e.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                d.sum_ns as f64 / 1e9,
                d.count,
                &buckets(d),
                None,
            )?;
        }
        Ok(())
    }
}

/// Bounds in seconds, and what lies between each and the one before.
fn buckets(d: &Distribution) -> Vec<(f64, u64)> {
    let mut before = 0;
    let mut all: Vec<(f64, u64)> = OCTAVES
        .map(|o| {
            let ns = (1u64 << o) - 1;
            let upto = d.upto(ns);
            let n = upto - before;
            before = upto;
            (ns as f64 / 1e9, n)
        })
        .collect();
    all.push((f64::INFINITY, d.count - before));
    all
}

fn with_pool(pool: &Snapshot, mut labels: Labels) -> Labels {
    labels.insert(0, ("pool", pool.pool.to_string()));
    labels
}

fn one(v: u64) -> Vec<(Labels, i64)> {
    vec![(Vec::new(), v as i64)]
}

/// A group and all below it.
fn each_group<'a>(g: &'a GroupSnapshot, to: &mut Vec<&'a GroupSnapshot>) {
    to.push(g);
    g.children.iter().for_each(|c| each_group(c, to));
}

fn of_groups<T>(pool: &Snapshot, f: impl Fn(&GroupSnapshot) -> Option<T>) -> Vec<(Labels, T)> {
    let mut all = Vec::new();
    each_group(&pool.groups, &mut all);
    let rows = all.into_iter();
    rows.filter_map(|g| Some((vec![("group", g.name.clone())], f(g)?)))
        .collect()
}

impl Collector for Scrape {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut to;
        let bytes = || Some(Unit::Bytes);
        self.gauge(
            to,
            (
                "coldset_pool",
                "A pool, with its policy and how misses reach it.",
                None,
            ),
            |p| {
                vec![(
                    vec![
                        ("policy", p.policy.clone()),
                        ("fault_mode", p.fault_mode.clone()),
                    ],
                    1,
                )]
            },
        )?;
        type Field = fn(&Snapshot) -> u64;
        let fields: [(&str, &str, Field); 9] = [
            (
                "coldset_budget",
                "What pages in memory and compressed contents may take.",
                |p| p.budget_bytes,
            ),
            (
                "coldset_resident",
                "Pages in memory, without the store (`resident_bytes` of Python and C is the sum of both, and tables).",
                |p| p.resident_bytes,
            ),
            (
                "coldset_lent",
                "Pages of files read in order that are mapped from the page cache now; part of resident.",
                |p| p.lent_bytes,
            ),
            (
                "coldset_store",
                "Memory of compressed contents that counts to the budget.",
                |p| p.store_bytes,
            ),
            (
                "coldset_store_memory",
                "Memory of compressed contents, counted to the budget or not.",
                |p| p.store_memory_bytes,
            ),
            ("coldset_peak", "Highest sum of resident and store.", |p| {
                p.peak_bytes
            }),
            ("coldset_dirty", "Dirty pages of files, as known.", |p| {
                p.dirty_bytes
            }),
            ("coldset_swap_used", "Contents in swap.", |p| {
                p.swap_used_bytes
            }),
            ("coldset_swap_size", "Contents that swap can hold.", |p| {
                p.swap_bytes
            }),
        ];
        for (name, help, f) in fields {
            self.gauge(to, (name, help, bytes()), |p| one(f(p)))?;
        }
        for (name, help) in [
            ("coldset_miss", "From a miss to the page."),
            (
                "coldset_evict",
                "Taking a page out: its share of its batch.",
            ),
            (
                "coldset_writeback",
                "Writing a run of dirty pages to a file.",
            ),
            (
                "coldset_lock_wait",
                "Waiting for the engine's lock where it was not free.",
            ),
        ] {
            self.histogram(to, name, help)?;
        }
        self.counter(
            to,
            (
                "coldset_pager_events",
                "Counters of the pager (coldset_pager::Stats).",
            ),
            |p| {
                let all = p.counters.iter();
                all.map(|(k, &v)| (vec![("event", k.clone())], v)).collect()
            },
        )?;
        let named = |k: &str| vec![("name", k.to_string())];
        self.counter(
            to,
            (
                "coldset_engine_events",
                "Events of the engine, by the kernel's names.",
            ),
            |p| {
                let all = p.events.iter();
                all.map(|(k, &v)| (named(k), v.max(0) as u64)).collect()
            },
        )?;
        self.gauge(
            to,
            (
                "coldset_engine_level_pages",
                "Levels of the engine, by the kernel's names.",
                None,
            ),
            |p| p.levels.iter().map(|(k, &v)| (named(k), v)).collect(),
        )?;
        type Limit = fn(&GroupSnapshot) -> Option<u64>;
        let limits: [(&str, &str, Limit); 6] = [
            (
                "coldset_group_usage",
                "Pages charged to a group and below.",
                |g| Some(g.usage_bytes),
            ),
            ("coldset_group_swap", "Contents of a group in swap.", |g| {
                Some(g.swap_bytes)
            }),
            ("coldset_group_min", "memory.min of a group.", |g| {
                Some(g.min_bytes)
            }),
            ("coldset_group_low", "memory.low of a group.", |g| {
                Some(g.low_bytes)
            }),
            (
                "coldset_group_high",
                "memory.high of a group that has one.",
                |g| g.high_bytes,
            ),
            (
                "coldset_group_max",
                "memory.max of a group that has one; of the root what the budget leaves to pages beside the store.",
                |g| g.max_bytes,
            ),
        ];
        for (name, help, f) in limits {
            self.gauge(to, (name, help, bytes()), |p| {
                of_groups(p, |g| f(g).map(|v| v as i64))
            })?;
        }
        self.counter(
            to,
            (
                "coldset_group_events",
                "Events of a group and below, by the kernel's names.",
            ),
            |p| {
                let mut rows = Vec::new();
                for (labels, events) in of_groups(p, |g| Some(g.events.clone())) {
                    for (k, v) in events {
                        let mut labels = labels.clone();
                        labels.push(("name", k));
                        rows.push((labels, v.max(0) as u64));
                    }
                }
                rows
            },
        )?;
        self.generations(to)?;
        self.gauge(
            to,
            (
                "coldset_regions",
                "Bytes of all regions of a kind.",
                bytes(),
            ),
            |p| of_regions(p, |r| r.bytes),
        )?;
        self.gauge(
            to,
            (
                "coldset_regions_resident",
                "Bytes of all regions of a kind that are in memory.",
                bytes(),
            ),
            |p| of_regions(p, |r| r.resident_bytes),
        )
    }
}

impl Scrape {
    /// Pages of a generation go by its age, 0 = the youngest: numbers would make new series for ever.
    fn generations(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.gauge(
            to,
            (
                "coldset_group_generation_pages",
                "Pages of a group by generation, counted from the youngest (0), and type.",
                None,
            ),
            |p| {
                let mut rows = Vec::new();
                for (labels, lists) in of_groups(p, |g| Some(g.lists.clone())) {
                    let Lists::Generations {
                        max_seq,
                        generations,
                        ..
                    } = lists
                    else {
                        continue;
                    };
                    for g in generations {
                        for (kind, pages) in [("anon", g.anon_pages), ("file", g.file_pages)] {
                            let mut labels = labels.clone();
                            labels.push(("age", (max_seq - g.seq).to_string()));
                            labels.push(("type", kind.into()));
                            rows.push((labels, pages as i64));
                        }
                    }
                }
                rows
            },
        )
    }
}

fn of_regions(
    p: &Snapshot,
    f: impl Fn(&super::snapshot::RegionSnapshot) -> u64,
) -> Vec<(Labels, i64)> {
    [
        ("anonymous", RegionKind::Anonymous),
        ("file", RegionKind::File),
        ("file_read_only", RegionKind::FileReadOnly),
    ]
    .into_iter()
    .map(|(name, kind)| {
        let of_kind = p.regions.iter().filter(|r| r.kind == kind);
        let sum: u64 = of_kind.map(&f).sum();
        (vec![("kind", name.to_string())], sum as i64)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_type_and_a_help() {
        let all = metrics();
        assert!(all.len() > 20, "{all:?}");
        for m in &all {
            assert!(!m.help.is_empty(), "{m:?}");
            let kinds = ["gauge", "counter", "histogram"];
            assert!(kinds.contains(&m.kind.as_str()), "{m:?}");
        }
        let named = |n: &str| all.iter().find(|m| m.name == n).map(|m| m.kind.as_str());
        assert_eq!(named("coldset_resident_bytes"), Some("gauge"));
        assert_eq!(named("coldset_pager_events_total"), Some("counter"));
        assert_eq!(named("coldset_miss_duration_seconds"), Some("histogram"));
    }
}
