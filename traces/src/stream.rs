//! A trace that is too long to be held, read from its file again each time it is played.

use std::path::PathBuf;

use super::about::About;
use super::error::TraceError;
use super::format::Format;
use super::op::Op;
use super::options::TraceOptions;
use super::reader::{open, Reader};
use super::trace::{read_within, Trace};

/// What can be played from its beginning to its end, any number of times.
pub trait Playable: Sync {
    /// What is known of it as a whole.
    fn about(&self) -> &About;

    /// Its references from the first on.
    ///
    /// # Errors
    /// The file cannot be read again.
    fn window(&self) -> Result<Window<'_>, TraceError>;

    /// All of it, if it is held in memory.
    fn held(&self) -> Option<&Trace>;
}

impl Playable for Trace {
    fn about(&self) -> &About {
        self
    }

    fn window(&self) -> Result<Window<'_>, TraceError> {
        Ok(Window(Kind::Held(self.ops())))
    }

    fn held(&self) -> Option<&Trace> {
        Some(self)
    }
}

/// How a file is read again.
#[derive(Debug, Clone)]
pub struct Again {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: Option<Format>,
    /// How it is read.
    pub options: TraceOptions,
}

/// A trace that stays in its file.
#[derive(Debug, Clone)]
pub struct Stream {
    again: Again,
    about: About,
}

impl Playable for Stream {
    fn about(&self) -> &About {
        &self.about
    }

    fn window(&self) -> Result<Window<'_>, TraceError> {
        let Again {
            path,
            format,
            options,
        } = &self.again;
        Ok(Window(Kind::Read(Box::new(Reading {
            reader: open(path, *format, options)?,
            accesses: self.about.accesses,
            first: 0,
            ops: Vec::new(),
        }))))
    }

    fn held(&self) -> Option<&Trace> {
        None
    }
}

/// A trace that has been read, and is held unless it is too long for that.
#[derive(Debug)]
pub enum Loaded {
    /// In memory.
    Held(Trace),
    /// In its file.
    Stream(Stream),
}

impl Loaded {
    /// Reads an opened trace to its end. One of more than `hold` references stays in its file, which is read `again`.
    /// `progress` as of [`Trace::read`].
    ///
    /// # Errors
    /// The first error of the reader.
    pub fn read(
        reader: Reader,
        hold: usize,
        again: Again,
        progress: impl FnMut(u64, Option<u64>),
    ) -> Result<Loaded, TraceError> {
        let (about, ops) = read_within(reader, hold, progress)?;
        Ok(match ops {
            Some(ops) => Loaded::Held(Trace::of(ops, about)),
            None => Loaded::Stream(Stream { again, about }),
        })
    }

    /// Either, to be played.
    pub fn playable(&self) -> &dyn Playable {
        match self {
            Loaded::Held(trace) => trace,
            Loaded::Stream(stream) => stream,
        }
    }
}

/// References of a trace from some place on: all of one that is held, of a stream those about to be played.
pub struct Window<'a>(Kind<'a>);

enum Kind<'a> {
    Held(&'a [Op]),
    Read(Box<Reading>),
}

struct Reading {
    reader: Reader,
    /// That the trace has.
    accesses: u64,
    /// Place of the first of `ops`.
    first: usize,
    ops: Vec<Op>,
}

/// References of a stream in memory beyond those that are asked for: 512 KiB.
const AHEAD: usize = 1 << 16;

impl Window<'_> {
    /// Place of the first reference in the window.
    #[inline]
    pub fn first(&self) -> usize {
        match &self.0 {
            Kind::Held(_) => 0,
            Kind::Read(reading) => reading.first,
        }
    }

    /// The references in the window.
    #[inline]
    pub fn ops(&self) -> &[Op] {
        match &self.0 {
            Kind::Held(ops) => ops,
            Kind::Read(reading) => &reading.ops,
        }
    }

    /// The references from place `at` on, as far as they are in the window.
    #[inline]
    pub fn from(&self, at: usize) -> &[Op] {
        &self.ops()[at - self.first()..]
    }

    /// Place behind the last reference in the window.
    #[inline]
    pub fn end(&self) -> usize {
        self.first() + self.ops().len()
    }

    /// Makes the window reach `more` references beyond place `at`, or to the end of the trace; those before `at`
    /// leave it.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it was when it was read first.
    #[inline]
    pub fn reach(&mut self, at: usize, more: usize) -> Result<(), TraceError> {
        match &mut self.0 {
            Kind::Read(reading) if reading.first + reading.ops.len() < at + more => {
                reading.refill(at, more)
            }
            _ => Ok(()),
        }
    }
}

impl Reading {
    #[cold]
    fn refill(&mut self, at: usize, more: usize) -> Result<(), TraceError> {
        self.ops.drain(..at - self.first);
        self.first = at;
        let left = (self.accesses as usize).saturating_sub(at);
        let wanted = left.min(more + AHEAD);
        while self.ops.len() < wanted {
            self.reader.many(&mut self.ops);
            match self.reader.next().transpose()? {
                Some(op) => self.ops.push(op),
                None if self.ops.len() < left => {
                    return Err(TraceError::Changed {
                        name: self.reader.name().to_owned(),
                        accesses: self.accesses,
                        now: (at + self.ops.len()) as u64,
                    })
                }
                None => break,
            }
        }
        // A file that has grown is played as far as it went.
        self.ops.truncate(left);
        Ok(())
    }
}
