//! Folio metadata: flags, the table and the index-linked lists threaded through it.

pub mod flags;
pub mod list;
pub mod split;
pub mod table;

pub use flags::Flags;
pub use list::List;
pub use table::{Folio, FolioTable};
