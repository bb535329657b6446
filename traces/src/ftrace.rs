//! Text of ftrace, as `trace`, `trace_pipe` and `trace-cmd report` print it: events of the page
//! cache and page faults; see `kernel_events.rs` for what each is. Comments, the preamble of
//! `trace-cmd report` and other events are skipped.

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::event_line::{loss, EventLine, Style};
use super::kernel_events::KernelEvents;
use super::reading::Loss;

pub(super) struct Ftrace {
    pub events: KernelEvents,
    pub loss: Option<Loss>,
}

const EXPECTED: &str = "COMM-PID [CPU] FLAGS TIME: EVENT: FIELDS, as ftrace prints them";

/// What `trace-cmd report` says before the events.
pub(super) fn is_preamble(line: &[u8]) -> bool {
    line.starts_with(b"cpus=")
        || line.starts_with(b"version = ")
        || line.starts_with(b"CPU ") && line.ends_with(b" is empty")
}

impl Decode for Ftrace {
    const FRAMING: Framing = Framing::Lines;
    const TOLERANT: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if line.starts_with(b"#") || is_preamble(line) {
            return Ok(None);
        }
        match EventLine::parse(line).filter(|event| event.style == Style::Ftrace) {
            Some(event) => self.events.take(&event)?,
            None => {
                self.loss = loss(line);
                if self.loss.is_none() {
                    return Err(Problem::text(line, EXPECTED));
                }
                return Ok(None);
            }
        }
        Ok(self.events.next())
    }

    fn more(&mut self) -> Option<Request> {
        self.events.next()
    }

    fn lost(&mut self) -> Option<Loss> {
        self.loss.take()
    }
}
