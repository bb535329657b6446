//! The counters that a replay reports.

use coldset_engine::{Counter, MemcgId};
use coldset_machine::{SwapConfig, World};

/// What no memcg counts.
const OF_MACHINE: [Counter; 5] = [
    Counter::Allocstall,
    Counter::Pageoutrun,
    Counter::KswapdLowWmarkHitQuickly,
    Counter::KswapdHighWmarkHitQuickly,
    Counter::PgscanDirectThrottle,
];

/// Counters of the memcg of a replay with everything below it, and those that only the machine has.
pub(super) fn of_replay(w: &World, memcg: MemcgId, swap: &SwapConfig) -> Vec<(&'static str, i64)> {
    let mut all = counters(w, memcg, swap);
    for counter in OF_MACHINE {
        let named = all.iter_mut().find(|(name, _)| *name == counter.name());
        if let Some((_, value)) = named {
            *value = w.engine.vmstat().get(counter);
        }
    }
    all
}

/// Counters of a memcg with everything below it.
pub(super) fn counters(w: &World, memcg: MemcgId, swap: &SwapConfig) -> Vec<(&'static str, i64)> {
    let t = &w.engine.memcgs;
    let huge = w.has_huge_pages();
    let mut out: Vec<(&'static str, i64)> = Counter::ALL
        .iter()
        .filter(|c| huge || !c.needs_huge_pages())
        .map(|&c| (c.name(), t.live(memcg, c)))
        .collect();
    let sum = |names: &[Counter]| names.iter().map(|&c| t.live(memcg, c)).sum();
    use Counter as C;
    out.push((
        "pgscan",
        sum(&[C::PgscanKswapd, C::PgscanDirect, C::PgscanProactive]),
    ));
    out.push((
        "pgsteal",
        sum(&[C::PgstealKswapd, C::PgstealDirect, C::PgstealProactive]),
    ));
    let read = t.live(memcg, C::Pgpgin) / 4;
    out.push(("disk_read_pages", read));
    out.push(("disk_written_pages", t.live(memcg, C::Pgpgout) / 4));
    // What comes from a swap area on a device is among the pages read from devices.
    let swapped = match swap {
        SwapConfig::Disk { .. } => 0,
        _ => t.live(memcg, C::Pswpin),
    };
    out.push(("misses", read + swapped));
    out.push(("current_pages", t[memcg].memory().usage() as i64));
    out
}
