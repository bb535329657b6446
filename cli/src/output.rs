//! Where results go: a table on standard output, JSON and CSV to files or, as `-`, to standard
//! output in its place.

use crate::error::Failure;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Prints to standard output.
///
/// # Errors
/// [`Failure::PipeClosed`] if nobody reads it, [`Failure::Write`].
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::write("standard output", e))
}

/// The files of `--json` and `--csv`, opened before the work begins, so that hours of it are not
/// lost to a misspelt folder.
pub struct Outputs {
    json: Option<Sink>,
    csv: Option<Sink>,
    text: bool,
}

struct Sink {
    name: String,
    out: Box<dyn Write>,
}

impl Outputs {
    /// Opens them; `-` is standard output.
    ///
    /// # Errors
    /// A file that cannot be created, or `-` twice.
    pub fn open(json: Option<&str>, csv: Option<&str>) -> Result<Self, Failure> {
        if json == Some("-") && csv == Some("-") {
            return Err(Failure::Usage(
                "--json - and --csv - cannot both go to standard output; name a file for one"
                    .into(),
            ));
        }
        let open = |name: Option<&str>| name.map(Sink::open).transpose();
        Ok(Self {
            json: open(json)?,
            csv: open(csv)?,
            text: json != Some("-") && csv != Some("-"),
        })
    }

    /// Writes the CSV form only.
    ///
    /// # Errors
    /// As [`print()`].
    pub fn write_csv_only(
        mut self,
        csv: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
    ) -> Result<(), Failure> {
        self.text = false;
        self.write(String::new, String::new, csv)
    }

    /// Writes all forms that are wanted.
    ///
    /// # Errors
    /// As [`print()`].
    pub fn write(
        mut self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> String,
        csv: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
    ) -> Result<(), Failure> {
        if let Some(sink) = &mut self.json {
            sink.put(json().as_bytes())?;
        }
        if let Some(sink) = &mut self.csv {
            let mut bytes = Vec::new();
            csv(&mut bytes).map_err(|e| Failure::write(&sink.name, io::Error::other(e)))?;
            sink.put(&bytes)?;
        }
        if self.text {
            print(&text())?;
        }
        Ok(())
    }
}

impl Sink {
    fn open(name: &str) -> Result<Self, Failure> {
        let out: Box<dyn Write> = if name == "-" {
            Box::new(io::stdout())
        } else {
            let file = File::create(name).map_err(|e| Failure::write(name, e))?;
            Box::new(BufWriter::new(file))
        };
        Ok(Self {
            name: if name == "-" { "standard output" } else { name }.into(),
            out,
        })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out
            .write_all(bytes)
            .and_then(|()| self.out.flush())
            .map_err(|e| Failure::write(&self.name, e))
    }
}
