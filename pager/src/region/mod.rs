//! A region: a range of addresses whose pages come and go.
//!
//! | file | what |
//! |---|---|
//! | `area.rs` | the region inside: memory, states, book, file |
//! | `memory.rs` | how pages are put in, copied and taken away |
//! | `lent.rs` | where the file's own pages are mapped, of a file that is read in order |
//! | `torn.rs` | memory that the program has changed by system calls |
//! | `tables.rs` | blocks of pages in memory, and the kernel's page tables for them |
//! | `backing.rs` | the file behind it |
//! | `stream.rs` | recognizes a reader who goes through it in order |
//! | `witness.rs` | whether pages that were mapped ahead of such a reader have been used |

pub(crate) mod area;
pub(crate) mod backing;
pub(crate) mod lent;
pub(crate) mod memory;
pub(crate) mod stream;
mod tables;
mod torn;
pub(crate) mod witness;
