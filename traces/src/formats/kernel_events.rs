//! Events of the kernel's memory management as references: what `perf script` and ftrace share.
//!
//! | event | reference |
//! |---|---|
//! | `mm_filemap_add_to_page_cache` | read of each page of the folio that entered the page cache |
//! | `mm_filemap_delete_from_page_cache` | none: a page that comes back is an insertion again |
//! | `mm_filemap_get_pages` | read of these pages through a descriptor, hit or miss |
//! | `mm_filemap_fault` | read of the page through a mapping, hit or miss |
//! | `mm_filemap_map_pages` | none: the pages round a fault are mapped without being accessed |
//! | `page_fault_user`, `page_fault_kernel` | load or store of the process's memory, by the error code of x86 |
//! | `page-faults`, `minor-faults`, `major-faults` | store: these do not tell, and a first touch is mostly one |
//! | `file_read`, `file_write` (`scripts/pages.bt`) | read or write of these bytes through a descriptor |
//! | `damon_aggregated` | load of each page of the region, once, if DAMON has found it accessed in the interval |
//!
//! Files, by device and inode, are object 0 all together: a folio's page is numbered where it first
//! appears, so that thousands of files fit. The memory of a process is an object of its own, 1 and
//! up; the last, 255, is shared by all further processes, in which their pages stay apart.
//! Nothing tells what lies behind an address that faults, so it counts as anonymous memory, but
//! for instruction fetches: those are program text, and are left out or, on request, mapped reads.
//! Addresses of the kernel itself are left out.
//!
//! What is one access counts once: a page that is read after its insertion (the insertion was
//! that read's), a fault that is reported by several events, a fault on a file that the kernel begins
//! again, a read that is reported for each batch of folios ([`Reading`]).

use std::collections::{HashMap, HashSet, VecDeque};

use super::event_line::{words_of, EventLine};
use super::extent::Extent;
use crate::decode::{pages_so_far, Request};
use crate::error::TraceError;
use crate::fields::parse;
use crate::numbering::{page_key, Id, Spaces, Tasks};
use crate::op::OpKind;
use crate::options::TraceOptions;
use crate::problem::{excerpt, Problem};

/// Lowest address that is not a program's.
const KERNEL_SPACE: u64 = 1 << 63;
/// Object of all files.
const FILES: u8 = 0;
/// Error code of a page fault on x86: the access was a store.
const STORE: u64 = 1 << 1;
/// Likewise: it was an instruction fetch.
const FETCH: u64 = 1 << 4;

/// An event that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Add,
    Delete,
    GetPages,
    FileFault,
    FileRead,
    FileWrite,
    MapPages,
    UserFault,
    KernelFault,
    Faults,
    MinorFaults,
    MajorFaults,
    Aggregated,
}

/// Names, and whether the event can be a reference.
const EVENTS: [(&str, Event, bool); 14] = [
    ("mm_filemap_add_to_page_cache", Event::Add, true),
    ("mm_filemap_delete_from_page_cache", Event::Delete, false),
    ("mm_filemap_get_pages", Event::GetPages, true),
    ("mm_filemap_fault", Event::FileFault, true),
    ("file_read", Event::FileRead, true),
    ("file_write", Event::FileWrite, true),
    ("mm_filemap_map_pages", Event::MapPages, false),
    ("page_fault_user", Event::UserFault, true),
    ("page_fault_kernel", Event::KernelFault, true),
    ("page-faults", Event::Faults, true),
    ("faults", Event::Faults, true),
    ("minor-faults", Event::MinorFaults, true),
    ("major-faults", Event::MajorFaults, true),
    ("damon_aggregated", Event::Aggregated, true),
];

/// What `events` may name.
pub(crate) const CHOICE: &str = "mm_filemap_add_to_page_cache, mm_filemap_get_pages, \
     mm_filemap_fault, file_read, file_write, page_fault_user, page_fault_kernel, page-faults, minor-faults, major-faults, \
     damon_aggregated";

/// An event by its name; perf puts the subsystem before it and modifiers behind.
fn event_of(name: &[u8]) -> Option<(Event, bool)> {
    name.split(|&byte| byte == b':').find_map(|part| {
        let found = EVENTS.iter().find(|(name, ..)| name.as_bytes() == part);
        found.map(|&(_, event, refers)| (event, refers))
    })
}

