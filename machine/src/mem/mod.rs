//! What memory holds: objects (files, anonymous regions) with a slot for each page, and the mappings
//! through which address spaces see them.

pub mod entries;
pub mod folio;
mod holes;
pub(crate) mod index_blocks;
mod leaves;
pub mod mapping;
pub mod object;
pub mod per_page;
pub mod slot;

pub use index_blocks::EXTENTS_IN_INODE;
pub use mapping::{Mapping, MappingFlags, MappingId, Pte};
pub use object::{Backing, Fill, Object};
pub use slot::Slot;
