//! Recording what the engine is told.
//!
//! | file | what |
//! |---|---|
//! | `ops.rs` | the operations, one table |
//! | `arguments.rs` | what their arguments are, and the numbers they are written as |
//! | `header.rs` | what a journal begins with |
//! | `write.rs` | keeping a journal: frames, written by a thread |

pub(crate) mod arguments;
pub(crate) mod header;
pub(crate) mod ops;
pub(crate) mod write;
