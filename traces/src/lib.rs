//! Reference traces: recorded page accesses of real programs and storage systems.
//!
//! Every format is a stream of [`Op`]s. A file may be plain or packed (gzip, zstd, xz;
//! recognised by content) and is never unpacked as a whole. [`open`] gives an iterator,
//! [`load`] a [`Trace`] in memory. Formats and the conventions for using a trace as a
//! workload follow `docs/reference/formats.md`: one region for each object, its pages numbered in
//! the order of first appearance.
//!
//! To add a format: a file with a `Decode` that turns one line or record into a request,
//! a variant of [`Format`] and an arm in `reader.rs`.

mod address;
mod arc;
mod blkparse;
pub mod bounds;
mod cache2k;
mod cloudphysics;
mod cloudphysics_csv;
mod csv;
mod decode;
mod error;
mod event_line;
mod extent;
mod file_fields;
mod fio;
mod format;
mod ftrace;
mod kernel_events;
mod lackey;
mod lirs;
mod merge;
mod number;
mod numbering;
mod op;
mod options;
mod oracle_general;
mod pageops;
mod perf;
mod reader;
mod reading;
mod source;
#[cfg(test)]
mod tests;
mod trace;

pub use error::{Position, Problem, TraceError};
pub use format::Format;
pub use op::{Op, OpKind, MAX_PAGES};
pub use options::{Access, ObjectPages, PageIds, TraceOptions};
pub use pageops::{PageOpsWriter, WritePacking};
pub use reader::{open, Reader};
pub use reading::{BadLine, Reading, Tally};
pub use source::{Packing, Progress, Source};
pub use trace::{load, ObjectInfo, Trace};

/// Version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
