//! Storage of contents that are not in memory.
//!
//! | file | what |
//! |---|---|
//! | `storage.rs` | something read and written at offsets; complete transfers |
//! | `file.rs` | files |
//! | `open.rs`, `claim.rs` | opening what holds somebody's data; who uses it |
//! | `retry.rs` | a device that fails now and then |
//! | `compressed.rs`, `compressed/` | compressed memory: slots, tiers; recompression |
//! | `entry.rs`, `slab.rs`, `age.rs`, `codec.rs` | what a slot holds, where, since when, and how |
//! | `evictions.rs` | how long ago the page of a slot was evicted |
//! | `swap.rs` | anonymous pages by slot: compressed memory first, then a file |
//! | `swap_file.rs` | swap files with a name |
//! | `seal.rs` | how a page that comes back wrong is noticed; encryption |
//! | `room.rs` | waiting for room on a full disk |
//! | `errseq.rs` | errors of writes that nobody waited for |
//! | `remote/` | objects of remote services, with the feature `remote` |
//! | `faulty.rs` | a storage that fails on demand, for tests |

pub(crate) mod age;
pub(crate) mod claim;
pub(crate) mod codec;
pub mod compressed;
pub(crate) mod entry;
pub(crate) mod errseq;
pub(crate) mod evictions;
pub mod faulty;
pub mod file;
pub(crate) mod open;
#[cfg(feature = "remote")]
pub mod remote;
pub mod retry;
pub(crate) mod room;
pub mod seal;
pub(crate) mod slab;
pub mod storage;
pub mod swap;
pub(crate) mod swap_file;

pub use compressed::{Codec, Compressed, Tiers};
pub use faulty::{FaultPlan, FaultyStorage};
pub use file::{FileOptions, FileStorage};
#[cfg(feature = "remote")]
pub use remote::{RemoteOptions, RemoteStorage};
pub use retry::RetryStorage;
pub use storage::{Read, Storage, Write};
pub use swap::Swap;
