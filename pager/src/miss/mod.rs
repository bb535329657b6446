//! Pages come.
//!
//! | file | what |
//! |---|---|
//! | `room.rs` | room for pages: charges, and places in memory |
//! | `fill.rs` | bringing pages in |
//! | `orders.rs`, `ahead.rs` | what is to be read ahead, and the thread that does it |
//! | `loans.rs` | files that are read in order, mapped from the page cache |
//! | `registry.rs` | the region of an address; misses that are signals |
//! | `handler.rs` | threads that handle misses, where system calls must be able to miss |

pub(crate) mod ahead;
pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod loans;
pub(crate) mod orders;
pub(crate) mod registry;
pub(crate) mod room;
