//! Generations, victim by victim (`docs/rules/generations.md`, `eviction.md`, `aging.md`, `reclaim-loop.md`,
//! `workingset.md`, `swap.md`, `memcg-lru.md`): pages of files and anonymous memory of a tree of memcgs, read through
//! descriptors or mapped, clean or dirty, reclaimed for limits, by tasks for the machine, and by kswapd.
//!
//! The model is one table of pages. A generation is a number in the page, its list the order of stamps; the counts of
//! the controller are kept by tier as they are in the text.

mod aging;
mod batches;
mod compare;
mod evict;
mod host;
mod kswapd;
mod learning;
mod locked;
mod model;
mod pair;
mod programs;
mod request;
mod root;
mod rules;
mod ttl;
