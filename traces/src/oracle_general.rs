//! oracleGeneral traces of libCacheSim: little-endian records of 24 bytes, `u32` time,
//! `u64` object id, `u32` size in bytes, `i64` time of the next reference (ignored: the
//! bounds compute it themselves). All references are reads.

use std::collections::HashMap;

use super::decode::{Decode, Framing, Request};
use super::error::Problem;
use super::op::OpKind;
use super::options::ObjectPages;

pub(super) struct OracleGeneral {
    pub object_pages: ObjectPages,
    pub page_shift: u32,
    /// Number of each object, used where objects are split in pages.
    pub objects: HashMap<u64, u64>,
}

/// Bytes of one record.
pub(super) const RECORD: usize = 24;

impl Decode for OracleGeneral {
    const FRAMING: Framing = Framing::Records(RECORD);

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
