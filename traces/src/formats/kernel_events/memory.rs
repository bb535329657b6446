//! Memory of processes: page faults, and regions that DAMON has found in use.

use super::fields::{hex, ORDER_MAX};
use super::names::Event;
use super::{File, KernelEvents};
use crate::decode::Request;
use crate::fields::parse;
use crate::formats::event_line::{words_of, EventLine};
use crate::numbering::{page_key, Id};
use crate::op::OpKind;
use crate::problem::{excerpt, Problem};

/// Lowest address that is not a program's.
const KERNEL_SPACE: u64 = 1 << 63;
/// Error code of a page fault on x86: the access was a store.
const STORE: u64 = 1 << 1;
/// Likewise: it was an instruction fetch.
const FETCH: u64 = 1 << 4;

impl KernelEvents {
    /// A fault as the exception's trace point prints it.
    pub(super) fn trap(&mut self, event: Event, line: &EventLine<'_>) -> Result<(), Problem> {
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
    pub(super) fn sample(&mut self, event: Event, line: &EventLine<'_>) -> Result<(), Problem> {
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
    pub(super) fn region(&mut self, line: &EventLine<'_>) -> Result<(), Problem> {
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
