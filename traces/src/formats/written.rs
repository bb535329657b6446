//! Files that traces are written to, plain or packed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::TraceError;

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

/// A file being written. Not complete before [`Written::finish`].
pub(super) struct Written {
    name: String,
    out: Out,
}

impl Written {
    /// Creates or replaces a file.
    pub fn create(path: &Path, packing: WritePacking) -> Result<Written, TraceError> {
        let name = path.display().to_string();
        match File::create(path) {
            Ok(file) => Written::new(name, Box::new(file), packing),
            Err(source) => Err(TraceError::Write { name, source }),
        }
    }

    /// Any byte stream.
    pub fn new(
        name: String,
        out: Box<dyn Write + Send>,
        packing: WritePacking,
    ) -> Result<Written, TraceError> {
        let out = match packing {
            WritePacking::Plain => Out::Plain(BufWriter::new(out)),
            WritePacking::Zstd(level) => match zstd_encoder(out, level) {
                Ok(encoder) => Out::Zstd(BufWriter::new(encoder)),
                Err(source) => return Err(TraceError::Write { name, source }),
            },
        };
        Ok(Written { name, out })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let result = match &mut self.out {
            Out::Plain(out) => out.write_all(bytes),
            Out::Zstd(out) => out.write_all(bytes),
        };
        result.map_err(|source| TraceError::Write {
            name: self.name.clone(),
            source,
        })
    }

    /// Completes the file.
    pub fn finish(self) -> Result<(), TraceError> {
        let result = match self.out {
            Out::Plain(mut out) => out.flush(),
            Out::Zstd(out) => out
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(zstd::Encoder::finish)
                .and_then(|mut inner| inner.flush()),
        };
        let name = self.name;
        result.map_err(|source| TraceError::Write { name, source })
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