/// A line that ends within the name of an event that is known here, as the last of a recording that was cut off does.
fn is_cut(line: &EventLine<'_>) -> bool {
    let name = line
        .fields
        .rsplit(|&byte| byte == b':')
        .next()
        .unwrap_or_default();
    line.event.is_empty()
        && name.len() > 2
        && EVENTS
            .iter()
            .any(|(known, ..)| known.as_bytes().starts_with(name))
}

/// A line that has the name of an event known here in another place than behind the time stamp: something stands between.
fn is_misplaced(line: &EventLine<'_>) -> bool {
    let name = |word: &[u8]| word.strip_suffix(b":").and_then(event_of);
    line.event.is_empty() && words_of(line.fields).any(|word| name(word).is_some())
}

/// A file, or the text of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum File {
    Inode { device: (u64, u64), inode: u64 },
    Text { process: u64 },
}

/// A read through a descriptor that may go on. Its event comes for each batch of at most 31 folios, and each time names
/// the pages from there to the end of what was asked for: all of them count with the first.
#[derive(Debug, Clone, Copy)]
struct Reading {
    file: u64,
    /// First byte of its last event.
    start: u64,
    /// Last byte of all its events.
    end: u64,
    /// Pages that have counted.
    first: u64,
    last: u64,
}

/// Turns events into references.
pub(crate) struct KernelEvents {
    page_shift: u32,
    instructions: bool,
    /// Events that count; none named: all.
    chosen: Option<Vec<Event>>,
    files: Spaces<File>,
    processes: Spaces<u64>,
    tasks: Tasks,
    /// Pages whose insertion is the last that was seen of them.
    inserted: HashSet<u64>,
    /// The last fault of each thread: which event told of it, address.
    faults: HashMap<u64, (Event, u64)>,
    /// The last read of each thread.
    readings: HashMap<u64, Reading>,
    /// The page of each thread's last event, if that was a fault on a file.
    mapped: HashMap<u64, u64>,
    /// Lines taken, and pages that they have named.
    lines: u64,
    pages: u64,
    out: VecDeque<Request>,
}

impl KernelEvents {
    /// # Errors
    /// [`TraceError::Option`] if `events` names one that does not exist.
    pub fn new(options: &TraceOptions) -> Result<KernelEvents, TraceError> {
        let choose = |name: &String| match event_of(name.as_bytes()) {
            Some((event, true)) => Ok(event),
            _ => Err(TraceError::Option {
                option: "events",
                found: name.escape_debug().to_string(),
                expected: CHOICE,
            }),
        };
        let chosen: Vec<Event> = options
            .events
            .iter()
            .map(choose)
            .collect::<Result<_, _>>()?;
        Ok(KernelEvents {
            page_shift: options.page_shift,
            instructions: options.instructions,
            chosen: (!chosen.is_empty()).then_some(chosen),
            files: Spaces::default(),
            processes: Spaces::default(),
            tasks: Tasks::default(),
            inserted: HashSet::new(),
            faults: HashMap::new(),
            readings: HashMap::new(),
            mapped: HashMap::new(),
            lines: 0,
            pages: 0,
            out: VecDeque::new(),
        })
    }

    /// Takes one line; [`KernelEvents::next`] has its references. Events that are not known, or
    /// not chosen, are none.
    ///
    /// # Errors
    /// Fields that are missing or cannot be read.
    pub fn take(&mut self, line: &EventLine<'_>) -> Result<(), Problem> {
        self.out.clear();
        self.lines += 1;
        let Some((event, true)) = event_of(line.event) else {
            let expected = match (is_cut(line), is_misplaced(line)) {
                (true, _) => "a whole line; this one is cut in the name of its event",
                (_, true) => "the name of the event right behind the time stamp",
                _ => return Ok(()),
            };
            return Err(Problem::text(line.fields, expected));
        };
        if self
            .chosen
            .as_ref()
            .is_some_and(|chosen| !chosen.contains(&event))
        {
            return Ok(());
        }
        if event != Event::FileFault {
            self.mapped.remove(&line.thread);
        }
        match event {
            Event::Add | Event::GetPages | Event::FileFault | Event::FileRead => {
                self.file(event, line)
            }
            Event::FileWrite => self.write(line),
            Event::UserFault | Event::KernelFault => self.trap(event, line),
            Event::Faults | Event::MinorFaults | Event::MajorFaults => self.sample(event, line),
            Event::Aggregated => self.region(line),
            Event::Delete | Event::MapPages => Ok(()),
        }
    }

