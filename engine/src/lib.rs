//! Page reclaim as a library: the sans-I/O engine.
//!
//! The engine holds what an operating system knows about the pages in memory (folios on LRU lists,
//! memory cgroups, eviction records) and decides which of them to give up. It does no I/O, reads no
//! clock, starts no thread and has no `unsafe`: a host steps its tasks and does what they ask for.
//! `ARCHITECTURE.md` at the root of the repository is the map.
//!
//! ```
//! use coldset_engine::{presets, Config, Engine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(Config::default(), presets::preset("v5")?)?;
//! # engine.check();
//! # Ok(())
//! # }
//! ```

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
