//! The counters that a replay reports.

use coldset_engine::{Counter, MemcgId};
use coldset_machine::{SwapConfig, World};

/// Counters of a memcg with everything below it; events that have no memcg form are global.
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
