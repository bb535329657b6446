//! What two looks at a pool differ by.

use super::text::sum;
use coldset_pager::observe::{Distribution, Snapshot};

/// Between two looks, or since the pool was made if there is one only.
pub struct Change {
    /// Name and events in a second.
    pub rates: Vec<(&'static str, f64)>,
    /// Name and durations.
    pub latencies: Vec<(&'static str, Distribution)>,
    /// Seconds in between.
    pub seconds: f64,
}

/// Names, and the counters that each adds up: the pager's, then the engine's.
const RATES: &[(&str, &[&str], &[&str])] = &[
    ("misses", &["misses"], &[]),
    ("pages in", &["filled"], &[]),
    ("evictions", &["evicted"], &[]),
    (
        "refaults",
        &[],
        &["workingset_refault_anon", "workingset_refault_file"],
    ),
    ("swap in", &["swapped_in"], &[]),
    ("swap out", &["swapped_out"], &[]),
    ("file read", &["read_file"], &[]),
    ("file written", &["written_back", "written_inline"], &[]),
    ("throttled writes", &["throttled_writes"], &[]),
    ("store errors", &["store_errors"], &[]),
    ("failed misses", &["failed_misses"], &[]),
    ("reclaims", &["reclaims"], &[]),
    ("pages swept", &["swept"], &[]),
];

const LATENCIES: &[(&str, &str)] = &[
    ("miss", "miss"),
    ("evict, a page", "evict"),
    ("writeback, a run", "writeback"),
    ("wait for the lock", "lock_wait"),
];

impl Change {
    /// From `before` to `now`.
    pub fn between(before: Option<&Snapshot>, now: &Snapshot) -> Self {
        // Another process may say anything of its time.
        let ns = before.map_or(now.age_ns, |b| now.now_ns.saturating_sub(b.now_ns));
        let seconds = (ns as f64 / 1e9).max(1e-3);
        let rates = RATES.iter().map(|&(name, pager, engine)| {
            let all = |s: &Snapshot| {
                let pager = pager.iter().filter_map(|k| s.counters.get(*k)).copied();
                let engine = engine.iter().filter_map(|k| s.events.get(*k));
                sum(pager.chain(engine.map(|&n| n.max(0) as u64)))
            };
            let n = all(now).saturating_sub(before.map_or(0, all));
            (name, n as f64 / seconds)
        });
        let latencies = LATENCIES.iter().filter_map(|&(name, key)| {
            let d = now.latency.get(key)?;
            let earlier = before.and_then(|b| b.latency.get(key));
            Some((name, earlier.map_or_else(|| d.clone(), |e| d.since(e))))
        });
        Self {
            rates: rates.collect(),
            latencies: latencies.collect(),
            seconds,
        }
    }
}
