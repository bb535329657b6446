//! cache2k traces: signed 32-bit big-endian keys without a header. One key is one page;
//! all references are reads.

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::op::OpKind;

pub(super) struct Cache2k;

impl Decode for Cache2k {
    const FRAMING: Framing = Framing::Records(4);

    fn decode(&mut self, record: &[u8]) -> Result<Option<Request>, Problem> {
        // The sign only tells keys apart: negative keys become ids from 2^31 on.
        let key = u32::from_be_bytes(record.try_into().expect("records have 4 bytes"));
        Ok(Some(Request::one(OpKind::Pread, u64::from(key))))
    }
}
