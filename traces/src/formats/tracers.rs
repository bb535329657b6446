//! Text of kernel tracers, `perf script` (as which `scripts/pages.bt` of bpftrace prints, too) and ftrace: events of the page cache and page faults. What a line is
//! is told by `event_line.rs`, what an event means by `kernel_events`.

use super::event_line::{loss, words_of, EventLine, Style};
use super::kernel_events::KernelEvents;
use crate::decode::{Decode, Framing, Request};
use crate::error::TraceError;
use crate::fields::parse;
use crate::options::TraceOptions;
use crate::problem::Problem;
use crate::reading::Loss;

/// Text of `perf script`, or of `scripts/pages.bt`: events of the page cache and page faults; see `kernel_events` for
/// what each is. Comments (`#`), call chains and other events are skipped.
pub(crate) struct Perf {
    events: KernelEvents,
    loss: Option<Loss>,
    /// Lines of `scripts/pages.bt` that are here or are said to be lost, and how many there were.
    found: u64,
    printed: u64,
}

impl Perf {
    pub fn new(options: &TraceOptions) -> Result<Self, TraceError> {
        let events = KernelEvents::new(options)?;
        Ok(Self {
            events,
            loss: None,
            found: 0,
            printed: 0,
        })
    }

    /// How many lines there were, at the end of what `scripts/pages.bt` prints: bpftrace does not say of all that it has
    /// lost, or not in the file.
    fn count(&mut self, lines: u64) {
        self.printed = self.printed.saturating_add(lines);
        let missing = self.printed.saturating_sub(self.found);
        if missing > 0 {
            self.found = self.printed;
            self.loss = Some(Loss::Events(missing));
        }
    }
}

/// `@printed[0]: 1234`: lines that `scripts/pages.bt` has printed on a CPU.
fn printed(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"@printed[")?;
    let end = rest.iter().position(|&byte| byte == b']')?;
    parse(&rest[..end], 10)?;
    parse(rest[end..].strip_prefix(b"]: ")?, 10)
}

/// Whether `scripts/pages.bt` prints this event, under this name.
fn is_of_script(event: &[u8]) -> bool {
    matches!(event, b"file_read" | b"file_write" | b"mm_filemap_fault")
}

const PERF: &str = "COMM PID/TID [CPU] TIME: EVENT: FIELDS, as perf script prints them";

/// A line of a call chain: address, symbol, (file).
fn is_call(line: &[u8]) -> bool {
    line.ends_with(b")")
        && words_of(line)
            .next()
            .is_some_and(|ip| parse(ip, 16).is_some())
}

/// What perf and bpftrace themselves say, where their messages went into the file.
fn is_message(line: &[u8]) -> bool {
    let probes = [&b"Attaching "[..], b"Attached "].iter().any(|&begins| {
        let number = line.strip_prefix(begins).unwrap_or_default();
        number.first().is_some_and(u8::is_ascii_digit)
            && words_of(number)
                .nth(1)
                .is_some_and(|w| w.starts_with(b"probe"))
    });
    let warning = line == b"Warning:" || line == b"Check IO/CPU overload!";
    line.starts_with(b"#") || line.starts_with(b"[ perf ") || probes || warning
}

impl Decode for Perf {
    const FRAMING: Framing = Framing::Lines;
    const TOLERANT: bool = true;
    const MEMORY_APART: bool = true;
    const OLDER_MEMORY: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if is_message(line) {
            return Ok(None);
        }
        let event = EventLine::parse(line).filter(|event| event.style == Style::Perf);
        if event.is_some_and(|event| is_of_script(event.event)) {
            self.found += 1;
        }
        if let Some(lines) = printed(line) {
            self.count(lines);
            return Ok(None);
        }
        if event.is_none_or(|event| event.event.is_empty()) {
            self.loss = loss(line);
            if let Some(Loss::Events(lost)) = self.loss {
                self.found = self.found.saturating_add(lost);
            }
            if self.loss.is_some() || is_call(line) {
                return Ok(None);
            }
        }
        match event {
            Some(event) => self.events.take(&event)?,
            None => return Err(Problem::text(line, PERF)),
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

/// Text of ftrace, as `trace`, `trace_pipe` and `trace-cmd report` print it: events of the page
/// cache and page faults; see `kernel_events` for what each is. Comments, stacks, the preamble of
/// `trace-cmd report` and other events are skipped.
pub(crate) struct Ftrace {
    events: KernelEvents,
    loss: Option<Loss>,
}

impl Ftrace {
    pub fn new(options: &TraceOptions) -> Result<Self, TraceError> {
        let events = KernelEvents::new(options)?;
        Ok(Self { events, loss: None })
    }
}

const FTRACE: &str = "COMM-PID [CPU] FLAGS TIME: EVENT: FIELDS, as ftrace prints them";

/// What `trace-cmd report` says before the events.
pub(crate) fn is_preamble(line: &[u8]) -> bool {
    line.starts_with(b"cpus=")
        || line.starts_with(b"version = ")
        || line.starts_with(b"CPU ") && line.ends_with(b" is empty")
}

/// `# entries-in-buffer/entries-written: 1558/400010   #P:2`: the others have been overwritten.
fn overwritten(line: &[u8]) -> Option<Loss> {
    let counts = line.strip_prefix(b"# entries-in-buffer/entries-written:")?;
    let counts = words_of(counts).next()?;
    let slash = counts.iter().position(|&byte| byte == b'/')?;
    let (kept, written) = (
        parse(&counts[..slash], 10)?,
        parse(&counts[slash + 1..], 10)?,
    );
    (written > kept).then(|| Loss::Events(written - kept))
}

impl Decode for Ftrace {
    const FRAMING: Framing = Framing::Lines;
    const TOLERANT: bool = true;
    const MEMORY_APART: bool = true;
    const OLDER_MEMORY: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        self.loss = overwritten(line);
        // ` => FUNCTION` is a line of a stack.
        if line.starts_with(b"#") || line.starts_with(b"=> ") || is_preamble(line) {
            return Ok(None);
        }
        match EventLine::parse(line).filter(|event| event.style == Style::Ftrace) {
            Some(event) => self.events.take(&event)?,
            None => {
                self.loss = loss(line);
                if self.loss.is_none() {
                    return Err(Problem::text(line, FTRACE));
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
