//! The conductor's end of a worker: accesses go in, answers come out.

use super::answer::{read_number, Report};
use super::Control;
use crate::sys::Count;
use coldset_traces::{Op, Record};
use std::fs::File;
use std::io::{self, Write};

/// What the pipe to a worker holds at most.
const PIPE: usize = 64 << 10;
/// Bytes written at once.
const PIECE: usize = PIPE / 8;

/// A line to a worker.
#[derive(Debug)]
pub(crate) struct Line {
    input: File,
    output: File,
    bytes: Vec<u8>,
    /// Where the worker counts what it has done.
    count: Count,
    report: Report,
}

impl Line {
    /// The worker reads from the other end of `input`, writes to that of `output`, and counts its accesses in `count`.
    pub fn new(input: File, output: File, count: Count) -> Self {
        // One that may not be set is of this size anyway.
        let _ = rustix::pipe::fcntl_setpipe_size(&input, PIPE);
        Self {
            input,
            output,
            bytes: Vec::with_capacity(PIECE + Op::BYTES),
            count,
            report: Report::default(),
        }
    }

    /// Waits until the worker has all that it needs.
    ///
    /// # Errors
    /// It has ended, as everywhere here.
    pub fn ready(&mut self) -> io::Result<()> {
        read_number(&mut self.output).map(|_| ())
    }

    /// Has work done, and waits until it is.
    pub fn run(&mut self, work: &[Record]) -> io::Result<()> {
        for record in work {
            self.bytes.extend(record.to_bytes());
            if self.bytes.len() >= PIECE {
                self.flush()?;
            }
        }
        self.control(Control::Sync)?;
        read_number(&mut self.output).map(|_| ())
    }

    /// Asks for the latencies so far.
    pub fn report(&mut self) -> io::Result<()> {
        self.control(Control::Report)?;
        self.report = Report::read(&mut self.output)?;
        Ok(())
    }

    /// The last report.
    pub fn last_report(&self) -> &Report {
        &self.report
    }

    /// Accesses done, also of a worker that was killed: without the one that it was at.
    pub fn done(&self) -> u64 {
        self.count.get()
    }

    fn control(&mut self, control: Control) -> io::Result<()> {
        self.bytes.extend(control.to_bytes());
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            match self.input.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.bytes.clear();
        Ok(())
    }
}
