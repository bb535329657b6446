//! Tests of the memcg tree; the worked examples of `memcg.md` and `docs/rules/generations.md` carry their labels.

mod charging;
mod life;
mod limits;
mod lru;
mod protection;
mod random;
mod stat;
mod walks;

use super::*;
use crate::counters::Counter;
use crate::ids::{MemcgId, NodeId};

const ROOT: MemcgId = MemcgId::ROOT;
const NODE0: NodeId = NodeId(0);

/// A tree with 2 CPUs and default settings.
fn tree() -> MemcgTree {
    MemcgTree::new(MemcgConfig {
        nr_cpus: 2,
        ..MemcgConfig::default()
    })
    .unwrap()
}

fn set_max(t: &mut MemcgTree, id: MemcgId, pages: u64) {
    t.set_max(id, CounterKind::Memory, pages).unwrap();
}

fn usage(t: &MemcgTree, id: MemcgId) -> u64 {
    t[id].memory().usage()
}

/// Charges without the stock and without limits.
fn fill(t: &mut MemcgTree, id: MemcgId, pages: u64) {
    t.charge_forced(id, CounterKind::Memory, pages);
}
