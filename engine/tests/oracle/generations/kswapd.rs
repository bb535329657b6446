//! Rounds of kswapd, and when it raises its effort (`docs/rules/zones.md#kswapd`).

use super::host::Machine;
use super::pair::Pair;
use super::programs::{at_work, Seen};
use super::rules::{Page, PRESETS};
use crate::Rng;

/// Pages of a file, most of them mapped and in use after they were read: a round frees less than it scans. For some marks
/// it scans exactly what it was to.
fn with_mark(preset: &'static str, high: u64) -> Seen {
    let r = &mut Rng(0);
    let machine = Machine {
        preset,
        span: 600,
        swap: 0,
        nodes: 1,
        min_ttl_ms: 0,
    };
    let mut p = Pair::new(&machine, 0, r);
    p.set_zones(602, 20, high);
    for index in 0..600 {
        p.read(0, (2, index), Page::default());
        if !r.one_in(4) {
            p.touch(0, (2, index), false, Page::default());
        }
    }
    p.kswapd(0);
    p.compare();
    p.m.seen
}

#[test]
fn kswapd_raises_its_effort_as_in_the_model() {
    let mut seen = Seen::new();
    for preset in PRESETS {
        for high in 56..67 {
            for (what, n) in with_mark(preset, high) {
                *seen.entry(what).or_default() += n;
            }
        }
    }
    at_work(&seen, &["scanned just enough"]);
}
