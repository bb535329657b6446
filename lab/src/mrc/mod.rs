//! Miss-ratio curves: the misses of a trace over sizes of memory, for any policy of the engine.
//!
//! | file | what |
//! |---|---|
//! | `cache.rs` | a host of the engine that is nothing but a cache, for list policies |
//! | `plan.rs` | what is asked for: policies, sizes, samples |
//! | `curves.rs` | the work, in parallel; the result |
//! | `sample.rs` | spatial samples, and what they say of the whole |
//! | `text.rs` | tables, JSON and CSV |
//!
//! A kernel's policy is what a replay makes of it, with batches, page tables and kernel memory: its points are those of
//! `coldset lab replay`. There is no machine around the others. A reference hits or brings its page in, and when memory
//! is full one page goes before, as in the papers of the list policies. A page that is unmapped, or cut off its file, is
//! gone: its frame is free, and no policy remembers it. LRU, of which a smaller cache holds what a larger one would keep,
//! is done for all sizes at once, without the engine ([`MrcPolicy::Lru`]).

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
