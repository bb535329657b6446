//! Tests of whole files, by format.

mod at_once;
mod bpftrace;
mod events;
mod formats;
mod lenient;
mod malformed;
mod public;
mod recorded;
mod round_trip;
mod sample;
mod steps;
mod streams;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A folder of its own for a test, removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("coldset-traces-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("temporary folder");
        Folder(path)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("temporary file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(content: &[u8], format: Format, options: &TraceOptions) -> Result<Trace, TraceError> {
    let source = Source::from_reader("t", std::io::Cursor::new(content.to_vec()), None)?;
    Trace::read(
        Reader::from_source(source, Some(format), options)?,
        |_, _| {},
    )
}

fn sound(content: &[u8], format: Format, options: &TraceOptions) -> Trace {
    read(content, format, options).unwrap_or_else(|error| panic!("{error}"))
}

fn op(kind: OpKind, object: u8, task: u16, page: u32) -> Op {
    Op {
        kind,
        object,
        task,
        page,
    }
}

/// References of task 0 to object 0.
fn ops(kind: OpKind, pages: &[u32]) -> Vec<Op> {
    pages.iter().map(|&page| op(kind, 0, 0, page)).collect()
}

fn keep() -> TraceOptions {
    TraceOptions {
        page_ids: PageIds::Keep,
        ..TraceOptions::default()
    }
}