    /// The next reference of the line.
    pub fn next(&mut self) -> Option<Request> {
        self.out.pop_front()
    }

    /// Takes note of pages that are about to be looked at one by one, unless there are more than a trace may have.
    fn count(&mut self, pages: u64) -> Result<(), Problem> {
        self.pages = pages_so_far(self.pages, pages, self.lines)?;
        Ok(())
    }

    fn file(&mut self, event: Event, line: &EventLine<'_>) -> Result<(), Problem> {
        const EXPECTED: &str =
            "dev MAJOR:MINOR, ino HEX, and ofs=BYTES or index=PAGES, as the kernel prints them";
        let bad = || Problem::text(line.fields, EXPECTED);
        let fields = FileFields::parse(line.fields).ok_or_else(bad)?;
        let (start, end) = fields.bytes().ok_or_else(bad)?;
        let (first, last) = (start >> self.page_shift, end >> self.page_shift);
        let file = File::Inode {
            device: fields.device.ok_or_else(bad)?,
            inode: fields.inode.ok_or_else(bad)?,
        };
        let file = self.files.number(&file);
        let (first, last) = (page_key(file, first)?, page_key(file, last)?);
        let request = Request {
            object: FILES,
            task: self.tasks.task(line.process),
            ..Request::span(
                match event {
                    Event::FileFault => OpKind::MappedRead,
                    _ => OpKind::Pread,
                },
                first,
                last,
            )
        };
        // Beyond the largest request, the numbers are garbled: the decoder refuses them.
        if last - first > 1 << ORDER_MAX {
            self.out.push_back(request);
        } else if event == Event::FileFault && self.mapped.insert(line.thread, first) == Some(first)
        {
            // The same fault once more: the first store to a page of a shared mapping begins it twice.
        } else if event == Event::Add {
            self.count(last + 1 - first)?;
            self.insert(&request, first, last, line.thread);
        } else {
            let goes_on = event == Event::GetPages
                && self.goes_on(
                    line.thread,
                    Reading {
                        file,
                        start,
                        end,
                        first,
                        last,
                    },
                );
            if !goes_on {
                self.count(last + 1 - first)?;
                self.push_unless_inserted(request, first, last);
            }
        }
        Ok(())
    }

    /// Whether an event is of the read that the thread is in; otherwise its next has begun.
    fn goes_on(&mut self, thread: u64, event: Reading) -> bool {
        match self.readings.get_mut(&thread) {
            Some(of) if of.file == event.file && of.end == event.end && of.start < event.start => {
                of.start = event.start;
                true
            }
            _ => {
                self.readings.insert(thread, event);
                false
            }
        }
    }

    /// Pages that enter the page cache, but for those that the thread's read has counted already.
    fn insert(&mut self, request: &Request, first: u64, last: u64, thread: u64) {
        let (start, end) = match self.readings.get(&thread) {
            Some(of) if of.first <= last && first <= of.last => (of.first, of.last + 1),
            _ => (last + 1, last + 1),
        };
        for pages in [first..start.max(first), end..last + 1] {
            self.push_pages(request, pages.start, pages.end);
            self.inserted.extend(pages);
        }
    }

