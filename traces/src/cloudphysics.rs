//! CloudPhysics block traces: unsigned 32-bit little-endian block numbers without a
//! header. One block is one page; all references are reads.

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::op::OpKind;

pub(super) struct CloudPhysics;

impl Decode for CloudPhysics {
    const FRAMING: Framing = Framing::Records(4);

    fn decode(&mut self, record: &[u8]) -> Result<Option<Request>, Problem> {
        let block = u32::from_le_bytes(record.try_into().expect("records have 4 bytes"));
        Ok(Some(Request::one(OpKind::Pread, u64::from(block))))
    }
}
