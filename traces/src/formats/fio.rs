//! Logs of `fio --write_iolog`, versions 2 and 3: `FILE ACTION [OFFSET LENGTH]`, in version 3 with
//! a time stamp before it. Offsets and lengths are in bytes.
//!
//! `read` and `write` touch each page that they overlap, in order; a page that is written as a
//! whole is not read first. `add`, `open`, `close`, `trim`, `sync`, `datasync`, `sync_file_range`
//! and `wait` are no references. All files are object 0, in which their pages stay apart; the
//! trace has one task, and its times are not used.

use std::collections::VecDeque;

use super::event_line::words_of;
use super::extent::Extent;
use crate::decode::{Decode, Framing, Request};
use crate::fields::{decimal, parse};
use crate::numbering::Spaces;
use crate::problem::Problem;

/// Version of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

pub(crate) struct Fio {
    page_shift: u32,
    /// Known after the first line.
    version: Option<Version>,
    files: Spaces<Vec<u8>>,
    out: VecDeque<Request>,
}

const EXPECTED: &str = "[TIME] FILE ACTION [OFFSET LENGTH], as fio writes a log";

/// Version in the first line of a log; `Err` is one that cannot be read.
fn header(line: &[u8]) -> Option<Result<Version, Problem>> {
    let version = line
        .strip_prefix(b"fio version ")?
        .strip_suffix(b" iolog")?;
    Some(match version.trim_ascii() {
        b"2" => Ok(Version::Two),
        b"3" => Ok(Version::Three),
        _ => Err(Problem::text(line, "fio version 2 iolog, or 3")),
    })
}

/// Whether a line is the first of a log.
pub(crate) fn is_header(line: &[u8]) -> bool {
    header(line).is_some()
}

impl Fio {
    pub fn new(page_shift: u32) -> Fio {
        Fio {
            page_shift,
            version: None,
            files: Spaces::default(),
            out: VecDeque::new(),
        }
    }

    fn action(&mut self, file: &[u8], action: &[u8], range: &[&[u8]]) -> Result<(), Problem> {
        let numbers = |expected| match range {
            [offset, length] => Ok((decimal(offset, expected)?, decimal(length, expected)?)),
            _ => Err(Problem::text(action, expected)),
        };
        match action {
            b"read" | b"write" => {
                let (start, units) = numbers("read or write with an offset and a length in bytes")?;
                if units == 0 {
                    return Ok(());
                }
                let extent = Extent {
                    space: self.files.number(file),
                    start,
                    units,
                    shift: self.page_shift,
                };
                if action == b"read" {
                    extent.read(0, &mut self.out)
                } else {
                    extent.write(0, &mut self.out)
                }
            }
            b"add" | b"open" | b"close" if range.is_empty() => Ok(()),
            b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" if range.is_empty() => Ok(()),
            b"wait" if range.len() == 1 => decimal(range[0], EXPECTED).map(|_| ()),
            b"trim" | b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" | b"wait" => {
                numbers("an offset and a length in bytes").map(|_| ())
            }
            _ => Err(Problem::text(
                action,
                "add, open, close, read, write, trim, sync, datasync, sync_file_range or wait, \
                 with their numbers",
            )),
        }
    }
}

impl Decode for Fio {
    const FRAMING: Framing = Framing::Lines;
    const TOLERANT: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if let Some(version) = header(line) {
            self.version = Some(version?);
            return Ok(None);
        }
        let mut words: [&[u8]; 6] = [&[]; 6];
        let mut count = 0;
        for (slot, word) in words.iter_mut().zip(words_of(line)) {
            *slot = word;
            count += 1;
        }
        let words = &words[..count];
        // Of a log without its first line: only version 3 begins with a number.
        let timed = *self.version.get_or_insert_with(|| {
            let number = parse(words[0], 10).is_some();
            if number && matches!(count, 3 | 5) {
                Version::Three
            } else {
                Version::Two
            }
        }) == Version::Three;
        let words = match words {
            [time, rest @ ..] if timed => {
                decimal(time, "a time stamp: this log is of version 3")?;
                rest
            }
            _ => words,
        };
        let [file, action, range @ ..] = words else {
            return Err(Problem::text(line, EXPECTED));
        };
        if range.len() > 2 {
            return Err(Problem::text(line, EXPECTED));
        }
        self.out.clear();
        self.action(file, action, range)?;
        Ok(self.out.pop_front())
    }

    fn more(&mut self) -> Option<Request> {
        self.out.pop_front()
    }
}