    /// Bytes that are written: pages that are written as a whole need not be read first.
    fn write(&mut self, line: &EventLine<'_>) -> Result<(), Problem> {
        let bad = || Problem::text(line.fields, "dev=MAJOR:MINOR ino=HEX ofs=FIRST-LAST");
        let fields = FileFields::parse(line.fields).ok_or_else(bad)?;
        let (start, end) = match fields.offset {
            Some((start, Some(end))) if start <= end && end - start < LONGEST_WRITE => (start, end),
            _ => return Err(bad()),
        };
        let file = File::Inode {
            device: fields.device.ok_or_else(bad)?,
            inode: fields.inode.ok_or_else(bad)?,
        };
        let extent = Extent {
            space: self.files.number(&file),
            start,
            units: end - start + 1,
            shift: self.page_shift,
        };
        self.count((end >> self.page_shift) + 1 - (start >> self.page_shift))?;
        let before = self.out.len();
        extent.write(self.tasks.task(line.process), &mut self.out)?;
        for request in self.out.range_mut(before..) {
            request.object = FILES;
            request.pages.clone().for_each(|page| {
                self.inserted.remove(&page);
            });
        }
        Ok(())
    }

    /// The pages of a read whose insertion has not counted for it.
    fn push_unless_inserted(&mut self, request: Request, first: u64, last: u64) {
        let mut start = first;
        for page in first..=last {
            if self.inserted.remove(&page) {
                self.push_pages(&request, start, page);
                start = page + 1;
            }
        }
        self.push_pages(&request, start, last + 1);
    }

    fn push_pages(&mut self, request: &Request, start: u64, end: u64) {
        if start < end {
            self.out.push_back(Request {
                pages: start..end,
                ..request.clone()
            });
        }
    }

    /// A fault as the exception's trace point prints it.
    fn trap(&mut self, event: Event, line: &EventLine<'_>) -> Result<(), Problem> {
        const EXPECTED: &str = "address=0xHEX ip=... error_code=0xHEX";
        let bad = || Problem::text(line.fields, EXPECTED);
        let field = |name: &[u8]| {
            words_of(line.fields).find_map(|word| word.strip_prefix(name)?.strip_prefix(b"="))
        };
        let code = field(b"error_code").ok_or_else(bad)?;
        let code = parse(code.strip_prefix(b"0x").unwrap_or(code), 16).ok_or_else(bad)?;
        let address = field(b"address").ok_or_else(bad)?;
        // Instead of an address of its own, the kernel prints a symbol.
        let Some(address) = address.strip_prefix(b"0x") else {
            return Ok(());
        };
        let address = parse(address, 16).ok_or_else(bad)?;
        self.fault(event, line, address, code & STORE != 0, code & FETCH != 0)
    }

    /// A fault as perf prints its own counters.
    fn sample(&mut self, event: Event, line: &EventLine<'_>) -> Result<(), Problem> {
        let no_address = || Problem {
            found: format!("no data address in `{}`", excerpt(line.fields)),
            expected: "the address that faulted",
            remedy: "record with perf record -d and print with perf script \
                     -F comm,pid,tid,cpu,time,event,addr",
        };
        let mut words = words_of(line.fields);
        let address = words.next().and_then(hex).ok_or_else(no_address)?;
        // One address with a symbol behind it is that of the instruction.
        if words.next().is_some_and(|word| hex(word).is_none()) {
            return Err(no_address());
        }
        self.fault(event, line, address, true, false)
    }

    /// The memory of a process: its number, and its object.
    fn memory_of(&mut self, process: u64) -> (u64, u8) {
        let number = self.processes.number(&process);
        (number, u8::try_from(number + 1).unwrap_or(u8::MAX))
    }

    /// A region of DAMON's and in how many of an interval's samples it was accessed. DAMON takes it that all pages of a
    /// region are used alike, so each is used in the interval, or none is. Several uses in an interval are one.
    fn region(&mut self, line: &EventLine<'_>) -> Result<(), Problem> {
        const EXPECTED: &str = "target_id=N nr_regions=N START-END: ACCESSES AGE, bytes in decimal";
        let bad = || Problem::text(line.fields, EXPECTED);
        let mut words = words_of(line.fields);
        let mut field = |name: &[u8]| {
            let value = words.next()?.strip_prefix(name)?.strip_prefix(b"=")?;
            parse(value, 10)
        };
        let target = field(b"target_id").ok_or_else(bad)?;
        field(b"nr_regions").ok_or_else(bad)?;
        let range = words.next().and_then(|word| word.strip_suffix(b":"));
        let range = range.ok_or_else(bad)?;
        let dash = range.iter().position(|&b| b == b'-').ok_or_else(bad)?;
        let start = parse(&range[..dash], 10).ok_or_else(bad)?;
        let end = parse(&range[dash + 1..], 10).ok_or_else(bad)?;
        let accesses = words.next().and_then(|word| parse(word, 10));
        let accesses = accesses.ok_or_else(bad)?;
        if start >= end {
            return Err(bad());
        }
        if accesses == 0 {
            return Ok(());
        }
        let (number, object) = self.memory_of(target);
        let last = (end - 1) >> self.page_shift;
        let mut first = start >> self.page_shift;
        self.count(last + 1 - first)?;
        while first <= last {
            // As much at a time as a request may have.
            let until = last.min(first + (1 << ORDER_MAX) - 1);
            let keys = (page_key(number, first)?, page_key(number, until)?);
            self.out.push_back(Request {
                object,
                task: self.tasks.task(target),
                ..Request::span(OpKind::AnonRead, keys.0, keys.1)
            });
            first = until + 1;
        }
        Ok(())
    }

