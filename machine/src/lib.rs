//! A deterministic simulated machine that hosts the reclaim engine: virtual time, CPUs, devices,
//! page tables, page cache, swap, and what every action costs.
//!
//! | folder | what |
//! |---|---|
//! | `sim` | events, tasks as `async` code, CPUs with run queues, locks |
//! | `device` | block devices, zram timing, injected faults |
//! | `params` | every cost with its source |
//! | `mem` | objects, slots, mappings |
//! | `tlb` | which CPU holds translations of what, deferred flushes, interrupts |
//! | `vm` | faults, reverse map, walks, swap, the host side of reclaim |
//! | `io` | buffered read and write, fsync, completions |
//! | `daemon` | kswapd, flushers, OOM killers |
//! | `record` | what tasks do, told to whoever records it |
//! | `samples` | counters and lists over virtual time |

pub mod check;
pub mod config;
pub mod ctx;
pub mod daemon;
pub mod device;
pub mod io;
pub mod machine;
pub mod mem;
pub mod params;
mod prefetch;
mod ram;
pub mod record;
mod recorder;
pub mod samples;
mod sampling;
mod seat;
pub mod sim;
mod spawn;
mod tlb;
pub mod vm;
pub mod world;

pub use config::{MachineConfig, MachineError, Marks, OpError, SwapConfig, Thp, ZoneSpec};
pub use ctx::{Ctx, InlineClock};
pub use io::file_system::FileSystem;
pub use io::read::OpenFile;
pub use io::read_ahead::{Advice, ReadAhead};
pub use machine::{Machine, MachineRun};
pub use mem::{MappingFlags, MappingId, EXTENTS_IN_INODE};
pub use params::Params;
pub use vm::cow::Inherited;
pub use world::World;

/// The version of this crate. What another version has computed may differ.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
