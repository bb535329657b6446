//! File I/O through the page cache: read, write, fsync, and what devices complete.

pub mod complete;
pub mod file_system;
mod folio_lock;
pub mod fsync;
mod holes;
pub(crate) mod index_blocks;
pub mod large;
pub(crate) mod page_in;
pub mod read;
pub mod read_ahead;
pub mod truncate;
pub(crate) mod windows;
pub mod write;
