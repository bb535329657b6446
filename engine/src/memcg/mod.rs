//! Memory cgroups (`docs/rules/memcg.md#charging`, `docs/rules/memcg-lru.md`): the tree, its page counters and limits, effective protection,
//! charging, statistics with their lag, iteration, and the multi-gen memcg LRU.
//!
//! Everything here is plain data addressed by [`MemcgId`](crate::ids::MemcgId). Folios and lruvec
//! lists live elsewhere; where a path needs reclaim or a kill it is a task that is stepped and
//! returns what must happen next ([`ChargeTask`], [`HighTask`], [`MaxWrite`], [`HighWrite`],
//! [`ReclaimWrite`]).
//!
//! Which memcg global reclaim visits next is no business of the tree: [`WalkCursor`] (shared or
//! private pre-order walk), [`MemcgLru`] and the two designs of [`heat`] are answers that stand beside
//! it, and another needs nothing from it but ids, `online` and protection.

mod charge;
mod control;
mod counter;
mod css_id;
mod error;
mod events;
pub mod heat;
mod high;
mod iter;
mod limits;
mod links;
mod lru;
mod node_stat;
mod oom;
mod protection;
mod record;
mod stat;
mod stock;
mod swap;
mod tree;

#[cfg(test)]
mod tests;

pub use charge::{ChargeError, ChargeFlags, ChargeStep, ChargeTask, Charged, TaskMemcg};
pub use control::{
    parse_pages, HighWrite, MaxWrite, ReclaimRequest, ReclaimWrite, WriteEnd, WriteStep,
};
pub use counter::{CounterKind, PageCounter, UNLIMITED};
pub use css_id::{CSS_ID_NONE, MAX_CSS_IDS};
pub use error::MemcgError;
pub use high::{high_delay_jiffies, overage, HighStep, HighTask};
pub use iter::{WalkCursor, WalkMode};
pub use lru::{after_visit, before_visit, BeforeVisit, LruOp, LruSeg, LruWalk, MemcgLru};
pub use oom::OomStart;
pub use protection::{effective_protection, scale_by_protection};
pub use tree::{Memcg, MemcgConfig, MemcgTree, MAX_NODES};

/// Pages charged ahead into the per-CPU stock by one counter update (`docs/rules/memcg.md#charging`).
pub const CHARGE_BATCH: u64 = 64;
pub use crate::constants::{COSTLY_ORDER, MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
