//! Page reclaim as a library: the sans-I/O engine.
//!
//! The engine holds what an operating system knows about the pages in memory (folios on LRU lists,
//! memory cgroups, eviction records) and decides which of them to give up. It does no I/O, reads no
//! clock, starts no thread and has no `unsafe`: a host steps its tasks and does what they ask for.
//! `ARCHITECTURE.md` at the root of the repository is the map.
//!
//! # A host
//!
//! Pages of a file, in at most 64 pages of memory:
//!
//! ```
//! use coldset_engine::memcg::CounterKind;
//! use coldset_engine::reclaim::{ReclaimTask, Work};
//! use coldset_engine::workingset::refault::RefaultSite;
//! use coldset_engine::{presets, Config, Engine, Flags, MemcgId, NewFolio, NodeId, ObjectId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut engine = Engine::new(Config::default(), presets::preset("v5")?)?;
//! let memcg = engine.memcg_create(MemcgId::ROOT)?;
//! engine.memcgs.set_max(memcg, CounterKind::Memory, 64)?;
//! let lruvec = engine.lruvec_id(memcg, NodeId(0));
//!
//! let mut resident = std::collections::HashMap::new();
//! let mut shadows = std::collections::HashMap::new();
//! for page in (0..100).chain(0..100) {
//!     if let Some(&folio) = resident.get(&page) {
//!         engine.mark_accessed(0, folio);
//!         continue;
//!     }
//!     // 1. Charge. If the limit refuses, reclaim.
//!     while engine.memcgs.try_charge(memcg, CounterKind::Memory, 1).is_err() {
//!         let mut task = ReclaimTask::limit(memcg, 32, 0, NodeId(0));
//!         loop {
//!             match task.step(&mut engine) {
//!                 Work::Free => {
//!                     for freed in task.freed() {
//!                         resident.remove(&freed.index);
//!                         shadows.extend(freed.shadow.map(|s| (freed.index, s)));
//!                     }
//!                 }
//!                 Work::Done => break,
//!                 _ => {} // clean pages that nobody maps need no more
//!             }
//!         }
//!         assert!(task.outcome().reclaimed > 0);
//!     }
//!     // 2. Make the folio. Its reference is the slot's.
//!     let new = NewFolio::page(lruvec, ObjectId(0), page, Flags::OWNED | Flags::UPTODATE);
//!     let folio = engine.folio_alloc(new);
//!     // 3. Has it been here before?
//!     if let Some(shadow) = shadows.remove(&page) {
//!         engine.refault(folio, shadow, RefaultSite::Read);
//!     }
//!     // 4. Queue it for its list.
//!     engine.lru_add(0, folio, false);
//!     engine.mark_accessed(0, folio);
//!     resident.insert(page, folio);
//! }
//! assert_eq!(engine.nr_folios(), resident.len());
//! # engine.check();
//! # Ok(())
//! # }
//! ```
//!
//! What holds for every host:
//!
//! - **Charges.** The host charges ([`memcg::ChargeTask`] does it as the kernel), the freed folio gives its charge
//!   back. Charges to the root are not counted: memory is limited by memcgs below it, or by [`zone`]s.
//! - **References.** Reclaim frees a folio if only it and the folio's slots and mappings hold references. In the page
//!   cache each page's slot holds one; anonymous memory is held by its mappings alone and, while it is in the swap
//!   cache, by its slots there. With a reference too many a folio stays for ever, without an error.
//! - **Flags.** [`Flags::OWNED`] while a slot names the folio; [`Flags::ANON`] and [`Flags::SWAPBACKED`] for anonymous
//!   memory, `SWAPBACKED` alone for tmpfs. Without swap ([`Engine::set_swap`]) both stay in memory.
//! - **Uses.** A read calls [`Engine::mark_accessed`], the one that brought the page in, too. What is mapped has an
//!   accessed bit with the host, which the engine asks for.
//! - **Requests.** [`reclaim::Work`] has all. Those with an answer come again until they have one.
//! - **Time.** Classic lists read statistics that are folded as the host tells the time ([`Engine::set_now`]); a host
//!   without a clock sets [`Switches::stale_stats`] to false.
//!
//! `docs/how-to/use-the-engine.md` in the repository explains, with two complete hosts in `engine/examples`: a page
//! cache with write-back and a policy of its own, and tenants with anonymous memory, protection and swap.

pub mod batch;
pub mod check;
pub mod classic;
pub mod config;
mod constants;
pub mod counters;
pub mod engine;
pub mod folio;
pub mod ids;
pub mod lruvec;
pub mod memcg;
pub mod meter;
pub mod mglru;
pub mod node;
pub mod oom;
pub mod policies;
pub mod reclaim;
pub mod rules;
pub mod scans;
mod splitmix;
#[cfg(feature = "state")]
mod state;
pub mod swap;
pub mod switches;
#[cfg(test)]
#[allow(dead_code, reason = "tests use what they need of the mock host")]
mod testing;
pub mod workingset;
pub mod writeback;
pub mod zone;

pub use config::{Config, Scale};
pub use counters::{Counter, CounterSet};
pub use engine::Engine;
pub use folio::table::NewFolio;
pub use folio::{Flags, Folio};
pub use ids::*;
pub use switches::{presets, Switches};

/// The version of this crate. What another version has computed may differ.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
