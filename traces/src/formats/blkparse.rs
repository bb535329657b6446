//! Text of `blkparse` in its default form: `MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS SECTOR
//! + SECTORS [COMM]`, and the summary at the end, which is skipped.
//!
//! Requests of one action count, by default those that are queued (`Q`); `events` chooses others.
//! Sectors have 512 bytes. Reads and writes touch each page that they overlap, in order; a page
//! that is written as a whole is not read first. Discards, flushes and requests without data are
//! no references. All devices are object 0, in which their pages stay apart. A request that is
//! queued again on the device below the one that it was queued on (a remap, `A`) counts once.

use std::collections::VecDeque;

use super::event_line::words_of;
use super::extent::Extent;
use crate::decode::{Decode, Framing, Request};
use crate::error::TraceError;
use crate::fields::parse;
use crate::numbering::{Spaces, Tasks};
use crate::options::TraceOptions;
use crate::problem::Problem;
use crate::reading::Loss;

/// Bytes of a sector, as a power of two.
const SECTOR_SHIFT: u32 = 9;
/// Remaps that are remembered until their request is queued.
const REMAPS: usize = 256;

/// What `events` may name.
pub(crate) const CHOICE: &str = "Q (queued), I (inserted), D (issued) or C (completed)";
const EXPECTED: &str =
    "MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS SECTOR + SECTORS, as blkparse prints them";

type Device = (u64, u64);

pub(crate) struct Blkparse {
    page_shift: u32,
    /// Actions that count.
    actions: Vec<u8>,
    devices: Spaces<Device>,
    tasks: Tasks,
    /// Devices and sectors that a request seen above was sent on to.
    remapped: VecDeque<(Device, u64)>,
    /// Within the summary.
    summary: bool,
    loss: Option<Loss>,
    out: VecDeque<Request>,
}

/// The columns that every event has.
struct Event<'a> {
    device: Device,
    process: u64,
    action: &'a [u8],
    flags: &'a [u8],
    rest: &'a [&'a [u8]],
}

/// `MAJOR,MINOR` or, in a remap, `(MAJOR,MINOR)`.
fn device(word: &[u8]) -> Option<Device> {
    let comma = word.iter().position(|&byte| byte == b',')?;
    Some((parse(&word[..comma], 10)?, parse(&word[comma + 1..], 10)?))
}

