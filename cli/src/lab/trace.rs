//! Reading traces.

use super::journal::{self, Journal};
use super::reading::TraceReading;
use crate::args::{AccessArg, TraceArgs};
use crate::error::Failure;
use coldset_lab::runner::{Progress, RunnerError};
use coldset_lab::traces::{
    Access, Again, Loaded, PageIds, Playable, Reader, Source, Trace, TraceError, TraceOptions,
};
use std::path::Path;

/// What the use of a trace asks of its reader.
#[derive(Clone, Copy, Default, Debug)]
pub struct ReadAs {
    /// What becomes of page ids.
    pub page_ids: PageIds,
    /// Threads of a process stay tasks.
    pub threads: bool,
}

/// Page ids for a replay with this read-ahead, KiB; `large`: or in folios of several pages. Neighbours are then read
/// ahead, or in one folio, so pages keep their numbers.
pub fn page_ids(read_ahead_kb: Option<u32>, large: bool) -> PageIds {
    match large || read_ahead_kb.unwrap_or(0) > 0 {
        true => PageIds::Keep,
        false => PageIds::default(),
    }
}

/// How a trace is read.
fn reading(path: &Path, args: &TraceArgs, read_as: ReadAs) -> Result<Again, RunnerError> {
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
        columns: args.columns.clone(),
        strict: args.strict,
        one_task: args.one_task,
        ..TraceOptions::default()
    };
    options.check().map_err(RunnerError::Trace)?;
    Ok(Again {
        path: path.to_owned(),
        format,
        options,
    })
}

/// Opens a trace; `-` is standard input.
///
/// # Errors
/// Whatever is wrong with the file.
fn open(how: &Again) -> Result<Reader, RunnerError> {
    let source = if how.path.as_os_str() == "-" {
        Source::from_reader("standard input", std::io::stdin(), None)
    } else {
        Source::open(&how.path)
    };
    let reader = source.and_then(|s| Reader::from_source(s, how.format, &how.options));
    reader.map_err(RunnerError::Trace)
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
    let (trace, reading) = load_with(&reading(path, args, read_as)?, |reader, progress| {
        Trace::read(reader, progress)
    })?;
    reading.warn_of_loads(trace.about());
    Ok((trace, reading))
}

/// As [`load_trace`]; a trace of more than `hold` accesses stays in its file, if it is one that can be read again.
///
/// # Errors
/// As [`load_trace`].
pub fn load_within(
    path: &Path,
    args: &TraceArgs,
    read_as: ReadAs,
    hold: usize,
) -> Result<(Loaded, TraceReading), Failure> {
    let how = reading(path, args, read_as)?;
    let hold = match path.is_file() {
        true => hold,
        false => usize::MAX,
    };
    let again = how.clone();
    let (trace, reading) = load_with(&how, |reader, progress| {
        Loaded::read(reader, hold, again, progress)
    })?;
    reading.warn_of_loads(trace.playable().about());
    Ok((trace, reading))
}

fn load_with<T>(
    how: &Again,
    read: impl FnOnce(Reader, &mut dyn FnMut(u64, Option<u64>)) -> Result<T, TraceError>,
) -> Result<(T, TraceReading), Failure> {
    let reader = open(how)?;
    let (name, format, tally) = (reader.name().to_owned(), reader.format(), reader.tally());
    let mut bar: Option<Progress> = None;
    let trace = read(reader, &mut |done, total| {
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
