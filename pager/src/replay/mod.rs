//! Replays a journal to the engine, without any memory.
//!
//! | file | what |
//! |---|---|
//! | `read.rs` | frames, the header, operations |
//! | `fits.rs`, `wait.rs` | what must hold of an operation before the engine is told |
//! | `run.rs` | telling the engine, and comparing |
//! | `stream.rs`, `accesses.rs` | what a journal shows of the program's accesses |
//! | `error.rs` | what a replay comes to, or what is wrong with a journal |

pub(crate) mod accesses;
pub(crate) mod error;
mod fits;
mod read;
pub(crate) mod run;
pub(crate) mod stream;
mod wait;
