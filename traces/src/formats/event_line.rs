//! The beginning of a line of kernel events, as `perf script` and as ftrace print it: who, where,
//! when, which event.
//!
//! `perf script`: `COMM PID[/TID] [CPU] TIME: [PERIOD] EVENT: FIELDS`; command, CPU and period
//! may be absent. ftrace: `COMM-PID [(TGID)] [CPU] [FLAGS] TIME: EVENT: FIELDS`, behind the name of
//! an instance, `INSTANCE:`, in what `trace-cmd report` prints of it. Commands may hold blanks,
//! brackets, colons and dashes, and even something like `7/8 [000] 1.2:`; the time stamp is what a
//! line is read from, and what looks like one within the command's 15 bytes is none.

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
/// Longest command of a task, in bytes. What a recorder finds in `/proc` may be longer, but holds no blanks.
const COMMAND: usize = 15;

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
        // In front of the command there may be the name of an instance.
        let command = match words {
            [first, second, ..] if first.ends_with(b":") => start(line, second),
            _ => 0,
        };
        let mut found: Option<(usize, Who)> = None;
        for at in (1..count).filter(|&at| is_time(words, at)) {
            if let Some(who) = who(line, &words[..at]) {
                if found.is_none() || who.behind <= command + COMMAND {
                    found = Some((at, who));
                }
            }
        }
        let (time, who) = found?;
        let style = who.style;
        let mut rest = after(line, words[time]);
        let is_between = |word: &[u8]| match style {
            // The period of a sample.
            Style::Perf => parse(word, 10).is_some(),
            // Time since the event before, `(+13)`.
            Style::Ftrace => word.starts_with(b"(+") && word.ends_with(b")"),
        };
        if let Some(between) = words.get(time + 1).filter(|word| is_between(word)) {
            rest = after(line, between);
        }
        let first = words_of(rest).next().unwrap_or_default();
        let (event, fields) = match first.strip_suffix(b":") {
            Some(event) => (event, after(rest, first).trim_ascii()),
            None => (&[][..], rest.trim_ascii()),
        };
        Some(EventLine {
            style,
            process: who.process,
            thread: who.thread,
            event,
            fields,
        })
    }
}

/// What stands before a time stamp.
struct Who {
    style: Style,
    process: u64,
    thread: u64,
    /// Where the command ends.
    behind: usize,
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

/// Where a word that is a part of the line begins.
fn start(line: &[u8], word: &[u8]) -> usize {
    word.as_ptr() as usize - line.as_ptr() as usize
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
fn who(line: &[u8], words: &[&[u8]]) -> Option<Who> {
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
    let (id, command) = rest.split_last()?;
    let perf = |process, thread| Who {
        style: Style::Perf,
        process,
        thread,
        behind: command
            .last()
            .map_or(0, |word| start(line, word) + word.len()),
    };
    if let Some(thread) = parse(id, 10) {
        return Some(perf(thread, thread));
    }
    if let Some(slash) = id.iter().position(|&byte| byte == b'/') {
        let ids = parse(&id[..slash], 10).zip(parse(&id[slash + 1..], 10));
        if let Some((process, thread)) = ids {
            return Some(perf(process, thread));
        }
    }
    let dash = id.iter().rposition(|&byte| byte == b'-')?;
    let thread = parse(&id[dash + 1..], 10)?;
    Some(Who {
        style: Style::Ftrace,
        process: group.unwrap_or(thread),
        thread,
        behind: start(line, id) + dash,
    })
}

/// What a line says of lost events, if it is about that: `CPU:0 [LOST 12 EVENTS]` (ftrace),
/// `CPU:0 [12 EVENTS DROPPED]` (trace-cmd), `PERF_RECORD_LOST lost 12` (`perf script
/// --show-lost-events`), `Processed 9 events and lost 2 chunks!` or
/// `Processed 9 samples and lost 18.83%!` (perf's warnings), `Lost 12 events` (bpftrace).
pub(crate) fn loss(line: &[u8]) -> Option<Loss> {
    // An instance's name may stand before it.
    let line = match words_of(line).next() {
        Some(first) if first.ends_with(b":") && after(line, first).starts_with(b" CPU:") => {
            after(line, first).trim_ascii_start()
        }
        _ => line,
    };
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
    // Chunks are of unknown size, and so is a share.
    let unknown =
        find(b" chunks!").is_some() || line.starts_with(b"Processed ") && line.ends_with(b"%!");
    (find(b" lost ").is_some() && unknown).then_some(Loss::Uncounted)
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
            // Commands that look like the beginning of a line.
            (b"7/8 [000] 1.2: 13842/13842 [001] 80345.716: file_read: dev=8:1", Perf, 13842, 13842, b"file_read", b"dev=8:1"),
            (b"a b [1] 2.3: x 13842/13843 [001] 80345.716: a: b", Perf, 13842, 13843, b"a", b"b"),
            (b"1 1.2: faults:    12 [001] 80345.716:     1 page-faults: 55", Perf, 12, 12, b"page-faults", b"55"),
            (b"x 1.2: 13842/13842 [001] 80345.716: file_read: dev=8:1", Perf, 13842, 13842, b"file_read", b"dev=8:1"),
            (b"a-1 [0] 1.2: b:-17 [001] d.... 45.7: e: f", Ftrace, 17, 17, b"e", b"f"),
            (b"x-8 [000] 1.2: -17054   (  17053) [000] ..... 80503.7: e: f", Ftrace, 17053, 17054, b"e", b"f"),
            // trace-cmd report: an instance before all, the time since the event before.
            (b"mine:             bash-17665 [001] 80537.523001: e: f", Ftrace, 17665, 17665, b"e", b"f"),
            (b"mine:   x-8 [000] 1.2: -17671 [001] 80537.523001: (+13)    e: f", Ftrace, 17671, 17671, b"e", b"f"),
            // A command among the fields.
            (b"sort 31213 [001] 45.3: sched:sched_switch: prev_comm=7/8 [000] 1.2: prev_pid=3", Perf, 31213, 31213, b"sched:sched_switch", b"prev_comm=7/8 [000] 1.2: prev_pid=3"),
            (b"sort 31213 [001] 45.3: s:s: prev_comm=a 1 1.2: faults: prev_pid=3", Perf, 31213, 31213, b"s:s", b"prev_comm=a 1 1.2: faults: prev_pid=3"),
            (b"kworker/u8:2-events_unbound 12 [000] 1.5: a: b 3 2.5: c: d", Perf, 12, 12, b"a", b"b 3 2.5: c: d"),
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
            (
                b"mine: CPU:1 [398452 EVENTS DROPPED]",
                Some(Loss::Events(398_452)),
            ),
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
            (
                b"Processed 400000 samples and lost 18.83%!",
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
