//! Virtual memory: faults, the reverse map, page-table walks, swap, and the host side of reclaim.

pub mod alloc;
pub(crate) mod context_switches;
pub mod control;
pub mod cow;
pub mod fault;
pub(crate) mod held;
mod huge;
mod index_nodes;
mod kernel_memory;
mod load;
pub(crate) mod loose;
pub(crate) mod offline;
pub(crate) mod pcp;
pub mod reclaim;
pub mod rmap;
mod shared_tables;
pub mod swap;
pub(crate) mod swap_area;
mod swap_in;
pub mod tmpfs;
mod unmap;
pub mod walk;
pub(crate) mod wanted;
mod zeroes;