fn event<'a>(words: &'a [&'a [u8]]) -> Option<Event<'a>> {
    let [dev, cpu, sequence, time, process, action, rest @ ..] = words else {
        return None;
    };
    let number = |word: &[u8]| parse(word, 10);
    number(cpu)?;
    number(sequence)?;
    let dot = time.iter().position(|&byte| byte == b'.')?;
    number(&time[..dot])?;
    number(&time[dot + 1..])?;
    if !(1..=2).contains(&action.len()) || !action.iter().all(u8::is_ascii_alphabetic) {
        return None;
    }
    let (flags, rest) = match rest {
        [flags, rest @ ..] => (*flags, rest),
        [] => (&[][..], rest),
    };
    Some(Event {
        device: device(dev)?,
        process: number(process)?,
        action,
        flags,
        rest,
    })
}

/// Words looked at; the last is the command or a word of a message.
const WORDS: usize = 14;

fn with_event<T>(line: &[u8], take: impl FnOnce(Option<Event<'_>>) -> T) -> T {
    let mut words: [&[u8]; WORDS] = [&[]; WORDS];
    let mut count = 0;
    for (slot, word) in words.iter_mut().zip(words_of(line)) {
        *slot = word;
        count += 1;
    }
    take(event(&words[..count]))
}

/// Whether a line is an event.
pub(crate) fn is_event(line: &[u8]) -> bool {
    with_event(line, |event| event.is_some())
}

/// The first line of the summary: `CPU0 (8,0):`, or `Total (8,0):` if there is one CPU.
fn begins_summary(line: &[u8]) -> bool {
    (line.starts_with(b"CPU") || line.starts_with(b"Total (")) && line.ends_with(b"):")
}

/// `Skips: 2 forward (17 -   0.1%)`: sequence numbers that never came.
fn skips(line: &[u8]) -> Option<Loss> {
    let rest = line.strip_prefix(b"Skips:")?;
    let open = rest.iter().position(|&byte| byte == b'(')?;
    let number = words_of(&rest[open + 1..]).next()?;
    let events = parse(number, 10)?;
    (events > 0).then_some(Loss::Events(events))
}

impl Blkparse {
    /// # Errors
    /// [`TraceError::Option`] if `events` names an action that cannot be chosen.
    pub fn new(options: &TraceOptions) -> Result<Blkparse, TraceError> {
        let choose = |name: &String| match name.as_bytes() {
            &[action @ (b'Q' | b'I' | b'D' | b'C')] => Ok(action),
            _ => Err(TraceError::Option {
                option: "events",
                found: name.escape_debug().to_string(),
                expected: CHOICE,
            }),
        };
        let mut actions: Vec<u8> = options
            .events
            .iter()
            .map(choose)
            .collect::<Result<_, _>>()?;
        if actions.is_empty() {
            actions.push(b'Q');
        }
        Ok(Blkparse {
            page_shift: options.page_shift,
            actions,
            devices: Spaces::default(),
            tasks: Tasks::default(),
            remapped: VecDeque::new(),
            summary: false,
            loss: None,
            out: VecDeque::new(),
        })
    }

    fn take(&mut self, event: &Event<'_>) -> Option<Result<(), Problem>> {
        let number = |word: &[u8]| parse(word, 10);
        if event.action == b"A" {
            // Only where the device above was traced, too, would the request count twice.
            let [sector, b"+", _, b"<-", above, _] = event.rest else {
                return None;
            };
            let above = device(above.strip_prefix(b"(")?.strip_suffix(b")")?)?;
            let target = (event.device, number(sector)?);
            if self.devices.knows(&above) {
                if self.remapped.len() == REMAPS {
                    self.remapped.pop_front();
                }
                self.remapped.push_back(target);
            }
            return Some(Ok(()));
        }
        if !matches!(event.action, &[action] if self.actions.contains(&action)) {
            return Some(Ok(()));
        }
        let write = event.flags.contains(&b'W');
        let data = write || event.flags.contains(&b'R');
        // Commands of the device's own protocol have a length in bytes and no sector.
        let [sector, b"+", sectors, ..] = event.rest else {
            return (!data || event.rest.len() < 3).then_some(Ok(()));
        };
        let (start, units) = (number(sector)?, number(sectors)?);
        if !data || units == 0 || event.flags.contains(&b'D') {
            return Some(Ok(()));
        }
        if event.action == b"Q" {
            let target = (event.device, start);
            if let Some(at) = self.remapped.iter().position(|&remap| remap == target) {
                self.remapped.remove(at);
                // Known from now on: it may be remapped further down.
                self.devices.number(&event.device);
                return Some(Ok(()));
            }
        }
        let extent = Extent {
            space: self.devices.number(&event.device),
            start,
            units,
            shift: self.page_shift - SECTOR_SHIFT,
        };
        let task = self.tasks.task(event.process);
        Some(if write {
            extent.write(task, &mut self.out)
        } else {
            extent.read(task, &mut self.out)
        })
    }
}

impl Decode for Blkparse {
    const FRAMING: Framing = Framing::Lines;
    const TOLERANT: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        self.out.clear();
        let taken = with_event(line, |event| {
            event.map(|event| self.take(&event).unwrap_or_else(|| Err(bad(line))))
        });
        match taken {
            Some(result) => {
                // Several outputs may follow one another.
                self.summary = false;
                result?;
                Ok(self.out.pop_front())
            }
            None if self.summary || begins_summary(line) => {
                self.summary = true;
                self.loss = skips(line);
                Ok(None)
            }
            None => Err(bad(line)),
        }
    }

    fn more(&mut self) -> Option<Request> {
        self.out.pop_front()
    }

    fn lost(&mut self) -> Option<Loss> {
        self.loss.take()
    }
}

fn bad(line: &[u8]) -> Problem {
    Problem::text(line, EXPECTED)
}
