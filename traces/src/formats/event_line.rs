//! The beginning of a line of kernel events, as `perf script` and as ftrace print it: who, where,
//! when, which event.
//!
//! `perf script`: `COMM PID[/TID] [CPU] TIME: [PERIOD] EVENT: FIELDS`; command, CPU and period
//! may be absent. ftrace: `COMM-PID [(TGID)] [CPU] [FLAGS] TIME: EVENT: FIELDS`. Commands may
//! hold blanks, brackets, colons and dashes; the time stamp is what a line is read from.

use crate::fields::parse;
use crate::reading::Loss;

/// Who prints lines in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `perf script`.
    Perf,
    /// `trace`, `trace_pipe`, `trace-cmd report`.
    Ftrace,
}

/// The beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventLine<'a> {
    pub style: Style,
    /// Process where it is printed, else the thread.
    pub process: u64,
    pub thread: u64,
    /// Name of the event without its colon; empty if there is none.
    pub event: &'a [u8],
    /// All that follows, blanks removed at both ends.
    pub fields: &'a [u8],
}

/// Words looked at: those of a command and of the columns.
const WORDS: usize = 24;

impl<'a> EventLine<'a> {
    /// Reads a line; nothing if it does not begin as an event.
    pub fn parse(line: &'a [u8]) -> Option<EventLine<'a>> {
        let mut words: [&[u8]; WORDS] = [&[]; WORDS];
        let mut count = 0;
        for (slot, word) in words.iter_mut().zip(words_of(line)) {
            *slot = word;
            count += 1;
        }
        let words = &words[..count];
        let time = (1..count).find(|&at| is_time(words, at))?;
        let (style, process, thread) = who(&words[..time])?;
        // perf prints the period of a sample before the event.
        let mut rest = after(line, words[time]);
        let period = words.get(time + 1).filter(|word| parse(word, 10).is_some());
        if let (Style::Perf, Some(period)) = (style, period) {
            rest = after(line, period);
        }
        let first = words_of(rest).next().unwrap_or_default();
        let (event, fields) = match first.strip_suffix(b":") {
            Some(event) => (event, after(rest, first).trim_ascii()),
            None => (&[][..], rest.trim_ascii()),
        };
        Some(EventLine {
            style,
            process,
            thread,
            event,
            fields,
        })
    }
}

/// The words of a line, without blanks and tabs.
pub(crate) fn words_of(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
}

/// What follows a word that is a part of the line.
fn after<'a>(line: &'a [u8], word: &'a [u8]) -> &'a [u8] {
    let end = word.as_ptr_range().end as usize - line.as_ptr() as usize;
    line.get(end..).unwrap_or_default()
}

fn is_cpu(word: &[u8]) -> bool {
    let inner = word.strip_prefix(b"[").and_then(|w| w.strip_suffix(b"]"));
    inner.is_some_and(|digits| parse(digits, 10).is_some())
}

/// `SECONDS.FRACTION:`; behind a CPU also `TICKS:`, of other trace clocks.
fn is_time(words: &[&[u8]], at: usize) -> bool {
    let Some(number) = words[at].strip_suffix(b":") else {
        return false;
    };
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    match number.iter().position(|&byte| byte == b'.') {
        Some(dot) => digits(&number[..dot]) && digits(&number[dot + 1..]),
        None => digits(number) && (at.saturating_sub(2)..at).any(|before| is_cpu(words[before])),
    }
}

/// Style, process and thread from the words before the time.
fn who(words: &[&[u8]]) -> Option<(Style, u64, u64)> {
    let mut rest = words;
    match *rest {
        [ref before @ .., cpu] if is_cpu(cpu) => rest = before,
        [ref before @ .., cpu, _] if is_cpu(cpu) => rest = before,
        _ => {}
    }
    // `(1234)`, `(   34)` or `(-------)`.
    let mut group = None;
    if let [before @ .., word] = rest {
        if let Some(inner) = word.strip_suffix(b")") {
            match inner.strip_prefix(b"(") {
                Some(inner) => (group, rest) = (parse(inner, 10), before),
                None => {
                    let [before @ .., b"("] = before else {
                        return None;
                    };
                    (group, rest) = (parse(inner, 10), before);
                }
            }
        }
    }
    let id = rest.last()?;
    if let Some(thread) = parse(id, 10) {
        return Some((Style::Perf, thread, thread));
    }
    if let Some(slash) = id.iter().position(|&byte| byte == b'/') {
        let ids = parse(&id[..slash], 10).zip(parse(&id[slash + 1..], 10));
        if let Some((process, thread)) = ids {
            return Some((Style::Perf, process, thread));
        }
    }
    let dash = id.iter().rposition(|&byte| byte == b'-')?;
    let thread = parse(&id[dash + 1..], 10)?;
    Some((Style::Ftrace, group.unwrap_or(thread), thread))
}

/// What a line says of lost events, if it is about that: `CPU:0 [LOST 12 EVENTS]` (ftrace),
/// `CPU:0 [12 EVENTS DROPPED]` (trace-cmd), `PERF_RECORD_LOST lost 12` (`perf script
/// --show-lost-events`), `Processed 9 events and lost 2 chunks!` (perf's warning), `Lost 12 events` (bpftrace).
pub(crate) fn loss(line: &[u8]) -> Option<Loss> {
    let from = |at: usize| &line[at..];
    if line.starts_with(b"CPU:") {
        let bracket = line.iter().position(|&byte| byte == b'[')?;
        let inner = from(bracket + 1).strip_suffix(b"]")?;
        let words: Vec<&[u8]> = words_of(inner).collect();
        return match words[..] {
            [b"LOST", number, b"EVENTS"] | [number, b"EVENTS", b"DROPPED"] => {
                Some(parse(number, 10).map_or(Loss::Uncounted, Loss::Events))
            }
            [b"LOST", b"EVENTS"] | [b"EVENTS", b"DROPPED"] => Some(Loss::Uncounted),
            _ => None,
        };
    }
    if let Some(number) = line.strip_prefix(b"Lost ") {
        let number = number.strip_suffix(b" events")?;
        return parse(number, 10).map(Loss::Events);
    }
    let find = |what: &[u8]| line.windows(what.len()).position(|part| part == what);
    if let Some(at) = find(b"PERF_RECORD_LOST") {
        let mut words = words_of(from(at)).skip_while(|&word| word != b"lost");
        let number = words.nth(1).and_then(|word| parse(word, 10));
        return Some(number.map_or(Loss::Uncounted, Loss::Events));
    }
    // Chunks are of unknown size.
    (find(b" lost ").is_some() && find(b" chunks!").is_some()).then_some(Loss::Uncounted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_lines() {
        use Style::{Ftrace, Perf};
        for (line, style, process, thread, event, fields) in [
            (&b"sort 31213 [001] 45404.392660: exceptions:page_fault_kernel: address=0x5 ip=f"[..], Perf, 31213, 31213, &b"exceptions:page_fault_kernel"[..], &b"address=0x5 ip=f"[..]),
            (b"sort  3021/3022  [000] 45631.400279:                page-faults:     55e4220b9548", Perf, 3021, 3022, b"page-faults", b"55e4220b9548"),
            (b"sort 31330 45406.171744:          1  page-faults:  ffffffff817554ea elf_load+0x28a", Perf, 31330, 31330, b"page-faults", b"ffffffff817554ea elf_load+0x28a"),
            (b"7/8 1.000000001: page-faults:u: 55", Perf, 7, 8, b"page-faults:u", b"55"),
            (b"kworker/0:1-ev 12 [000] 1.5: a:b:", Perf, 12, 12, b"a:b", b""),
            (b"Web Content 9 77/78 [003] 1.5: a: x=1", Perf, 77, 78, b"a", b"x=1"),
            (b"sort-8550    (   8550) [000] d.... 45772.788475: page_fault_user: address=0x1", Ftrace, 8550, 8550, b"page_fault_user", b"address=0x1"),
            (b"sort-8551  (8550) [000] d.... 45772.788475: page_fault_user: address=0x1", Ftrace, 8550, 8551, b"page_fault_user", b"address=0x1"),
            (b"<...>-4145 (-------) [000] .N..1 4.5: e: f", Ftrace, 4145, 4145, b"e", b"f"),
            (b"sort-8550  [000] 45772.788475: page_fault_kernel:    address=0x5", Ftrace, 8550, 8550, b"page_fault_kernel", b"address=0x5"),
            (b"a-b c-12 [000] ..... 3781: e: f", Ftrace, 12, 12, b"e", b"f"),
            (b"sort-8550  [000] ..... 45772.788475: do_fault <-handle", Ftrace, 8550, 8550, b"", b"do_fault <-handle"),
        ] {
            let expected = EventLine { style, process, thread, event, fields };
            assert_eq!(EventLine::parse(line), Some(expected), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            &b""[..],
            b"ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])",
            b"1 2 3 4",
            b"hello: world",
            b"12.5: 3",
            b"sort [000] 1.5: e: f",
            b"8550) [000] 1.5: e: f",
            b"[000] 1.5: e: f",
            b"sort- [000] 1.5: e: f",
            b"sort/8550 [000] 1.5: e: f",
        ] {
            assert_eq!(EventLine::parse(line), None, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn losses() {
        for (line, found) in [
            (&b"CPU:0 [LOST 123 EVENTS]"[..], Some(Loss::Events(123))),
            (b"CPU:11 [12 EVENTS DROPPED]", Some(Loss::Events(12))),
            (b"CPU:1 [EVENTS DROPPED]", Some(Loss::Uncounted)),
            (b"CPU:1 [LOST EVENTS]", Some(Loss::Uncounted)),
            (
                b"sort 1 [000] 1.5: PERF_RECORD_LOST lost 7",
                Some(Loss::Events(7)),
            ),
            (
                b"sort 1 [000] 1.5: PERF_RECORD_LOST_SAMPLES lost 9",
                Some(Loss::Events(9)),
            ),
            (
                b"Processed 99 events and lost 4 chunks!",
                Some(Loss::Uncounted),
            ),
            (b"Lost 1081 events", Some(Loss::Events(1081))),
            (b"Lost all events", None),
            (b"Lost 5 games", None),
            (b"CPU:0 [hello]", None),
            (b"CPU:0 LOST 3 EVENTS", None),
            (b"we lost 3 games", None),
        ] {
            assert_eq!(loss(line), found, "{}", line.escape_ascii());
        }
    }
}
