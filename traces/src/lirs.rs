//! LIRS traces (`.trace`): one page number a line; lines that are `*` mark a phase and
//! are skipped. All references are reads.

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::number::decimal;
use super::op::OpKind;

pub(super) struct Lirs;

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
