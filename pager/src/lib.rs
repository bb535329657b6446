//! Page reclaim on real memory.
//!
//! A [`Pool`] has a budget. [`Region`]s of it, anonymous memory or maps of files, may be far larger
//! together: the engine that also runs in the simulated machine decides which pages leave memory,
//! and a page that has left comes back when it is touched, in the thread that touches it, without
//! privilege. `README.md` of the crate says what it costs and what it refuses.
//!
//! ```
//! use coldset_pager::{Error, Pool, PoolConfig, SwapConfig};
//!
//! let pool = match Pool::new(PoolConfig::new(4 << 20).swap(SwapConfig::lz4(64 << 20))) {
//!     // A kernel or container without userfaultfd: the message names the way out.
//!     Err(Error::Missing(m)) => return Ok(println!("{m}")),
//!     other => other?,
//! };
//! let mut region = pool.anonymous(16 << 20)?;
//! for (i, page) in region.bytes_mut().chunks_mut(4096).enumerate() {
//!     page[0] = i as u8;
//! }
//! assert!(pool.stats().resident_bytes() <= 4 << 20);
//! assert!(region.bytes().chunks(4096).enumerate().all(|(i, page)| page[0] == i as u8));
//! # Ok::<(), coldset_pager::Error>(())
//! ```
//!
//! | file | what |
//! |---|---|
//! | `pool.rs`, `config.rs`, `group.rs` | budget, settings, charges; the tree of limits |
//! | `config/parse.rs` | settings as text |
//! | `core.rs`, `gate.rs`, `account.rs` | what is behind the one lock; the budget of real pages; tables that count to it |
//! | `resize.rs`, `pressure.rs` | what the budget is at first, and how it changes |
//! | `policy/` | the engine, slots and books: all that decides, without any memory |
//! | `recording.rs`, `traffic.rs` | beginning a journal; moments in which nothing is under way |
//! | `journal/` | writing down what the engine is told, and telling it again |
//! | `handle.rs`, `region.rs`, `explicit.rs` | what programs hold; a region inside; access by guards |
//! | `page/` | the state word of a page, its transitions, the model that tries all interleavings |
//! | `fault.rs`, `ahead.rs` | a miss; reading ahead of misses in order |
//! | `reclaim.rs`, `background.rs` | doing what the engine asks for; doing it ahead of need |
//! | `handler.rs` | threads that handle misses, where system calls must be able to miss |
//! | `sweep.rs` | where references come from |
//! | `evict.rs` | taking pages out |
//! | `writeback.rs` | dirty pages of files |
//! | `exit.rs` | dirty pages when the process ends |
//! | `recompress.rs` | the second tier of compressed memory |
//! | `store/` | compressed memory, swap, files, injected faults |
//! | `torn.rs` | regions that the program has changed by system calls |
//! | `plant.rs` | bugs on purpose, for tests |
//! | `stat.rs` | counters |
//! | `observe/` | snapshots with all that can be counted, and how others get at them |
//! | `sys/` | the kernel's calls |

mod account;
mod ahead;
mod background;
mod check;
mod config;
mod core;
mod error;
mod errseq;
mod evict;
mod exit;
mod explicit;
mod fault;
mod file_map;
mod fuse;
mod gate;
mod group;
mod handle;
mod handler;
pub mod journal;
pub mod observe;
mod page;
#[cfg(not(feature = "plants"))]
mod plant;
#[cfg(feature = "plants")]
#[doc(hidden)]
pub mod plant;
mod policy;
mod pool;
mod pressure;
mod reclaim;
mod recompress;
mod recording;
mod region;
mod resize;
mod stat;
mod stock;
pub mod store;
mod sweep;
pub mod sys;
mod torn;
mod traffic;
mod writeback;

pub use config::{
    parse_size, FaultMode, FlushConfig, PoolConfig, SwapConfig, MAX_READ_AHEAD, MIN_BUDGET,
};
pub use error::{Error, Result};
pub use explicit::{Fixed, FixedMut};
pub use file_map::MapOptions;
pub use group::{Group, Limits};
pub use handle::{Advice, Pin, Region, SharedPin};
pub use observe::Snapshot;
#[cfg(feature = "remote")]
pub use opendal;
pub use pool::Pool;
pub use stat::{Latency, Stats};
pub use sys::probe::{probe, Feature, Missing};

/// The example of the manual compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Manual;

/// Bytes of a page.
pub const PAGE_SIZE: usize = sys::PAGE;
