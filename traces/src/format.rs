//! The trace formats by name, and how one is recognised.

use std::fmt;
use std::str::FromStr;

use super::decode::{Decode, BYTE_ORDER_MARK};
use super::error::TraceError;
use super::fields::{blank_separated, comma_separated, parse};
use super::op::Op;
use super::step::Step;
use crate::formats::{
    is_event, is_header, is_preamble, layout, Blkparse, EventLine, Fio, Ftrace, Lackey, Layout,
    Perf, Style, CLOUDPHYSICS_HEADER, ORACLE_RECORD,
};
use coldset_nearest::did_you_mean;

/// A trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The project's own 8-byte records.
    PageOps,
    /// libCacheSim oracleGeneral, 24-byte records.
    OracleGeneral,
    /// ARC `.lis` text.
    Arc,
    /// LIRS text, one page a line.
    Lirs,
    /// CloudPhysics 32-bit little-endian block numbers.
    CloudPhysics,
    /// CloudPhysics requests as CSV.
    CloudPhysicsCsv,
    /// Loads and stores by address, text.
    Address,
    /// cache2k 32-bit big-endian keys.
    Cache2k,
    /// CSV with a page column.
    Csv,
    /// Text of Valgrind's lackey.
    Lackey,
    /// Text of `perf script`: page cache and page faults.
    Perf,
    /// Text of ftrace or `trace-cmd report`: the same events.
    Ftrace,
    /// Log of `fio --write_iolog`.
    Fio,
    /// Text of `blkparse`.
    Blkparse,
    /// MSR Cambridge block requests, CSV.
    Msr,
    /// Alibaba block requests, CSV.
    Alibaba,
    /// Tencent block requests, CSV.
    Tencent,
    /// Twitter's cache commands, CSV.
    Twitter,
    /// Wikimedia's requests to its CDN, text.
    Wikipedia,
}

impl Format {
    /// Every format, in the order of `coldset lab list --formats`.
    pub const ALL: [Format; 19] = [
        Format::PageOps,
        Format::OracleGeneral,
        Format::Arc,
        Format::Lirs,
        Format::CloudPhysics,
        Format::CloudPhysicsCsv,
        Format::Address,
        Format::Cache2k,
        Format::Csv,
        Format::Lackey,
        Format::Perf,
        Format::Ftrace,
        Format::Fio,
        Format::Blkparse,
        Format::Msr,
        Format::Alibaba,
        Format::Tencent,
        Format::Twitter,
        Format::Wikipedia,
    ];

