//! Pages leave.
//!
//! | file | what |
//! |---|---|
//! | `victim.rs`, `evictor.rs` | taking pages out, in the order that is safe |
//! | `reclaim.rs` | doing what a reclaim task of the engine asks for |
//! | `outside.rs` | a policy that is not the engine's, told and asked |
//! | `references.rs`, `sweep.rs` | where references come from: tests of single pages, sweeps |
//! | `background.rs` | reclaim ahead of need |
//! | `recompress.rs` | the second tier of compressed memory |

pub(crate) mod background;
pub(crate) mod evictor;
mod outside;
pub(crate) mod reclaim;
pub(crate) mod recompress;
mod references;
mod sweep;
pub(crate) mod victim;
