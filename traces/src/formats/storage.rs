//! Traces of storage systems and caches as papers and simulators pass them on: ARC, LIRS, cache2k, CloudPhysics (two
//! forms), oracleGeneral. Each is a list of blocks, pages or keys without a process behind it.

use std::collections::HashMap;
use std::io::Write;

use super::written::{WritePacking, Written};
use crate::decode::{Decode, Framing, Request};
use crate::error::TraceError;
use crate::fields::{blank_separated, comma_separated, decimal, hex};
use crate::op::{Op, OpKind};
use crate::options::ObjectPages;
use crate::problem::Problem;

/// ARC traces (`.lis`): a line is `first-block blocks ignore request-number`, separated
/// by blanks. All requests are reads.
///
/// A request touches each page that holds one of its blocks once, in order. Where blocks
/// are smaller than pages, the count of references is therefore below that of blocks.
pub(crate) struct Arc {
    pub blocks_per_page: u64,
}

const ARC: &str = "four numbers: first block, number of blocks, ignored, request number";

impl Decode for Arc {
    const FRAMING: Framing = Framing::Lines;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        let fields = blank_separated::<4>(line).ok_or_else(|| Problem::text(line, ARC))?;
        let mut numbers = [0; 4];
        for (number, field) in numbers.iter_mut().zip(fields) {
            *number = decimal(field, ARC)?;
        }
        let [first, blocks, ..] = numbers;
        if blocks == 0 {
            return Ok(None);
        }
        let last = first
            .checked_add(blocks - 1)
            .ok_or_else(|| Problem::text(line, ARC))?;
        Ok(Some(Request::span(
            OpKind::Pread,
            first / self.blocks_per_page,
            last / self.blocks_per_page,
        )))
    }
}

/// LIRS traces (`.trace`): one page number a line; lines that are `*` mark a phase and
/// are skipped. All references are reads.
pub(crate) struct Lirs;

impl Decode for Lirs {
    const FRAMING: Framing = Framing::Lines;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if line == b"*" {
            return Ok(None);
        }
        let page = decimal(line, "one page number or `*`")?;
        Ok(Some(Request::one(OpKind::Pread, page)))
    }
}

/// cache2k traces: signed 32-bit big-endian keys without a header. One key is one page;
/// all references are reads.
pub(crate) struct Cache2k;

impl Decode for Cache2k {
    const FRAMING: Framing = Framing::Records(4);

    fn decode(&mut self, record: &[u8]) -> Result<Option<Request>, Problem> {
        // The sign only tells keys apart: negative keys become ids from 2^31 on.
        let key = u32::from_be_bytes(record.try_into().expect("records have 4 bytes"));
        Ok(Some(Request::one(OpKind::Pread, u64::from(key))))
    }
}

/// CloudPhysics block traces: unsigned 32-bit little-endian block numbers without a
/// header. One block is one page; all references are reads.
pub(crate) struct CloudPhysics;

impl Decode for CloudPhysics {
    const FRAMING: Framing = Framing::Records(4);

    fn decode(&mut self, record: &[u8]) -> Result<Option<Request>, Problem> {
        let block = u32::from_le_bytes(record.try_into().expect("records have 4 bytes"));
        Ok(Some(Request::one(OpKind::Pread, u64::from(block))))
    }
}

/// CloudPhysics request traces: lines `version,time,op,size,lbn` with an optional header.
/// `op` is the SCSI code in hexadecimal, `size` is in bytes, `lbn` in sectors of 512
/// bytes. A request touches each page that it overlaps once, in order.
pub(crate) struct CloudPhysicsCsv {
    pub page_shift: u32,
    pub first_line: bool,
}

/// Header of the format.
pub(crate) const CLOUDPHYSICS_HEADER: &[u8] = b"version,time,op,size,lbn";

const CLOUDPHYSICS: &str = "five fields: version, time, op, size, lbn";
const SECTOR_SHIFT: u32 = 9;

