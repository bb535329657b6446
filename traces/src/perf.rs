//! Text of `perf script`: events of the page cache and page faults; see `kernel_events.rs` for
//! what each is. Comments (`#`), call chains and other events are skipped.

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::event_line::{loss, words_of, EventLine, Style};
use super::kernel_events::KernelEvents;
use super::number::parse;
use super::reading::Loss;

pub(super) struct Perf {
    pub events: KernelEvents,
    pub loss: Option<Loss>,
}

const EXPECTED: &str = "COMM PID/TID [CPU] TIME: EVENT: FIELDS, as perf script prints them";

/// A line of a call chain: address, symbol, (file).
fn is_call(line: &[u8]) -> bool {
    line.ends_with(b")")
        && words_of(line)
            .next()
            .is_some_and(|ip| parse(ip, 16).is_some())
}

/// What perf itself says, where its messages went into the file.
fn is_message(line: &[u8]) -> bool {
    line.starts_with(b"#") || line.starts_with(b"[ perf ")
}

impl Decode for Perf {
    const FRAMING: Framing = Framing::Lines;
    const TOLERANT: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if is_message(line) {
            return Ok(None);
        }
        let event = EventLine::parse(line).filter(|event| event.style == Style::Perf);
        if event.is_none_or(|event| event.event.is_empty()) {
            self.loss = loss(line);
            if self.loss.is_some() || is_call(line) {
                return Ok(None);
            }
        }
        match event {
            Some(event) => self.events.take(&event)?,
            None => return Err(Problem::text(line, EXPECTED)),
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
