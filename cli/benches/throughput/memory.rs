//! How much memory a replay needs: for each page in memory, and for each access of the trace.

use super::child;
use super::streams::write;
use super::Failure;
use coldset_lab::traces::{Op, OpKind};
use std::ffi::OsString;
use std::path::Path;

const PAGES: u32 = 1 << 20;

/// Bytes.
pub struct Memory {
    /// A page in memory, of a file that is all in memory.
    pub page: f64,
    /// An access of the trace.
    pub access: f64,
    /// An access of the trace where it is read again for each replay.
    pub streamed: f64,
}

/// From the peaks of processes: next to nothing, all pages once, all pages four times. To be called while
/// this process is small: until it has begun its own program, a child counts as large as its parent.
///
/// # Errors
/// The command fails.
pub fn measure(folder: &Path) -> Result<Memory, Failure> {
    let peak = |pages: u32, times: u32, more: &[&str]| -> Result<f64, Failure> {
        let file = folder.join("memory.pageops");
        let op = |page| Op {
            kind: OpKind::MappedRead,
            object: 0,
            task: 0,
            page,
        };
        write(
            &file,
            (0..times).flat_map(|_| (0..pages).map(|p| op(p).to_bytes())),
        )?;
        let options = [
            "replay",
            "--bounds=none",
            "--variants=v5",
            "--jobs=1",
            "--memory=8GiB",
        ];
        let mut words: Vec<OsString> = options.iter().chain(more).map(OsString::from).collect();
        words.push(file.into());
        Ok(child::lab(&words)?.0.peak as f64)
    };
    let (none, once, four) = (peak(1, 1, &[])?, peak(PAGES, 1, &[])?, peak(PAGES, 4, &[])?);
    let each = |four: f64, once: f64| (four - once) / f64::from(PAGES * 3);
    let access = each(four, once);
    let streamed = ["--stream"];
    Ok(Memory {
        page: (once - none) / f64::from(PAGES) - access,
        access,
        streamed: each(peak(PAGES, 4, &streamed)?, peak(PAGES, 1, &streamed)?),
    })
}
