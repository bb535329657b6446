//! Reading a journal: frames, the header, operations.

use super::{JournalError, Op, MAGIC, MAGIC_NAME};
use crate::policy::PolicyConfig;
use coldset_engine::presets;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The operations of a journal, in order.
pub(super) struct Reader {
    from: BufReader<File>,
    frame: Vec<u8>,
    at: usize,
    /// The last frame is not whole, or there is no end.
    pub(super) truncated: bool,
    ended: bool,
}

/// What a journal begins with.
pub(super) struct Header {
    pub(super) config: PolicyConfig,
    /// Version of this crate that wrote it.
    pub(super) written_by: String,
    /// The policy, if it begins in the middle.
    pub(super) state: Option<Vec<u8>>,
}

/// True if the file begins as a journal does, of whatever version.
///
/// # Errors
/// It cannot be read at all.
pub fn is_journal(path: impl AsRef<Path>) -> io::Result<bool> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        // A pipe could not be read again.
        return Ok(false);
    }
    begins_as_journal(&file)
}

/// As [`is_journal`], of a regular file that has not been read.
pub(super) fn begins_as_journal(file: &File) -> io::Result<bool> {
    let mut head = Vec::new();
    let Ok(z) = zstd::Decoder::new(file) else {
        return Ok(false);
    };
    let read = z.take(MAGIC_NAME.len() as u64).read_to_end(&mut head);
    Ok(read.is_ok() && head == MAGIC_NAME.as_bytes())
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<(Self, Header), JournalError> {
        let mut r = Self {
            from: BufReader::with_capacity(1 << 20, File::open(path)?),
            frame: Vec::new(),
            at: 0,
            truncated: false,
            ended: false,
        };
        if !r.next_frame()? {
            let what = if r.truncated {
                "its beginning is not whole"
            } else {
                "it is empty"
            };
            return Err(JournalError::Format(what.into()));
        }
        let header = r.header()?;
        Ok((r, header))
    }

    /// The next frame, as a whole. False: there is none.
    fn next_frame(&mut self) -> Result<bool, JournalError> {
        self.frame.clear();
        self.at = 0;
        if self.from.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let frame = zstd::Decoder::with_buffer(&mut self.from)?.single_frame();
        let read = { frame }.read_to_end(&mut self.frame);
        match read {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                self.truncated = true;
                self.frame.clear();
                Ok(false)
            }
            Err(e) if e.raw_os_error().is_some() => Err(e.into()),
            Err(e) => Err(JournalError::Damaged(e.to_string())),
        }
    }

    fn line(&mut self) -> Result<&str, JournalError> {
        let rest = &self.frame[self.at..];
        let end = rest.iter().take(200).position(|&b| b == b'\n');
        let whole = end.and_then(|n| std::str::from_utf8(&rest[..n]).ok());
        let whole = whole.ok_or_else(|| JournalError::Format("its header is not text".into()))?;
        self.at += whole.len() + 1;
        Ok(whole)
    }

    fn header(&mut self) -> Result<Header, JournalError> {
        let format = |what: &str| JournalError::Format(format!("header line '{what}'"));
        let first = self.line().unwrap_or_default();
        if first != MAGIC {
            return Err(match first.strip_prefix(MAGIC_NAME) {
                Some(version) => JournalError::Version(version.trim().into()),
                None => JournalError::Format(format!("it does not begin with '{MAGIC_NAME}'")),
            });
        }
        let mut header = Header {
            config: PolicyConfig {
                switches: presets::preset("base").expect("a preset"),
                budget: 0,
                slots: 0,
            },
            written_by: String::new(),
            state: None,
        };
        let mut state = None;
        loop {
            let text = self.line()?;
            let number = |t: &str| t.parse::<u64>().map_err(|_| format(text));
            match text.split_once(' ') {
                None if text.is_empty() => break,
                Some(("written-by", v)) => header.written_by = v.into(),
                Some(("budget", v)) => header.config.budget = number(v)?,
                Some(("slots", v)) => {
                    header.config.slots = number(v)?.try_into().map_err(|_| format(text))?;
                }
                Some(("state", v)) => state = Some(number(v)? as usize),
                Some(("switch", v)) => {
                    let set = header.config.switches.assign(v);
                    set.map_err(|e| JournalError::Format(e.to_string()))?;
                }
                _ => return Err(format(text)),
            }
        }
        if let Some(len) = state {
            let rest = &self.frame[self.at..];
            let state = rest.get(..len).ok_or_else(|| format("state"))?;
            header.state = Some(state.to_vec());
            self.at += len;
        }
        Ok(header)
    }

    /// The next operation and its arguments; none at the end.
    pub(super) fn next(&mut self, args: &mut [u64; 5]) -> Result<Option<Op>, JournalError> {
        while self.at == self.frame.len() {
            if !self.next_frame()? {
                self.truncated |= !self.ended;
                return Ok(None);
            }
            if self.ended {
                return Err(JournalError::Damaged("it goes on after its end".into()));
            }
        }
        let byte = self.frame[self.at];
        self.at += 1;
        let (op, n) = Op::of(byte)
            .ok_or_else(|| JournalError::Damaged(format!("there is no operation {byte}")))?;
        for a in &mut args[..n] {
            *a = self.number()?;
        }
        self.ended = op == Op::End;
        Ok(Some(op))
    }

    fn number(&mut self) -> Result<u64, JournalError> {
        let (mut v, mut shift) = (0u64, 0);
        loop {
            let Some(&b) = self.frame.get(self.at) else {
                let what = "a frame ends within an operation";
                return Err(JournalError::Damaged(what.into()));
            };
            self.at += 1;
            if shift > 63 {
                return Err(JournalError::Damaged("a number is too large".into()));
            }
            v |= u64::from(b & 0x7F) << shift;
            shift += 7;
            if b & 0x80 == 0 {
                return Ok(v);
            }
        }
    }
}
