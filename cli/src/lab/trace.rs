//! Reading traces.

use super::journal::{self, Journal};
use super::reading::TraceReading;
use crate::args::{AccessArg, TraceArgs};
use crate::error::Failure;
use coldset_lab::runner::{Progress, RunnerError};
use coldset_lab::traces::{Access, PageIds, Reader, Source, Trace, TraceOptions};
use std::path::Path;

/// What the use of a trace asks of its reader.
#[derive(Clone, Copy, Default, Debug)]
pub struct ReadAs {
    /// What becomes of page ids.
    pub page_ids: PageIds,
    /// Threads of a process stay tasks.
    pub threads: bool,
}

/// Opens a trace; `-` is standard input.
///
/// # Errors
/// Whatever is wrong with the file or the options.
fn open(path: &Path, args: &TraceArgs, read_as: ReadAs) -> Result<Reader, Failure> {
    let format = args.format.as_deref().map(str::parse);
    let format = format.transpose().map_err(RunnerError::Trace)?;
    let options = TraceOptions {
        access: match args.access {
            AccessArg::Read => Access::Read,
            AccessArg::Mapped => Access::Mapped,
        },
        page_ids: read_as.page_ids,
        threads: read_as.threads,
        blocks_per_page: args.blocks_per_page,
        events: args.events.clone(),
        strict: args.strict,
        one_task: args.one_task,
        ..TraceOptions::default()
    };
    options.check().map_err(RunnerError::Trace)?;
    let source = if path.as_os_str() == "-" {
        Source::from_reader("standard input", std::io::stdin(), None)
    } else {
        Source::open(path)
    };
    let reader = source.and_then(|s| Reader::from_source(s, format, &options));
    Ok(reader.map_err(RunnerError::Trace)?)
}

/// Reads all of a trace, or of what a journal shows, with progress on a terminal.
///
/// # Errors
/// As [`open`], or anything wrong further on.
pub fn load(
    path: &Path,
    args: &TraceArgs,
    read_as: ReadAs,
) -> Result<(Trace, Option<TraceReading>), Failure> {
    match load_journal(path, args)? {
        Some(journal) => Ok((journal.trace, None)),
        None => load_trace(path, args, read_as).map(|(trace, reading)| (trace, Some(reading))),
    }
}

/// A journal of the pager, recognised by its beginning; none if the file is something else or a
/// format is given.
///
/// # Errors
/// As [`journal::load`].
pub fn load_journal(path: &Path, args: &TraceArgs) -> Result<Option<Journal>, Failure> {
    match args.format {
        None => journal::load(path),
        Some(_) => Ok(None),
    }
}

/// Reads all of what is no journal; says on standard error what is missing from it.
///
/// # Errors
/// As [`open`], or anything wrong further on.
pub fn load_trace(
    path: &Path,
    args: &TraceArgs,
    read_as: ReadAs,
) -> Result<(Trace, TraceReading), Failure> {
    let reader = open(path, args, read_as)?;
    let (name, format, tally) = (reader.name().to_owned(), reader.format(), reader.tally());
    let mut bar: Option<Progress> = None;
    let trace = Trace::read(reader, |done, total| {
        // The length of a pipe is not known.
        if let Some(total) = total {
            bar.get_or_insert_with(|| Progress::new(total, "reading, bytes"))
                .set(done);
        }
    });
    if let Some(bar) = bar {
        bar.finish();
    }
    let trace = trace.map_err(RunnerError::Trace)?;
    let reading = TraceReading {
        name,
        format,
        reading: tally.get(),
    };
    reading.warn();
    Ok((trace, reading))
}
