//! `pageops`, the format of this project: little-endian records of 8 bytes,
//! `u8` kind, `u8` object, `u16` task, `u32` page, without a header.
//!
//! Kinds: 0 mapped read of one byte, 1 `pread` of one byte, 2 `pwrite` of one byte,
//! 3 store to anonymous memory; extensions: 4 load from anonymous memory, 5 write of a whole page
//! of a file, 6 store of one byte through a mapping of a file. An object is
//! a file or an anonymous region throughout; pages are indices below 2^31 and are kept
//! as they are.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::decode::{Decode, Framing, Request};
use crate::error::TraceError;
use crate::numbering::Id;
use crate::op::{Op, OpKind};
use crate::problem::Problem;

pub(crate) struct PageOps;

impl Decode for PageOps {
    const FRAMING: Framing = Framing::Records(Op::BYTES);

    fn decode(&mut self, record: &[u8]) -> Result<Option<Request>, Problem> {
        let kind = OpKind::from_u8(record[0]).ok_or_else(|| Problem {
            found: format!("kind {}", record[0]),
            expected: "0 mapped read, 1 pread, 2 pwrite, 3 anonymous store, 4 anonymous load, \
                       5 whole write, 6 mapped store",
            remedy: crate::problem::CHECK_FORMAT,
        })?;
        let page = u64::from(u32::from_le_bytes(record[4..].try_into().expect("4 bytes")));
        Ok(Some(Request {
            kind,
            object: record[1],
            task: u16::from_le_bytes([record[2], record[3]]),
            id: Id::Page,
            pages: page..page + 1,
        }))
    }
}

/// How a written trace is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritePacking {
    /// Plain text, uncompressed.
    Plain,
    /// Zstandard with a checksum, at this level (1 fast to 22 small).
    Zstd(i32),
}

enum Out {
    Plain(BufWriter<Box<dyn Write + Send>>),
    Zstd(BufWriter<zstd::Encoder<'static, Box<dyn Write + Send>>>),
}

/// Writes `pageops`. Call [`PageOpsWriter::finish`] at the end: without it the file is
/// not complete.
pub struct PageOpsWriter {
    name: String,
    out: Out,
    written: u64,
}

impl PageOpsWriter {
    /// Creates or replaces a file.
    ///
    /// # Errors
    /// [`TraceError::Write`] if the file cannot be created.
    pub fn create(path: &Path, packing: WritePacking) -> Result<PageOpsWriter, TraceError> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|source| TraceError::Write {
            name: name.clone(),
            source,
        })?;
        PageOpsWriter::new(name, Box::new(file), packing)
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
        let name = name.into();
        let out = match packing {
            WritePacking::Plain => Out::Plain(BufWriter::new(out)),
            WritePacking::Zstd(level) => match zstd_encoder(out, level) {
                Ok(encoder) => Out::Zstd(BufWriter::new(encoder)),
                Err(source) => return Err(TraceError::Write { name, source }),
            },
        };
        Ok(PageOpsWriter {
            name,
            out,
            written: 0,
        })
    }

    /// Appends one reference.
    ///
    /// # Errors
    /// [`TraceError::Write`]: for instance the disk is full.
    pub fn push(&mut self, op: Op) -> Result<(), TraceError> {
        let bytes = op.to_bytes();
        let result = match &mut self.out {
            Out::Plain(out) => out.write_all(&bytes),
            Out::Zstd(out) => out.write_all(&bytes),
        };
        result.map_err(|source| TraceError::Write {
            name: self.name.clone(),
            source,
        })?;
        self.written += 1;
        Ok(())
    }

    /// Completes the file; returns the number of references written.
    ///
    /// # Errors
    /// [`TraceError::Write`] as for [`PageOpsWriter::push`].
    pub fn finish(self) -> Result<u64, TraceError> {
        let result = match self.out {
            Out::Plain(mut out) => out.flush(),
            Out::Zstd(out) => out
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(zstd::Encoder::finish)
                .and_then(|mut inner| inner.flush()),
        };
        result.map_err(|source| TraceError::Write {
            name: self.name,
            source,
        })?;
        Ok(self.written)
    }
}

fn zstd_encoder(
    out: Box<dyn Write + Send>,
    level: i32,
) -> io::Result<zstd::Encoder<'static, Box<dyn Write + Send>>> {
    let levels = zstd::compression_level_range();
    if !levels.contains(&level) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("there is no zstd level {level}, only 1 to {}", levels.end()),
        ));
    }
    let mut encoder = zstd::Encoder::new(out, level)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}
