//! Miss-ratio curves: the misses of a sequence of page references over sizes of memory, for any
//! policy of the engine.
//!
//! | file | what |
//! |---|---|
//! | `cache.rs` | a host of the engine that is nothing but a cache |
//! | `plan.rs` | what is asked for: policies, sizes, samples |
//! | `curves.rs` | the work, in parallel; the result |
//! | `sample.rs` | spatial samples, and what they say of the whole |
//! | `text.rs` | tables, JSON and CSV |
//!
//! There is no machine around the cache: no memcg that is charged for page tables, no dirty pages, no
//! read-ahead, no time. A reference hits or brings its page in, and when memory is full one page goes
//! before. LRU, of which a smaller cache holds what a larger one would keep, is done for all sizes at once, without
//! the engine ([`MrcPolicy::Lru`]). So the curves of list policies are those of the literature, to the last miss, and those of
//! the kernel's policies show the policy alone. They evict a batch at a time, here as in a kernel
//! ([`cache::BATCH`]), so that they have up to that many pages less.

pub mod cache;
mod curves;
mod plan;
mod sample;
#[cfg(test)]
mod tests;
mod text;

pub use cache::Cache;
pub use curves::{curves, Curve, Curves, Point, Sampled};
pub use plan::{geometric, MrcPlan, MrcPolicy, DEFAULT_POLICIES, POINTS_DEFAULT};
pub use sample::{Sample, SAMPLES};
pub use text::{mrc_json, mrc_table, render_mrc};
