//! Page reclaim on real memory.
//!
//! A [`Pool`] has a budget. Its [`Region`]s, anonymous memory or file maps, may be far larger together. The engine
//! that also runs in the simulated machine decides which pages leave memory. A page that has left comes back when a
//! thread touches it, in that thread and without privilege. The crate's `README.md` says what this costs and what it
//! refuses.
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
//! | folder | what |
//! |---|---|
//! | `sys/` | the kernel's calls |
//! | `config/`, `error.rs` | settings, also as text; errors |
//! | `store/` | compressed memory, swap, files, remote objects, injected faults |
//! | `page/` | the state word of a page, its transitions, the model that tries all interleavings |
//! | `policy/` | the engine, slots and books: all that decides, without any memory |
//! | `record/`, `replay/` | writing down what the engine is told, and telling it again |
//! | `region/` | a range of addresses whose pages come and go |
//! | `budget/` | what is behind the one lock; the budget of real pages; what counts to it |
//! | `evict/` | pages leave: what the engine asks for, references, taking pages out |
//! | `writeback/` | dirty pages of files (those of memory: `evict/`) |
//! | `miss/` | pages come: misses, read-ahead, handler threads |
//! | `pool/` | a pool: all of it together; groups, resizing, counters, journals |
//! | `handle/` | what programs hold: regions, pins, guards |
//! | `observe/` | snapshots with all that can be counted, and how others get at them |
//! | `plant.rs` | bugs on purpose, for tests |

mod budget;
mod config;
mod error;
mod evict;
mod handle;
mod meanwhile;
mod miss;
pub mod observe;
mod page;
#[cfg(not(feature = "plants"))]
mod plant;
#[cfg(feature = "plants")]
#[doc(hidden)]
pub mod plant;
mod policy;
mod pool;
mod record;
mod region;
mod replay;
pub mod store;
pub mod sys;
mod writeback;

pub use config::{
    parse_size, FaultMode, FlushConfig, PoolConfig, SwapConfig, MAX_READ_AHEAD, MIN_BUDGET,
};
pub use error::{Error, Result};
pub use handle::advice::Advice;
pub use handle::file::MapOptions;
pub use handle::guard::{Fixed, FixedMut, SharedFix};
pub use handle::pin::{Pin, SharedPin};
pub use handle::region::Region;
pub use observe::Snapshot;
#[cfg(feature = "remote")]
pub use opendal;
pub use pool::group::{Group, Limits};
pub use pool::inner::Pool;
pub use pool::stat::{Latency, Stats};
pub use sys::probe::{probe, Feature, Missing};

/// Installs the SIGBUS handler that the first pool would install. It is for programs with another handler that is
/// removed before they end. Call it before the other handler is installed and again afterwards: ours is then both
/// beneath and on top of the other one. When the other handler goes, it restores ours, and misses still arrive. A
/// signal that is no miss goes to the other handler, or, once that is gone, to the one that was there before both.
///
/// # Errors
/// [`Error::Sigbus`].
pub fn install_handler() -> Result<()> {
    sys::sigbus::put_on_top()?;
    Ok(sys::sigbus::install(miss::registry::on_miss)?)
}

/// The journal: everything the engine was told, so that it can be told again.
///
/// A journal is a file of zstd frames with checksums. Each frame holds whole operations, so a journal that ends early
/// (a kill, a full disk) is good up to its last whole frame. It begins with lines of text: `coldset-journal 4`,
/// `written-by`, `budget` (pages), `slots`, one `switch name=value` for each switch, `state BYTES` if the journal
/// begins in the middle of a pool's life, an empty line, and those bytes. Operations follow, each a byte that names
/// it and its arguments as LEB128 numbers; `docs/journal.md` lists them. `Did` and `Victim` are not told to the
/// engine but expected of it: what it asked for and which pages it gave up, in order.
pub mod journal {
    pub use crate::record::header::is_journal;
    pub use crate::replay::accesses::{accesses, Accesses, GroupInfo};
    pub use crate::replay::error::{JournalError, Replayed, Victim};
    pub use crate::replay::run::replay;
    pub use crate::replay::stream::{Access, RegionInfo};
}

/// The example of the manual compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Manual;

/// Bytes of a page.
pub const PAGE_SIZE: usize = sys::PAGE;
