//! An opened trace as an iterator.

use std::collections::HashMap;
use std::path::Path;

use super::address::Address;
use super::arc::Arc;
use super::cache2k::Cache2k;
use super::cloudphysics::CloudPhysics;
use super::cloudphysics_csv::CloudPhysicsCsv;
use super::csv::Csv;
use super::decode::{Decode, Decoder};
use super::error::TraceError;
use super::format::Format;
use super::lackey::Lackey;
use super::lirs::Lirs;
use super::merge::{Runs, Windows};
use super::op::Op;
use super::options::TraceOptions;
use super::oracle_general::OracleGeneral;
use super::pageops::PageOps;
use super::source::{Progress, Source};

type Ops = Box<dyn Iterator<Item = Result<Op, TraceError>> + Send>;

/// The references of a trace, in order. After an error the iterator ends.
pub struct Reader {
    ops: Ops,
    name: String,
    format: Format,
    progress: Progress,
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
    /// [`TraceError::Unrecognised`], [`TraceError::Empty`] (an empty file of unknown
    /// format) and [`TraceError::Option`].
    pub fn from_source(
        source: Source,
        format: Option<Format>,
        options: &TraceOptions,
    ) -> Result<Reader, TraceError> {
        options.check()?;
        let guess = || Format::guess(source.name(), source.head());
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
        Ok(Reader {
            name: source.name().to_string(),
            format,
            progress: source.progress(),
            ops: merged(decoder(source, format, options), options),
            any: false,
            done: false,
        })
    }

    /// How far the file has been read.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
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

fn decoder(source: Source, format: Format, options: &TraceOptions) -> Ops {
    fn boxed<D: Decode + Send + 'static>(source: Source, decode: D, options: &TraceOptions) -> Ops {
        Box::new(Decoder::new(source, decode, options))
    }
    let page_shift = options.page_shift;
    match format {
        Format::PageOps => boxed(source, PageOps, options),
        Format::OracleGeneral => {
            let decode = OracleGeneral {
                object_pages: options.object_pages,
                page_shift,
                objects: HashMap::new(),
            };
            boxed(source, decode, options)
        }
        Format::Arc => {
            let blocks_per_page = u64::from(options.blocks_per_page);
            boxed(source, Arc { blocks_per_page }, options)
        }
        Format::Lirs => boxed(source, Lirs, options),
        Format::CloudPhysics => boxed(source, CloudPhysics, options),
        Format::CloudPhysicsCsv => {
            let decode = CloudPhysicsCsv {
                page_shift,
                first_line: true,
            };
            boxed(source, decode, options)
        }
        Format::Address => boxed(source, Address { page_shift }, options),
        Format::Cache2k => boxed(source, Cache2k, options),
        Format::Csv => boxed(source, Csv::default(), options),
        Format::Lackey => {
            let decode = Lackey {
                page_shift,
                instructions: options.instructions,
            };
            boxed(source, decode, options)
        }
    }
}