impl Decode for CloudPhysicsCsv {
    const FRAMING: Framing = Framing::Lines;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if std::mem::take(&mut self.first_line) && line == CLOUDPHYSICS_HEADER {
            return Ok(None);
        }
        let bad = || Problem::text(line, CLOUDPHYSICS);
        let [_, _, op, size, lbn] = comma_separated::<5>(line).ok_or_else(bad)?;
        let kind = match hex(op, "a hexadecimal SCSI operation code")? {
            0x08 | 0x28 | 0x88 | 0xa8 => OpKind::Pread,
            0x0a | 0x2a | 0x8a | 0xaa => OpKind::Pwrite,
            other => {
                return Err(Problem {
                    found: format!("SCSI operation {other:x}"),
                    expected: "a read (08, 28, 88, a8) or a write (0a, 2a, 8a, aa)",
                    remedy: "remove other commands from the trace",
                })
            }
        };
        let size = decimal(size, "a size in bytes")?;
        let lbn = decimal(lbn, "a sector number")?;
        if size == 0 {
            return Ok(None);
        }
        // In sectors, so that no byte address can overflow.
        let last = lbn
            .checked_add((size - 1) >> SECTOR_SHIFT)
            .ok_or_else(bad)?;
        let shift = self.page_shift - SECTOR_SHIFT;
        Ok(Some(Request::span(kind, lbn >> shift, last >> shift)))
    }
}

/// oracleGeneral traces of libCacheSim: little-endian records of 24 bytes, `u32` time,
/// `u64` object id, `u32` size in bytes, `i64` time of the next reference (ignored: the
/// bounds compute it themselves). All references are reads.
pub(crate) struct OracleGeneral {
    pub object_pages: ObjectPages,
    pub page_shift: u32,
    /// Number of each object, used where objects are split in pages.
    pub objects: HashMap<u64, u64>,
}

/// Bytes of one record.
pub(crate) const ORACLE_RECORD: usize = 24;

impl Decode for OracleGeneral {
    const FRAMING: Framing = Framing::Records(ORACLE_RECORD);

    fn decode(&mut self, record: &[u8]) -> Result<Option<Request>, Problem> {
        let id = u64::from_le_bytes(record[4..12].try_into().expect("8 bytes"));
        if self.object_pages == ObjectPages::One {
            return Ok(Some(Request::one(OpKind::Pread, id)));
        }
        let size = u32::from_le_bytes(record[12..16].try_into().expect("4 bytes"));
        let pages = u64::from(size).div_ceil(1 << self.page_shift).max(1);
        let next = self.objects.len() as u64;
        let object = *self.objects.entry(id).or_insert(next);
        // A size of 32 bits is at most 2^23 pages: pages of different objects differ.
        let first = object << 32;
        Ok(Some(Request::span(OpKind::Pread, first, first + pages - 1)))
    }
}

/// Writes references as `oracleGeneral`, which has room for neither kinds nor tasks: each is a request of one
/// page. The time is the number of the request. `name` is for messages.
///
/// # Errors
/// [`TraceError::Write`].
pub fn write_oracle_general(
    name: &str,
    out: Box<dyn Write + Send>,
    packing: WritePacking,
    ops: &[Op],
) -> Result<(), TraceError> {
    const NEVER: i64 = -1;
    let id = |op: &Op| u64::from(op.object) << 32 | u64::from(op.page);
    let mut upcoming = HashMap::new();
    let mut next: Vec<i64> = ops
        .iter()
        .enumerate()
        .rev()
        .map(|(at, op)| upcoming.insert(id(op), at as i64).unwrap_or(NEVER))
        .collect();
    next.reverse();
    let mut to = Written::new(name.to_owned(), out, packing)?;
    for (at, (op, next)) in ops.iter().zip(next).enumerate() {
        to.write(&(at as u64).min(u32::MAX.into()).to_le_bytes()[..4])?;
        to.write(&id(op).to_le_bytes())?;
        to.write(&4096u32.to_le_bytes())?;
        to.write(&next.to_le_bytes())?;
    }
    to.finish()
}
