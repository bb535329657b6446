//! CloudPhysics request traces: lines `version,time,op,size,lbn` with an optional header.
//! `op` is the SCSI code in hexadecimal, `size` is in bytes, `lbn` in sectors of 512
//! bytes. A request touches each page that it overlaps once, in order.

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::number::{comma_separated, decimal, hex};
use super::op::OpKind;

pub(super) struct CloudPhysicsCsv {
    pub page_shift: u32,
    pub first_line: bool,
}

/// Header of the format.
pub(super) const HEADER: &[u8] = b"version,time,op,size,lbn";

const EXPECTED: &str = "five fields: version, time, op, size, lbn";
const SECTOR_SHIFT: u32 = 9;

impl Decode for CloudPhysicsCsv {
    const FRAMING: Framing = Framing::Lines;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if std::mem::take(&mut self.first_line) && line == HEADER {
            return Ok(None);
        }
        let bad = || Problem::text(line, EXPECTED);
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
