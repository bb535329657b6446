//! ARC traces (`.lis`): a line is `first-block blocks ignore request-number`, separated
//! by blanks. All requests are reads.
//!
//! A request touches each page that holds one of its blocks once, in order. Where blocks
//! are smaller than pages, the count of references is therefore below that of blocks.

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::number::{blank_separated, decimal};
use super::op::OpKind;

pub(super) struct Arc {
    pub blocks_per_page: u64,
}

const EXPECTED: &str = "four numbers: first block, number of blocks, ignored, request number";

impl Decode for Arc {
    const FRAMING: Framing = Framing::Lines;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        let fields = blank_separated::<4>(line).ok_or_else(|| Problem::text(line, EXPECTED))?;
        let mut numbers = [0; 4];
        for (number, field) in numbers.iter_mut().zip(fields) {
            *number = decimal(field, EXPECTED)?;
        }
        let [first, blocks, ..] = numbers;
        if blocks == 0 {
            return Ok(None);
        }
        let last = first
            .checked_add(blocks - 1)
            .ok_or_else(|| Problem::text(line, EXPECTED))?;
        Ok(Some(Request::span(
            OpKind::Pread,
            first / self.blocks_per_page,
            last / self.blocks_per_page,
        )))
    }
}
