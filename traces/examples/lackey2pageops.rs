//! Turns the output of Valgrind's lackey on standard input into a packed `pageops` file.
//!
//! `valgrind --tool=lackey --trace-mem=yes --log-fd=9 PROGRAM 9>&1 >/dev/null |
//! lackey2pageops OUTPUT.pageops.zst`
//!
//! Consecutive references to one page are merged, then those within windows of
//! [`WINDOW`]; see `data/README.md`.

use std::path::Path;
use std::process::ExitCode;

use coldset_traces::{
    Format, PageOpsWriter, Reader, Source, Trace, TraceError, TraceOptions, WritePacking,
};

/// References (changes of page) in a window.
const WINDOW: u32 = 256;
/// Slow and small: the file is written once and read often.
const LEVEL: i32 = 22;

fn convert(output: &Path) -> Result<Trace, TraceError> {
    let options = TraceOptions {
        collapse: true,
        merge_window: WINDOW,
        strict: true,
        ..TraceOptions::default()
    };
    let source = Source::from_reader("standard input", std::io::stdin(), None)?;
    let reader = Reader::from_source(source, Some(Format::Lackey), &options)?;
    let trace = Trace::read(reader, |_, _| {})?;
    let mut writer = PageOpsWriter::create(output, WritePacking::Zstd(LEVEL))?;
    for &op in trace.ops() {
        writer.push(op)?;
    }
    writer.finish()?;
    Ok(trace)
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [output] = arguments.as_slice() else {
        eprintln!("usage: lackey2pageops OUTPUT.pageops.zst < LACKEY-OUTPUT");
        return ExitCode::from(2);
    };
    match convert(Path::new(output)) {
        Ok(trace) => {
            println!(
                "references {} pages {} stores {}",
                trace.ops().len(),
                trace.unique_pages,
                trace.writes
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
