//! Reading a journal: frames, the header, operations.

use super::error::JournalError;
use crate::policy::Policy;
use crate::record::header::{decoder, PolicyConfig, MAGIC, MAGIC_NAME};
use crate::record::ops::{Op, OpInfo, NUMBERS_MAX};
use crate::sys::quiet::quietly;
use coldset_engine::presets;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Most bytes of the operations of a frame, unpacked. The writer's frames are much smaller.
const FRAME_MAX: u64 = 64 << 20;
/// Unpacked bytes that any journal may have, and further ones for each of its own. What a pool
/// writes has a tenth of that: more is an attempt, or damage.
const UNPACKED: u64 = 16 << 20;
const UNPACKED_PER_BYTE: u64 = 64;
/// Most bytes of a line of the header, and most lines.
const LINE_MAX: u64 = 200;
const LINES_MAX: usize = 1000;

/// The operations of a journal, in order.
pub(super) struct Reader {
    from: BufReader<File>,
    frame: Vec<u8>,
    at: usize,
    /// Operations read.
    operations: u64,
    /// Unpacked bytes that may come yet.
    left: u64,
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
    pub(super) state: Option<Box<Policy>>,
}

/// An error of unpacking; none if the frame is not whole.
fn unpacking(e: io::Error) -> Option<JournalError> {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        None
    } else if e.raw_os_error().is_some() {
        Some(e.into())
    } else {
        Some(JournalError::Damaged(e.to_string()))
    }
}

fn too_long() -> JournalError {
    let what = "it unpacks to more than a journal of its size has";
    JournalError::Damaged(what.into())
}

fn not_whole() -> JournalError {
    JournalError::Format("its beginning is not whole".into())
}

/// Reads to the end, `left` bytes at most, into memory that is never twice what is needed.
fn read_frame(mut from: impl Read, to: &mut Vec<u8>, left: &mut u64) -> io::Result<bool> {
    const STEP: usize = 1 << 20;
    loop {
        if to.len() as u64 > (*left).min(FRAME_MAX) {
            return Ok(false);
        }
        if to.capacity() - to.len() < STEP {
            let most = (FRAME_MAX as usize + STEP).saturating_sub(to.len());
            to.reserve_exact(to.len().clamp(STEP, most.max(STEP)));
        }
        if from.by_ref().take(STEP as u64).read_to_end(to)? == 0 {
            *left -= to.len() as u64;
            return Ok(true);
        }
    }
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<(Self, Header), JournalError> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        // The length of a pipe is not known.
        let mut left = match about.is_file() {
            true => UNPACKED + about.len().saturating_mul(UNPACKED_PER_BYTE),
            false => u64::MAX,
        };
        let mut from = BufReader::with_capacity(1 << 20, file);
        if from.fill_buf()?.is_empty() {
            return Err(JournalError::Format("it is empty".into()));
        }
        let mut frame = Vec::new();
        let first = decoder(&mut from)?.single_frame();
        let mut first = BufReader::with_capacity(1 << 16, first);
        let header = header(&mut first, left)?;
        // A state is not kept as bytes.
        left -= header.1;
        match read_frame(first, &mut frame, &mut left) {
            Ok(true) => {}
            Ok(false) => return Err(too_long()),
            Err(e) => return Err(unpacking(e).unwrap_or_else(not_whole)),
        }
        let reader = Self {
            from,
            frame,
            at: 0,
            operations: 0,
            left,
            truncated: false,
            ended: false,
        };
        Ok((reader, header.0))
    }

    /// The next frame, as a whole. False: there is none.
    fn next_frame(&mut self) -> Result<bool, JournalError> {
        self.frame.clear();
        self.at = 0;
        if self.from.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let frame = decoder(&mut self.from)?.single_frame();
        match read_frame(frame, &mut self.frame, &mut self.left) {
            Ok(true) => return Ok(true),
            Ok(false) => return Err(too_long()),
            Err(e) => match unpacking(e) {
                Some(e) => return Err(e),
                None => self.truncated = true,
            },
        }
        self.frame.clear();
        Ok(false)
    }

    /// The next operation; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Op>, JournalError> {
        while self.at == self.frame.len() {
            if !self.next_frame()? {
                self.truncated |= !self.ended;
                return Ok(None);
            }
            if self.ended {
                return Err(JournalError::Damaged("something follows its end".into()));
            }
        }
        let byte = self.frame[self.at];
        self.at += 1;
        let entry = OpInfo::of(byte)
            .ok_or_else(|| JournalError::Damaged(format!("there is no operation {byte}")))?;
        let mut numbers = [0; NUMBERS_MAX];
        let numbers = &mut numbers[..entry.numbers()];
        for n in &mut *numbers {
            *n = self.number()?;
        }
        let op = Op::decode(byte, numbers).ok_or_else(|| JournalError::DamagedAt {
            at: self.operations,
            what: format!("{} of {numbers:?}", entry.name),
        })?;
        self.operations += 1;
        self.ended = op == Op::End();
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

fn line(from: &mut impl BufRead) -> Result<String, JournalError> {
    let mut line = Vec::new();
    let read = from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
    read.map_err(|e| unpacking(e).unwrap_or_else(not_whole))?;
    let whole = line.pop() == Some(b'\n');
    let text = String::from_utf8(line).ok().filter(|_| whole);
    text.ok_or_else(|| JournalError::Format("its header is not text".into()))
}

/// Reads the header, with a state of at most `left` bytes. Also says how long that is.
fn header(from: &mut impl BufRead, left: u64) -> Result<(Header, u64), JournalError> {
    let format =
        |what: &str| JournalError::Format(format!("header line '{}'", what.escape_debug()));
    let first = match line(from) {
        Err(JournalError::Format(_)) => String::new(),
        other => other?,
    };
    if first != MAGIC {
        return Err(match first.strip_prefix(MAGIC_NAME) {
            Some(version) => JournalError::Version(version.trim().escape_debug().to_string()),
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
    for _ in 0..LINES_MAX {
        let text = line(from)?;
        let number = |t: &str| t.parse::<u64>().map_err(|_| format(&text));
        match text.split_once(' ') {
            None if text.is_empty() => {
                let Some(len) = state else {
                    return Ok((header, 0));
                };
                if len > left {
                    return Err(too_long());
                }
                let loaded = quietly(|| Policy::load(&mut from.take(len)));
                let loaded = loaded
                    .unwrap_or_else(|e| Err(Err(e)))
                    .map_err(|e| match e {
                        Ok(e) => unpacking(e).unwrap_or_else(not_whole),
                        Err(what) => JournalError::Damaged(format!("its state: {what}")),
                    })?;
                header.state = Some(Box::new(loaded));
                return Ok((header, len));
            }
            Some(("written-by", v)) => header.written_by = v.escape_debug().to_string(),
            Some(("budget", v)) => header.config.budget = number(v)?,
            Some(("slots", v)) => {
                header.config.slots = number(v)?.try_into().map_err(|_| format(&text))?;
            }
            Some(("state", v)) => state = Some(number(v)?),
            Some(("switch", v)) => {
                let set = header.config.switches.assign(v);
                set.map_err(|e| JournalError::Format(e.to_string()))?;
            }
            _ => return Err(format(&text)),
        }
    }
    Err(JournalError::Format("its header has no end".into()))
}