    /// Name for options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::PageOps => "pageops",
            Format::OracleGeneral => "oracle-general",
            Format::Arc => "arc",
            Format::Lirs => "lirs",
            Format::CloudPhysics => "cloudphysics",
            Format::CloudPhysicsCsv => "cloudphysics-csv",
            Format::Address => "address",
            Format::Cache2k => "cache2k",
            Format::Csv => "csv",
            Format::Lackey => "lackey",
            Format::Perf => "perf",
            Format::Ftrace => "ftrace",
            Format::Fio => "fio",
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
            Format::Alibaba => "alibaba-block",
            Format::Tencent => "tencent-block",
            Format::Twitter => "twitter",
            Format::Wikipedia => "wikipedia",
        }
    }

    /// Whether a bad line is counted and left out, and not an error (unless asked for).
    pub fn is_lenient(self) -> bool {
        match self {
            Format::Lackey => Lackey::TOLERANT,
            Format::Perf => Perf::TOLERANT,
            Format::Ftrace => Ftrace::TOLERANT,
            Format::Fio => Fio::TOLERANT,
            Format::Blkparse => Blkparse::TOLERANT,
            _ => false,
        }
    }

    /// All names, for messages.
    pub fn names() -> String {
        Self::ALL.map(Format::name).join(", ")
    }

    /// Recognises a format by the file name, else by the first (unpacked) bytes.
    pub fn guess(name: &str, head: &[u8]) -> Option<Format> {
        by_name(name).or_else(|| {
            let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
            if is_text(text) {
                by_text(text)
            } else {
                // The name of a process may hold any byte.
                by_shape(text).or_else(|| by_records(head))
            }
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Format, TraceError> {
        if let Some(format) = Self::ALL.into_iter().find(|format| format.name() == name) {
            return Ok(format);
        }
        Err(TraceError::NoSuchFormat {
            found: name.escape_debug().to_string(),
            hint: did_you_mean(name, Self::ALL.into_iter().map(Format::name)),
            known: Self::names(),
        })
    }
}

fn by_name(name: &str) -> Option<Format> {
    let name = name
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(name)
        .to_ascii_lowercase();
    let unpacked = [".gz", ".zst", ".zstd", ".xz"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(&name);
    if unpacked.contains(".oraclegeneral") {
        return Some(Format::OracleGeneral);
    }
    match unpacked.rsplit_once('.')?.1 {
        "pageops" => Some(Format::PageOps),
        "lis" => Some(Format::Arc),
        "lackey" => Some(Format::Lackey),
        _ => None,
    }
}

fn is_text(head: &[u8]) -> bool {
    head.iter()
        .all(|&byte| byte >= b' ' && byte != 0x7f || matches!(byte, b'\t' | b'\r' | b'\n'))
}

/// What a recorder keeps for itself, and the command that prints it.
pub(super) fn recording(head: &[u8]) -> Option<(&'static str, &'static str)> {
    if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
        // There is no address with most events, and perf then prints nothing.
        let remedy = "perf script -i FILE --show-lost-events -F comm,pid,tid,cpu,time,event,trace \
                      (of page-faults, with addr in place of trace)";
        Some(("a recording of perf", remedy))
    } else if head.starts_with(b"\x17\x08Dtracing") {
        Some(("a recording of trace-cmd", "trace-cmd report -i FILE"))
    } else if head.len() >= 48 && matches!(head[..4], [0x07, b't', b'a', b'e']) {
        let remedy = "blkparse -i NAME of the files NAME.blktrace.0, NAME.blktrace.1, ...; \
                      of one from tracefs, blkparse -i - <FILE";
        Some(("a recording of blktrace", remedy))
    } else {
        None
    }
}

/// Lines looked at for a shape that nothing else has.
const LINES: usize = 32;

/// By any of the first lines: messages of the recorder may come before the trace.
fn by_shape(head: &[u8]) -> Option<Format> {
    if head.starts_with(b"# tracer: ") {
        return Some(Format::Ftrace);
    }
    let lines = head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    lines.take(LINES).find_map(|line| {
        if is_header(line) {
            return Some(Format::Fio);
        }
        if is_event(line) {
            return Some(Format::Blkparse);
        }
        if is_preamble(line) {
            return Some(Format::Ftrace);
        }
        let event = EventLine::parse(line).filter(|event| !event.event.is_empty())?;
        Some(match event.style {
            Style::Perf => Format::Perf,
            Style::Ftrace => Format::Ftrace,
        })
    })
}

/// By the first line that says something.
fn by_text(head: &[u8]) -> Option<Format> {
    if let Some(format) = by_shape(head) {
        return Some(format);
    }
    let mut lines = head
        .split(|&b| b == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    let line = lines.next()?;
    let number = |field: &[u8]| parse(field, 10).is_some();
    match line {
        b"*" => return Some(Format::Lirs),
        [b'=', b'=', b'0'..=b'9', ..] | [b'I' | b'L' | b'S' | b'M', b' ', ..] => {
            return Some(Format::Lackey)
        }
        [b's' | b'l', b' ' | b'\t', ..] => return Some(Format::Address),
        _ if line == CLOUDPHYSICS_HEADER => return Some(Format::CloudPhysicsCsv),
        _ => {}
    }
    if line.starts_with(b"relative_unix") {
        return Some(Format::Wikipedia);
    }
    if let Some(layout) = layout(line) {
        return Some(match layout {
            Layout::Msr => Format::Msr,
            Layout::Twitter => Format::Twitter,
            Layout::Alibaba => Format::Alibaba,
        });
    }
    if comma_separated::<5>(line).is_some_and(|[version, time, op, size, lbn]| {
        parse(op, 16).is_some() && [version, time, size, lbn].into_iter().all(number)
    }) {
        return Some(Format::CloudPhysicsCsv);
    }
    if line.contains(&b',') || line.eq_ignore_ascii_case(b"page") {
        return Some(Format::Csv);
    }
    if blank_separated::<4>(line).is_some_and(|fields| fields.into_iter().all(number)) {
        return Some(Format::Arc);
    }
    number(line).then_some(Format::Lirs)
}

/// By what all records of the head have in common. No binary format has a magic number,
/// so a format is only named if its reading makes sense throughout.
fn by_records(head: &[u8]) -> Option<Format> {
    if all_oracle_general(head) {
        return Some(Format::OracleGeneral);
    }
    if some_and_all(head, Op::BYTES, |record| {
        let bytes = record.try_into().expect("a chunk");
        Op::from_bytes(bytes).is_some() || Step::from_bytes(bytes).is_some()
    }) {
        return Some(Format::PageOps);
    }
    // Block numbers and keys are far below 2^32: the high byte tells the byte order.
    let little = some_and_all(head, 4, |record| record[3] == 0);
    let big = some_and_all(head, 4, |record| record[0] == 0);
    match (little, big) {
        (true, false) => Some(Format::CloudPhysics),
        (false, true) => Some(Format::Cache2k),
        _ => None,
    }
}

fn some_and_all(head: &[u8], bytes: usize, sound: impl FnMut(&[u8]) -> bool) -> bool {
    head.len() >= bytes && head.chunks_exact(bytes).all(sound)
}

fn all_oracle_general(head: &[u8]) -> bool {
    let mut time = 0;
    let mut index = 0;
    some_and_all(head, ORACLE_RECORD, |record| {
        let word = |from: usize| {
            u32::from_le_bytes([
                record[from],
                record[from + 1],
                record[from + 2],
                record[from + 3],
            ])
        };
        let now = word(0);
        let size = word(12);
        let next = (i64::from(word(20) as i32) << 32) | i64::from(word(16));
        let in_order = now >= std::mem::replace(&mut time, now);
        index += 1;
        let next_is_sound = (-2..=-1).contains(&next) || (index..1 << 40).contains(&next);
        in_order && size > 0 && next_is_sound
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_mistakes_get_a_hint() {
        for format in Format::ALL {
            assert_eq!(format.name().parse::<Format>().expect("known"), format);
        }
        let message = "pageop".parse::<Format>().expect_err("unknown").to_string();
        assert!(message.contains("did you mean 'pageops'?"), "{message}");
        let message = "zzzzzzzzzzz"
            .parse::<Format>()
            .expect_err("unknown")
            .to_string();
        assert!(
            !message.contains("did you mean") && message.contains("lackey"),
            "{message}"
        );
    }

    #[test]
    fn names_decide_before_content() {
        for (name, format) in [
            ("x/OLTP.lis.zst", Format::Arc),
            ("a.pageops", Format::PageOps),
            ("a.pageops.zst", Format::PageOps),
            ("w.oracleGeneral.bin.zst", Format::OracleGeneral),
            ("w.oracleGeneral", Format::OracleGeneral),
            ("ls.lackey.gz", Format::Lackey),
        ] {
            assert_eq!(Format::guess(name, b"1\n2\n"), Some(format), "{name}");
        }
    }

    #[test]
    fn text_is_recognised_by_its_first_line() {
        for (head, format) in [
            (&b"\n*\n1\n"[..], Format::Lirs),
            (b"2819\n85\n", Format::Lirs),
            (b"1 1 0 0\n", Format::Arc),
            (b"s 0x1fffff50 1\n", Format::Address),
            (b"version,time,op,size,lbn\n", Format::CloudPhysicsCsv),
            (b"1,5633898,2a,512,42932745\n", Format::CloudPhysicsCsv),
            (b"# made by me\n17,w\n", Format::Csv),
            (b"page\n17\n", Format::Csv),
            (b"page,op\n17,w\n", Format::Csv),
            (
                b"128166372003061629,hm,1,Read,383496192,32768,413\n",
                Format::Msr,
            ),
            (
                b"419,W,8792731648,16384,1577808144360767\n",
                Format::Alibaba,
            ),
            (b"0,yDqF:3q:1AofbeF2,17,213,4,get,0\n", Format::Twitter),
            (
                b"relative_unix\thashed_path_query\timage_type\n",
                Format::Wikipedia,
            ),
            (b"==12== Lackey, an example\n", Format::Lackey),
            (b" S 1fff000758,8\n", Format::Lackey),
            (b"I  0401ab70,3\n", Format::Lackey),
            (b"fio version 3 iolog\n", Format::Fio),
            (b"fio version 2 iolog\n/tmp/f add\n", Format::Fio),
            (
                b"  8,0    1        1     0.000000000  7788  Q  RM 4628 + 2 [dd]\n",
                Format::Blkparse,
            ),
            (b"# tracer: nop\n#\n", Format::Ftrace),
            (b"cpus=2\n", Format::Ftrace),
            (
                b"  dd-12  [001] d.... 45.123456: page_fault_user: address=0x1\n",
                Format::Ftrace,
            ),
            (
                b"  dd 12/12 [001] 45.123456: page-faults:  7fff00\n",
                Format::Perf,
            ),
            (
                b"[ perf record: Woken up 1 times ]\n  dd 12 [001] 45.123456: page-faults:  7f\n",
                Format::Perf,
            ),
        ] {
            assert_eq!(
                Format::guess("a.trace", head),
                Some(format),
                "{}",
                head.escape_ascii()
            );
        }
        assert_eq!(Format::guess("a.trace", b"hello world\n"), None);
        assert_eq!(Format::guess("a.trace", b""), None);
    }

    #[test]
    fn records_are_recognised_where_only_one_format_makes_sense() {
        let numbers = [900_042u32, 917_247, 903_163, 640_061, 195_643];
        let little: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let big: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
        let mut oracle = Vec::new();
        for (time, id, next) in [
            (1u32, 0x1234_5678_9abc_def0_u64, 2i64),
            (2, 7, -1),
            (2, 0x1234_5678_9abc_def0, -2),
        ] {
            oracle.extend(time.to_le_bytes());
            oracle.extend(id.to_le_bytes());
            oracle.extend(4096u32.to_le_bytes());
            oracle.extend(next.to_le_bytes());
        }
        let pageops = [1, 0, 0, 0, 9, 0, 1, 0, 2, 0, 0, 0, 255, 0, 0, 0];
        assert_eq!(Format::guess("w106", &little), Some(Format::CloudPhysics));
        assert_eq!(Format::guess("orm", &big), Some(Format::Cache2k));
        assert_eq!(Format::guess("tw", &oracle), Some(Format::OracleGeneral));
        assert_eq!(Format::guess("x", &pageops), Some(Format::PageOps));
        assert_eq!(Format::guess("x", &[0xff; 64]), None);
    }
}
