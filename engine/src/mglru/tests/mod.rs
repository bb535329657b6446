//! The worked examples of `docs/rules/generations.md` by label, and its list of traps. E2 to E4, E12, E14 and E15 are
//! tested beside `refs.rs`, `controller.rs`, `look_around.rs`, `reclaim/memcg_lru.rs` and the memcg LRU.

mod aging;
mod budget;
mod debug;
mod entry;
mod faults;
mod sort;
mod traps;
mod v612;
