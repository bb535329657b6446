//! Tests of the reclaim tasks.

mod entry_counters;
mod entry_direct;
mod entry_kswapd;
mod entry_memcg;
mod entry_node;
mod entry_random;
