//! File I/O through the page cache: read, write, fsync, and what devices complete.

pub mod complete;
pub mod fsync;
pub mod read;
pub mod write;
