//! Memory references as Valgrind's `lackey` tool prints them (`--trace-mem=yes`):
//! `I  ADDRESS,SIZE` fetch, ` L ADDRESS,SIZE` load, ` S ...` store, ` M ...` load then
//! store, with the address in hexadecimal without prefix. Lines of Valgrind itself
//! (`==123== ...`, `--123-- ...`) are skipped.
//!
//! Loads and stores are references to anonymous object 0, whatever the memory is. Fetches
//! are dropped, or on request become mapped reads of file object 1. A reference that
//! crosses a page border touches both pages.

use super::decode::{Decode, Framing, Id, Request};
use super::error::Problem;
use super::number::{decimal, hex};
use super::op::OpKind;

pub(super) struct Lackey {
    pub page_shift: u32,
    pub instructions: bool,
}

const EXPECTED: &str = "`I`, `L`, `S` or `M`, then ADDRESS,SIZE";

impl Decode for Lackey {
    const FRAMING: Framing = Framing::Lines;
    // The program's own output may be in it.
    const TOLERANT: bool = true;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        let bad = || Problem::text(line, EXPECTED);
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
        let address = hex(&reference[..comma], EXPECTED)?;
        let size = decimal(&reference[comma + 1..], EXPECTED)?;
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
