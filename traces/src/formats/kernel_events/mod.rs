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

mod fields;
mod files;
mod memory;
mod names;

use std::collections::{HashMap, HashSet, VecDeque};

use super::event_line::EventLine;
use crate::decode::{pages_so_far, Request};
use crate::error::TraceError;
use crate::numbering::{Spaces, Tasks};
use crate::options::TraceOptions;
use crate::problem::Problem;
use files::Reading;
use names::{event_of, is_cut, is_misplaced, Event, CHOICE};

/// A file, or the text of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum File {
    Inode { device: (u64, u64), inode: u64 },
    Text { process: u64 },
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
