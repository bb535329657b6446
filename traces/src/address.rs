//! Address traces: a line is `s|l 0xADDRESS N`: store or load, byte address,
//! instructions since the reference before (ignored). Object 0 is one anonymous region.

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::number::{blank_separated, decimal, hex};
use super::op::OpKind;

pub(super) struct Address {
    pub page_shift: u32,
}

const EXPECTED: &str = "`s` or `l`, an address 0x..., a number";

impl Decode for Address {
    const FRAMING: Framing = Framing::Lines;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        let bad = || Problem::text(line, EXPECTED);
        let [kind, address, gap] = blank_separated::<3>(line).ok_or_else(bad)?;
        let kind = match kind {
            b"s" => OpKind::AnonWrite,
            b"l" => OpKind::AnonRead,
            _ => return Err(bad()),
        };
        let address = hex(address.strip_prefix(b"0x").ok_or_else(bad)?, EXPECTED)?;
        decimal(gap, EXPECTED)?;
        Ok(Some(Request::one(kind, address >> self.page_shift)))
    }
}
