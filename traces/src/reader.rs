//! An opened trace as an iterator.

use std::collections::HashMap;
use std::path::Path;

use super::decode::{Decode, Decoder, References};
use super::error::TraceError;
use super::format::{recording, Format};
use super::formats::*;
use super::merge::{Runs, Windows};
use super::op::Op;
use super::options::TraceOptions;
use super::reading::{Reading, Steps, Tally};
use super::source::{Progress, Source};
use super::step::Event;

type Ops = Box<dyn References + Send>;

/// The references of a trace, in order. After an error the iterator ends.
pub struct Reader {
    ops: Ops,
    name: String,
    format: Format,
    guessed: bool,
    progress: Progress,
    tally: Tally,
    steps: Steps,
    /// References are merged, and places between them are lost.
    merges: bool,
    any: bool,
    done: bool,
}

/// Opens a trace file; see [`Reader::from_source`].
///
/// # Errors
/// Those of [`Source::open`] and [`Reader::from_source`].
pub fn open(
    path: impl AsRef<Path>,
    format: Option<Format>,
    options: &TraceOptions,
) -> Result<Reader, TraceError> {
    Reader::from_source(Source::open(path.as_ref())?, format, options)
}

impl Reader {
    /// Reads a trace from an opened source. Without `format` it is recognised by the name
    /// and the first bytes.
    ///
    /// # Errors
    /// [`TraceError::Unrecognised`], [`TraceError::Recording`], [`TraceError::Empty`] (an empty
    /// file of unknown format) and [`TraceError::Option`].
    pub fn from_source(
        source: Source,
        format: Option<Format>,
        options: &TraceOptions,
    ) -> Result<Reader, TraceError> {
        options.check()?;
        if let Some((what, remedy)) = recording(source.head()).filter(|_| format.is_none()) {
            return Err(TraceError::Recording {
                name: source.name().to_string(),
                what,
                remedy,
            });
        }
        let guessed = format.is_none();
        let guess = || match options.columns.is_empty() {
            true => Format::guess(source.name(), source.head()),
            // Whatever it looks like, its columns have been named.
            false => Some(Format::Csv),
        };
        let Some(format) = format.or_else(guess) else {
            let name = source.name().to_string();
            return Err(if source.head().is_empty() {
                TraceError::Empty {
                    name,
                    format: "an empty file",
                }
            } else {
                TraceError::Unrecognised {
                    name,
                    known: Format::names(),
                }
            });
        };
        let (tally, steps) = (Tally::default(), Steps::default());
        let shared = (tally.clone(), steps.clone());
        Ok(Reader {
            name: source.name().to_string(),
            format,
            guessed,
            progress: source.progress(),
            ops: merged(decoder(source, format, options, shared)?, options),
            tally,
            steps,
            merges: options.collapse || options.merge_window > 1,
            any: false,
            done: false,
        })
    }

    /// How far the file has been read.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// What is met on the way: lines, bad lines, lost events. Complete once the reader has ended.
    pub fn tally(&self) -> Tally {
        self.tally.clone()
    }

    /// Appends the references that can be had at once. None may be appended before the end, too: [`Iterator::next`]
    /// gives what is next in any case.
    pub(super) fn many(&mut self, ops: &mut Vec<Op>) {
        if !self.done {
            let before = ops.len();
            self.ops.many(ops);
            self.any |= ops.len() > before;
        }
    }

    /// The steps between the references that have been read.
    ///
    /// # Errors
    /// [`TraceError::Option`]: references of a trace with steps are not merged.
    pub(super) fn steps(&self) -> Result<Vec<Event>, TraceError> {
        let steps = self.steps.take();
        if self.merges && !steps.is_empty() {
            return Err(TraceError::Option {
                option: "merging",
                found: format!("{}, which has steps between its accesses", self.name),
                expected: "a trace of accesses only; leave --collapse and --merge-window out",
            });
        }
        Ok(steps)
    }

    /// The format, given or recognised.
    pub fn format(&self) -> Format {
        self.format
    }

