//! Where contents are kept while they are not in memory.
//!
//! | file | what |
//! |---|---|
//! | `storage.rs` | a file or device read and written at offsets; complete transfers |
//! | `slab.rs`, `compressed.rs` | compressed memory |
//! | `swap.rs` | anonymous pages by slot: compressed memory first, then a file |
//! | `faulty.rs` | a storage that fails on demand, for tests |

pub mod compressed;
pub mod faulty;
pub(crate) mod slab;
pub mod storage;
pub mod swap;

pub use compressed::Compressed;
pub use faulty::{FaultPlan, FaultyStorage};
pub use storage::{FileStorage, Storage};
pub use swap::Swap;
