//! `pageops`, the format of this project: little-endian records of 8 bytes,
//! `u8` kind, `u8` object, `u16` task, `u32` page or value.
//!
//! Kinds: 0 mapped read of one byte, 1 `pread` of one byte, 2 `pwrite` of one byte,
//! 3 store to anonymous memory; extensions: 4 load from anonymous memory, 5 write of a whole page
//! of a file, 6 store of one byte through a mapping of a file. An object is
//! a file or an anonymous region throughout; pages are indices below 2^31 and are kept
//! as they are.
//!
//! Version 2 has steps between the accesses, of the kinds of [`StepKind`]; its first record says so. Version 1 has no
//! header.

use std::io::Write;
use std::path::Path;

use super::written::{WritePacking, Written};
use crate::decode::{Decode, Framing, Request};
use crate::error::TraceError;
use crate::numbering::Id;
use crate::op::{Op, OpKind};
use crate::problem::Problem;
use crate::step::{Record, Step, StepKind};

/// Reads both versions.
#[derive(Default)]
pub(crate) struct PageOps {
    /// A record has been read.
    begun: bool,
    /// The file says that it has steps.
    has_steps: bool,
    /// The step just read.
    step: Option<Step>,
}

impl PageOps {
    fn take_step(&mut self, step: Step, is_first: bool) -> Result<(), Problem> {
        let problem = |found, expected| Problem {
            found,
            expected,
            remedy: crate::problem::CHECK_FORMAT,
        };
        match (step.kind, is_first) {
            (StepKind::Version, true) if step.value == Step::VERSION => self.has_steps = true,
            (StepKind::Version, true) => {
                let found = format!("version {}", step.value);
                return Err(Problem {
                    remedy: "read it with the version of this program that wrote it",
                    ..problem(found, "version 2, or 1, which has no such record")
                });
            }
            (StepKind::Version, false) => {
                let found = "a second record of a version".into();
                return Err(problem(found, "one, at the beginning"));
            }
            _ if !self.has_steps => {
                let found = format!("a step of kind {}", step.kind as u8);
                return Err(problem(
                    found,
                    "steps only in a file that begins with version 2",
                ));
            }
            _ => self.step = Some(step),
        }
        Ok(())
    }
}

impl Decode for PageOps {
    const FRAMING: Framing = Framing::Records(Op::BYTES);

    fn decode(&mut self, record: &[u8]) -> Result<Option<Request>, Problem> {
        let is_first = !std::mem::replace(&mut self.begun, true);
        let bytes: [u8; Op::BYTES] = record.try_into().expect("a whole record");
        if let Some(step) = Step::from_bytes(bytes) {
            return self.take_step(step, is_first).map(|()| None);
        }
        let kind = OpKind::from_u8(record[0]).ok_or_else(|| Problem {
            found: match StepKind::from_u8(record[0]) {
                Some(_) => format!("kind {} with the value {}", record[0], value(bytes)),
                None => format!("kind {}", record[0]),
            },
            expected: "0 mapped read, 1 pread, 2 pwrite, 3 anonymous store, 4 anonymous load, \
                       5 whole write, 6 mapped store, or a step, 32 to 42",
            remedy: crate::problem::CHECK_FORMAT,
        })?;
        let page = u64::from(value(bytes));
        Ok(Some(Request {
            kind,
            object: record[1],
            task: u16::from_le_bytes([record[2], record[3]]),
            id: Id::Page,
            pages: page..page + 1,
        }))
    }

    /// An access is the same in both versions.
    #[inline]
    fn reference(record: &[u8]) -> Option<Op> {
        Op::from_bytes(record.try_into().ok()?)
    }

    fn step(&mut self) -> Option<Step> {
        self.step.take()
    }
}

/// Page or value of a record.
fn value([.., v0, v1, v2, v3]: [u8; Op::BYTES]) -> u32 {
    u32::from_le_bytes([v0, v1, v2, v3])
}

/// Writes `pageops`. Call [`PageOpsWriter::finish`] at the end: without it the file is
/// not complete.
pub struct PageOpsWriter {
    to: Written,
    written: u64,
}

impl PageOpsWriter {
    /// Creates or replaces a file.
    ///
    /// # Errors
    /// [`TraceError::Write`] if the file cannot be created.
    pub fn create(path: &Path, packing: WritePacking) -> Result<PageOpsWriter, TraceError> {
        Ok(PageOpsWriter {
            to: Written::create(path, packing)?,
            written: 0,
        })
    }

    /// Writes to any byte stream; `name` is for messages.
    ///
    /// # Errors
    /// [`TraceError::Write`] if the packing level does not exist.
    pub fn new(
        name: impl Into<String>,
        out: Box<dyn Write + Send>,
        packing: WritePacking,
    ) -> Result<PageOpsWriter, TraceError> {
        Ok(PageOpsWriter {
            to: Written::new(name.into(), out, packing)?,
            written: 0,
        })
    }

    /// Appends one reference.
    ///
    /// # Errors
    /// [`TraceError::Write`]: for instance the disk is full.
    pub fn push(&mut self, op: Op) -> Result<(), TraceError> {
        self.to.write(&op.to_bytes())?;
        self.written += 1;
        Ok(())
    }

    /// Appends one step. The first record of a file that has steps is [`Step::version`].
    ///
    /// # Errors
    /// As [`PageOpsWriter::push`].
    pub fn push_step(&mut self, step: Step) -> Result<(), TraceError> {
        self.to.write(&step.to_bytes())
    }

    /// Appends one of [`Trace::file_records`](crate::Trace::file_records).
    ///
    /// # Errors
    /// As [`PageOpsWriter::push`].
    pub fn push_record(&mut self, record: Record) -> Result<(), TraceError> {
        match record {
            Record::Access(op) => self.push(op),
            Record::Step(step) => self.push_step(step),
        }
    }

    /// Completes the file; returns the number of references written.
    ///
    /// # Errors
    /// [`TraceError::Write`] as for [`PageOpsWriter::push`].
    pub fn finish(self) -> Result<u64, TraceError> {
        self.to.finish()?;
        Ok(self.written)
    }
}
