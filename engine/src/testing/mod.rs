//! A small host for tests: it owns a mock world (page tables, swap slots, writers) and serves the
//! requests of the engine's tasks from scripted answers.
//!
//! | file | what |
//! |---|---|
//! | `spec.rs` | what a new folio is |
//! | `script.rs` | scripted answers of one folio, and the tallies of what was asked |
//! | `world.rs` | creating, mapping, using, dirtying and dropping folios |
//! | `serve.rs` | answering requests; running tasks, single lists and single lruvecs |
//! | `place.rs` | building list layouts directly |
//! | `cache.rs` | another host: a cache of single pages over one lruvec |
//!
//! ```ignore
//! let mut h = Host::new("base");
//! let f = h.add(Spec::file());
//! h.script(f).accessed = 1;
//! let out = h.limit(32);            // limit reclaim to its end
//! assert!(h.gone(f) && h.seen.flushes == 0);
//! ```

mod cache;
mod place;
mod random;
mod script;
mod serve;
mod spec;
mod tests;
mod world;

pub(crate) use cache::Cache;
pub(crate) use script::{Script, Seen, WriteAs};
pub(crate) use serve::Undecided;
pub(crate) use spec::Spec;
pub(crate) use world::Host;
