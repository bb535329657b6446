//! Tests of the reclaim tasks: `entry_*` drive whole tasks through the worked examples of
//! `docs/rules/reclaim-loop.md`, `counters.md` and `memcg.md`. The others hold the examples of
//! `docs/rules/shrink-list.md` by label (S5 is in `split`, S10 beside `node.rs`), and the exits of the 17-step path that
//! none of them takes.

mod decided;
mod entry_counters;
mod entry_direct;
mod entry_kswapd;
mod entry_memcg;
mod entry_node;
mod entry_random;
mod path;
mod split;
mod steps;
mod tlb;
mod tlb_batch;

use super::{ReclaimKind, ScanControl};
use crate::config::{Config, Scale};
use crate::presets::preset;
use crate::testing::Host;

/// Without swap, and so small that the first round scans whole lists.
fn small_host(name: &str, cfg: Config) -> Host {
    let scale = Scale {
        shift: 12,
        ..Scale::default()
    };
    let mut h = Host::with(preset(name).unwrap(), Config { scale, ..cfg });
    h.eng.set_swap(0, 0);
    h
}

/// Direct global reclaim.
fn direct() -> ScanControl {
    ScanControl::new(32, None)
}

/// kswapd.
fn kswapd() -> ScanControl {
    let mut sc = direct();
    sc.kind = ReclaimKind::Kswapd;
    sc
}