    fn fault(
        &mut self,
        event: Event,
        line: &EventLine<'_>,
        address: u64,
        store: bool,
        fetch: bool,
    ) -> Result<(), Problem> {
        if address >= KERNEL_SPACE {
            return Ok(());
        }
        let again = self.faults.get(&line.thread);
        if again.is_some_and(|&(first, at)| first != event && at == address) {
            return Ok(());
        }
        self.faults.insert(line.thread, (event, address));
        let page = address >> self.page_shift;
        let process = line.process;
        let request = if !fetch {
            let (number, object) = self.memory_of(process);
            let kind = if store {
                OpKind::AnonWrite
            } else {
                OpKind::AnonRead
            };
            Request {
                object,
                ..Request::one(kind, page_key(number, page)?)
            }
        } else if self.instructions {
            let text = self.files.number(&File::Text { process });
            Request::one(OpKind::MappedRead, page_key(text, page)?)
        } else {
            return Ok(());
        };
        self.out.push_back(Request {
            task: self.tasks.task(process),
            id: Id::Foreign,
            ..request
        });
        Ok(())
    }
}

/// Page of the kernels that are read here, as a power of two: unit of an index and of an order.
const KERNEL_PAGE_SHIFT: u32 = 12;
/// Largest order of a folio: 4 GiB.
const ORDER_MAX: u64 = 20;
/// Bytes of the longest call that writes, and more.
const LONGEST_WRITE: u64 = 1 << 32;

/// A hexadecimal number, with or without prefix.
fn hex(word: &[u8]) -> Option<u64> {
    parse(word.strip_prefix(b"0x").unwrap_or(word), 16)
}

/// Fields of the events of the page cache. Kernels print `dev 8:1 ino 1f` or `dev=8:1 ino=1f`.
#[derive(Debug, Default, PartialEq, Eq)]
struct FileFields {
    pub device: Option<(u64, u64)>,
    pub inode: Option<u64>,
    /// First byte, and last if it is printed.
    offset: Option<(u64, Option<u64>)>,
    /// First page, in place of an offset.
    index: Option<u64>,
    order: u64,
}

impl FileFields {
    /// Reads them; nothing if one cannot be read.
    pub fn parse(text: &[u8]) -> Option<FileFields> {
        let mut fields = FileFields::default();
        let mut words = words_of(text);
        while let Some(word) = words.next() {
            let (name, value) = match word.iter().position(|&byte| byte == b'=') {
                Some(equals) => (&word[..equals], &word[equals + 1..]),
                None if matches!(word, b"dev" | b"ino") => (word, words.next()?),
                None => continue,
            };
            let decimal = |text: &[u8]| parse(text, 10);
            match name {
                b"dev" => {
                    let colon = value.iter().position(|&byte| byte == b':')?;
                    let (major, minor) = (&value[..colon], &value[colon + 1..]);
                    fields.device = Some((decimal(major)?, decimal(minor)?));
                }
                b"ino" => fields.inode = Some(hex(value)?),
                b"ofs" => {
                    fields.offset = Some(match value.iter().position(|&byte| byte == b'-') {
                        Some(dash) => {
                            (decimal(&value[..dash])?, Some(decimal(&value[dash + 1..])?))
                        }
                        None => (decimal(value)?, None),
                    });
                }
                b"index" => fields.index = Some(decimal(value)?),
                b"order" => fields.order = decimal(value)?,
                _ => {}
            }
        }
        Some(fields)
    }

