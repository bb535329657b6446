//! Pages leave.
//!
//! | file | what |
//! |---|---|
//! | `evictor.rs` | taking pages out, in the order that is safe |
//! | `reclaim.rs` | doing what the engine asks for |
//! | `sweep.rs` | where references come from |
//! | `background.rs` | reclaim ahead of need |
//! | `recompress.rs` | the second tier of compressed memory |

pub(crate) mod background;
pub(crate) mod evictor;
pub(crate) mod reclaim;
pub(crate) mod recompress;
pub(crate) mod sweep;
