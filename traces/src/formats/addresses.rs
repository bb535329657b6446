//! Loads and stores of one program by their addresses: address traces and Valgrind's `lackey`.

use crate::decode::{Decode, Framing, Request};
use crate::fields::{blank_separated, decimal, hex};
use crate::numbering::Id;
use crate::op::OpKind;
use crate::problem::Problem;

/// Address traces: a line is `s|l 0xADDRESS N`: store or load, byte address,
/// instructions since the reference before (ignored). Object 0 is one anonymous region.
pub(crate) struct Address {
    pub page_shift: u32,
}

const ADDRESS: &str = "`s` or `l`, an address 0x..., a number";

impl Decode for Address {
    const FRAMING: Framing = Framing::Lines;
    const OLDER_MEMORY: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        let bad = || Problem::text(line, ADDRESS);
        let [kind, address, gap] = blank_separated::<3>(line).ok_or_else(bad)?;
        let kind = match kind {
            b"s" => OpKind::AnonWrite,
            b"l" => OpKind::AnonRead,
            _ => return Err(bad()),
        };
        let address = hex(address.strip_prefix(b"0x").ok_or_else(bad)?, ADDRESS)?;
        decimal(gap, ADDRESS)?;
        Ok(Some(Request::one(kind, address >> self.page_shift)))
    }
}

/// Memory references as Valgrind's `lackey` tool prints them (`--trace-mem=yes`):
/// `I  ADDRESS,SIZE` fetch, ` L ADDRESS,SIZE` load, ` S ...` store, ` M ...` load then
/// store, with the address in hexadecimal without prefix. Lines of Valgrind itself
/// (`==123== ...`, `--123-- ...`) are skipped.
///
/// Loads and stores are references to anonymous object 0, whatever the memory is. Fetches
/// are dropped, or on request become mapped reads of file object 1. A reference that
/// crosses a page border touches both pages.
pub(crate) struct Lackey {
    pub page_shift: u32,
    pub instructions: bool,
}

const LACKEY: &str = "`I`, `L`, `S` or `M`, then ADDRESS,SIZE";

impl Decode for Lackey {
    const FRAMING: Framing = Framing::Lines;
    const OLDER_MEMORY: bool = true;
    // The program's own output may be in it.
    const TOLERANT: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        let bad = || Problem::text(line, LACKEY);
        let (kind, object) = match line {
            [b'=', b'=', ..] | [b'-', b'-', ..] => return Ok(None),
            [b'I', b' ', ..] if !self.instructions => return Ok(None),
            [b'I', b' ', ..] => (OpKind::MappedRead, 1),
            [b'L', b' ', ..] => (OpKind::AnonRead, 0),
            [b'S' | b'M', b' ', ..] => (OpKind::AnonWrite, 0),
            _ => return Err(bad()),
        };
        let reference = line[2..].trim_ascii_start();
        let comma = reference.iter().position(|&b| b == b',').ok_or_else(bad)?;
        let address = hex(&reference[..comma], LACKEY)?;
        let size = decimal(&reference[comma + 1..], LACKEY)?;
        let last = address
            .checked_add(size.saturating_sub(1))
            .ok_or_else(bad)?;
        Ok(Some(Request {
            object,
            id: Id::Foreign,
            ..Request::span(kind, address >> self.page_shift, last >> self.page_shift)
        }))
    }
}