    /// File as given by the user.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Reader {
    fn mostly_bad(&self, reading: Reading) -> TraceError {
        let first = reading.first_bad.into_iter().next();
        let first = first.expect("the first bad lines are kept");
        TraceError::MostlyBad {
            name: self.name.clone(),
            format: self.format.name(),
            how: if self.guessed { "guessed" } else { "as named" },
            bad: reading.bad,
            lines: reading.lines,
            first: Box::new(first),
            known: Format::names(),
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Op, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.ops.next();
        match &next {
            Some(Ok(_)) => self.any = true,
            Some(Err(_)) => self.done = true,
            None => {
                self.done = true;
                let reading = self.tally.get();
                // What cannot be read is why there is nothing, too.
                if reading.bad > reading.good() || !self.any && reading.bad > 0 {
                    return Some(Err(self.mostly_bad(reading)));
                }
                if !self.any {
                    return Some(Err(TraceError::Empty {
                        name: self.name.clone(),
                        format: self.format.name(),
                    }));
                }
            }
        }
        next
    }
}

fn merged(mut ops: Ops, options: &TraceOptions) -> Ops {
    if options.collapse {
        ops = Box::new(Runs::new(ops));
    }
    if options.merge_window > 1 {
        ops = Box::new(Windows::new(ops, options.merge_window));
    }
    ops
}

fn decoder(
    source: Source,
    format: Format,
    options: &TraceOptions,
    shared: (Tally, Steps),
) -> Result<Ops, TraceError> {
    /// What every decoder is made with.
    struct Make<'a>(Source, &'a TraceOptions, (Tally, Steps));
    impl Make<'_> {
        fn of<D: Decode + Send + 'static>(self, format: D) -> Ops {
            let (tally, steps) = self.2;
            Box::new(Decoder::new(self.0, format, self.1, tally, steps))
        }
    }
    if let Some(event) = options.events.first() {
        if !matches!(format, Format::Perf | Format::Ftrace | Format::Blkparse) {
            return Err(TraceError::Option {
                option: "events",
                found: event.escape_debug().to_string(),
                expected: "none: only perf, ftrace and blkparse have events to choose from",
            });
        }
    }
    if !options.columns.is_empty() && format != Format::Csv {
        return Err(TraceError::Option {
            option: "columns",
            found: options.columns.join(","),
            expected: "none: only csv has columns to name",
        });
    }
    let make = Make(source, options, shared);
    let columns = |names: &str| Columns::named(names, options);
    let page_shift = options.page_shift;
    Ok(match format {
        Format::PageOps => make.of(PageOps::default()),
        Format::OracleGeneral => {
            let decode = OracleGeneral {
                object_pages: options.object_pages,
                page_shift,
                objects: HashMap::new(),
            };
            make.of(decode)
        }
        Format::Arc => {
            let blocks_per_page = u64::from(options.blocks_per_page);
            make.of(Arc { blocks_per_page })
        }
        Format::Lirs => make.of(Lirs),
        Format::CloudPhysics => make.of(CloudPhysics),
        Format::CloudPhysicsCsv => {
            let decode = CloudPhysicsCsv {
                page_shift,
                first_line: true,
            };
            make.of(decode)
        }
        Format::Address => make.of(Address { page_shift }),
        Format::Cache2k => make.of(Cache2k),
        Format::Csv if options.columns.is_empty() => make.of(Csv::default()),
        Format::Csv => make.of(columns(&options.columns.join(","))?),
        Format::Msr => make.of(columns(MSR)?),
        Format::Alibaba => make.of(columns(ALIBABA)?),
        Format::Tencent => make.of(columns(TENCENT)?),
        Format::Twitter => make.of(columns(TWITTER)?),
        Format::Wikipedia => make.of(columns(WIKIPEDIA)?),
        Format::Lackey => {
            let decode = Lackey {
                page_shift,
                instructions: options.instructions,
            };
            make.of(decode)
        }
        Format::Perf => make.of(Perf::new(options)?),
        Format::Ftrace => make.of(Ftrace::new(options)?),
        Format::Fio => make.of(Fio::new(page_shift)),
        Format::Blkparse => make.of(Blkparse::new(options)?),
    })
}
