//! Files: what enters the page cache, and what is read and written through descriptors and mappings.

use super::fields::{FileFields, ORDER_MAX};
use super::names::Event;
use super::{File, KernelEvents};
use crate::decode::Request;
use crate::formats::event_line::EventLine;
use crate::formats::extent::Extent;
use crate::numbering::page_key;
use crate::op::OpKind;
use crate::problem::Problem;

/// Object of all files.
const FILES: u8 = 0;
/// Bytes of the longest call that writes, and more.
const LONGEST_WRITE: u64 = 1 << 32;

/// A read through a descriptor that may go on. Its event comes for each batch of at most 31 folios, and each time names
/// the pages from there to the end of what was asked for: all of them count with the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    file: u64,
    /// First byte of its last event.
    start: u64,
    /// Last byte of all its events.
    end: u64,
    /// Pages that have counted.
    first: u64,
    last: u64,
}

impl KernelEvents {
    pub(super) fn file(&mut self, event: Event, line: &EventLine<'_>) -> Result<(), Problem> {
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
    pub(super) fn write(&mut self, line: &EventLine<'_>) -> Result<(), Problem> {
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
}
