//! The conductor's end of a worker: accesses go in, answers come out.

use super::answer::{read_number, Report};
use super::Control;
use coldset_traces::{Op, Record};
use std::fs::File;
use std::io::{self, Write};

/// What the pipe to a worker holds at most: how much it can be behind when it is killed.
const PIPE: usize = 64 << 10;
/// Bytes written at once.
const PIECE: usize = PIPE / 8;

/// A line to a worker.
#[derive(Debug)]
pub(crate) struct Line {
    input: File,
    output: File,
    bytes: Vec<u8>,
    /// Bytes that the pipe has taken, and records among what was meant for it that are no accesses.
    sent: u64,
    others: u64,
    /// As the last answer says.
    done: u64,
    report: Report,
}

impl Line {
    /// The worker reads from the other end of `input` and writes to that of `output`.
    pub fn new(input: File, output: File) -> Self {
        // One that may not be set is of this size anyway.
        let _ = rustix::pipe::fcntl_setpipe_size(&input, PIPE);
        Self {
            input,
            output,
            bytes: Vec::with_capacity(PIECE + Op::BYTES),
            sent: 0,
            others: 0,
            done: 0,
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
            self.others += u64::from(matches!(record, Record::Step(_)));
            if self.bytes.len() >= PIECE {
                self.flush()?;
            }
        }
        self.control(Control::Sync)?;
        self.done = read_number(&mut self.output)?;
        Ok(())
    }

    /// Asks for the latencies so far.
    pub fn report(&mut self) -> io::Result<()> {
        self.control(Control::Report)?;
        self.report = Report::read(&mut self.output)?;
        self.done = self.report.done;
        Ok(())
    }

    /// The last report.
    pub fn last_report(&self) -> &Report {
        &self.report
    }

    /// Accesses done. Of a worker that has ended, and has not said how far it was: those that it has taken.
    pub fn done(&self) -> u64 {
        let waiting = rustix::io::ioctl_fionread(&self.input).unwrap_or(0);
        let taken = self.sent.saturating_sub(waiting) / Op::BYTES as u64;
        self.done.max(taken.saturating_sub(self.others))
    }

    fn control(&mut self, control: Control) -> io::Result<()> {
        self.bytes.extend(control.to_bytes());
        self.others += 1;
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            match self.input.write(rest) {
                Ok(n) => {
                    self.sent += n as u64;
                    rest = &rest[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.bytes.clear();
        Ok(())
    }
}
