//! The formats. Each turns a line or record into a [`Request`](crate::decode::Request); what they share with one
//! another is `extent.rs` (bytes and sectors as pages) and `event_line.rs`.

mod addresses;
mod blkparse;
mod columns;
mod csv;
mod event_line;
mod extent;
mod fio;
mod kernel_events;
mod pageops;
mod storage;
mod tracers;
mod written;

pub(crate) use addresses::{Address, Lackey};
pub(crate) use blkparse::{is_event, Blkparse};
pub(crate) use columns::{layout, Columns, Layout, ALIBABA, MSR, TENCENT, TWITTER, WIKIPEDIA};
pub(crate) use csv::Csv;
pub(crate) use event_line::{EventLine, Style};
pub(crate) use fio::{is_header, Fio};
pub(crate) use pageops::PageOps;
pub use pageops::PageOpsWriter;
pub use storage::write_oracle_general;
pub(crate) use storage::{Arc, Cache2k, CloudPhysics, CloudPhysicsCsv, Lirs, OracleGeneral};
pub(crate) use storage::{CLOUDPHYSICS_HEADER, ORACLE_RECORD};
pub(crate) use tracers::{is_preamble, Ftrace, Perf};
pub use written::WritePacking;
