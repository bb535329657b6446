//! The worked examples of `docs/rules/generations.md` by label, and its list of traps. E2 to E4, E12, E14 and E15 are
//! tested beside `rules/v612.rs`, `rules/v614.rs`, `controller.rs`, `look_around.rs`, `reclaim/gen_root.rs` and `memcg/lru.rs`.

mod aging;
mod budget;
mod debug;
mod entry;
mod faults;
mod sort;
mod traps;
mod v612;