    /// First and last byte.
    pub fn bytes(&self) -> Option<(u64, u64)> {
        let (start, end) = match (self.offset, self.index) {
            (Some(offset), _) => offset,
            (None, Some(index)) => (index.checked_mul(1 << KERNEL_PAGE_SHIFT)?, None),
            (None, None) => return None,
        };
        if self.order > ORDER_MAX {
            return None;
        }
        let folio = 1u64 << (KERNEL_PAGE_SHIFT as u64 + self.order);
        let end = match end {
            Some(end) => end,
            None => start.checked_add(folio - 1)?,
        };
        (start <= end).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_by_any_of_their_names() {
        for (name, event) in [
            (&b"filemap:mm_filemap_add_to_page_cache"[..], Event::Add),
            (b"mm_filemap_add_to_page_cache", Event::Add),
            (b"page-faults:u", Event::Faults),
            (b"faults", Event::Faults),
            (b"exceptions:page_fault_user", Event::UserFault),
        ] {
            assert_eq!(event_of(name).map(|(event, _)| event), Some(event));
        }
        assert_eq!(event_of(b"sched:sched_switch"), None);
        assert_eq!(event_of(b""), None);
    }

    /// Folios of 4 GiB: nothing is kept of those that a trace may not have.
    #[test]
    fn lines_of_too_many_pages_take_no_memory() {
        let mut events = KernelEvents::new(&TraceOptions::default()).expect("no options");
        for folio in 0..50u64 {
            let line = format!(
                "p 9 [001] 45.1: mm_filemap_add_to_page_cache: dev 8:1 ino a pfn=0x1 ofs={} order=20",
                folio << 32
            );
            let line = EventLine::parse(line.as_bytes()).expect("an event");
            assert_eq!(events.take(&line).is_ok(), folio == 0);
        }
        assert_eq!(events.inserted.len(), 1 << 20);
    }

    fn pages(text: &str) -> Option<(u64, u64)> {
        let (start, end) = FileFields::parse(text.as_bytes())?.bytes()?;
        Some((start >> 12, end >> 12))
    }

    #[test]
    fn offsets_indices_and_orders() {
        for (text, expected) in [
            (
                "dev 254:0 ino 3c7da pfn=0x1f49db ofs=16384 order=0",
                Some((4, 4)),
            ),
            (
                "dev 254:0 ino 3c7da pfn=0x1f49db ofs=16384 order=2",
                Some((4, 7)),
            ),
            (
                "dev 8:1 ino 2a page=000000009fe0a7b1 pfn=123 ofs=4096",
                Some((1, 1)),
            ),
            ("dev=8:1 ino=2a index=5 order=9", Some((5, 516))),
            ("dev=254:0 ino=4fc26 ofs=622592-630783", Some((152, 153))),
            ("dev=254:0 ino=4fc26 ofs=0-4095", Some((0, 0))),
            ("dev=254:0 ino=4fc26 ofs=0-4096", Some((0, 1))),
            ("dev=254:0 ino=4fc26 ofs=1916928", Some((468, 468))),
            ("dev 8:1 ino 2a order=0", None),
            ("dev 8:1 ino 2a ofs=8192-4095", None),
            ("dev 8:1 ino 2a ofs=-1", None),
            ("dev 8:1 ino 2a ofs=0 order=21", None),
            ("dev 8:1 ino 2a index=18446744073709551615", None),
            ("dev 8 ino 2a ofs=0", None),
            ("dev 8:1 ino xyz ofs=0", None),
        ] {
            assert_eq!(pages(text), expected, "{text}");
        }
    }

    #[test]
    fn devices_inodes_and_bytes() {
        let fields = FileFields::parse(b"dev 8:1 ino 2a ofs=16384 order=1").expect("sound");
        assert_eq!(fields.device, Some((8, 1)));
        assert_eq!(fields.inode, Some(0x2a));
        assert_eq!(fields.bytes(), Some((16384, 24575)));
    }
}
