//! Reference traces: recorded page accesses of real programs and storage systems.
//!
//! Every format is a stream of [`Op`]s. A file may be plain or packed (gzip, zstd, xz;
//! recognised by content) and is never unpacked as a whole. [`open`] gives an iterator,
//! [`load`] a [`Trace`] in memory; one too long for that stays in its file ([`Stream`]). Formats and the conventions for using a trace as a
//! workload follow `docs/reference/formats.md`: one region for each object, its pages numbered in
//! the order of first appearance.
//!
//! To add a format: a `Decode` in `formats/` that turns one line or record into a request, a variant of [`Format`] and an
//! arm in `reader.rs`.

mod about;
pub mod bounds;
mod decode;
mod error;
mod fields;
mod first_use;
mod format;
mod formats;
mod merge;
mod numbering;
mod objects;
mod op;
mod options;
mod order;
mod problem;
mod reader;
mod reading;
mod source;
mod step;
mod stream;
#[cfg(test)]
mod tests;
mod trace;

pub use about::{About, ObjectInfo};
pub use error::TraceError;
pub use format::Format;
pub use formats::{write_oracle_general, PageOpsWriter, WritePacking};
pub use op::{Op, OpKind, MAX_PAGES};
pub use options::{Access, ObjectPages, PageIds, TraceOptions};
pub use order::{begins, NoOrder, Order, BEGINNING};
pub use problem::{BadLine, Position, Problem};
pub use reader::{open, Reader};
pub use reading::{Reading, Tally};
pub use source::{Packing, Progress, Source};
pub use step::{Advice, Event, Record, Step, StepKind};
pub use stream::{Again, Loaded, Playable, Stream, Window};
pub use trace::{load, Trace};

/// Version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
