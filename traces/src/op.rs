//! One page reference: what every trace format is turned into.

/// What one reference does. The numbers are those of the `pageops` format.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Read of one byte through a mapping of a file.
    MappedRead = 0,
    /// `pread` of one byte of a file.
    Pread = 1,
    /// `pwrite` of one byte of a file.
    Pwrite = 2,
    /// Store to a page of an anonymous region.
    AnonWrite = 3,
    /// Load from a page of an anonymous region. An extension of the four kinds of the
    /// reference sequences, for traces that tell loads from stores.
    AnonRead = 4,
    /// Write of a whole page of a file: nothing is read first. An extension likewise.
    WholeWrite = 5,
    /// Store of one byte through a mapping of a file. An extension likewise.
    MappedWrite = 6,
}

impl OpKind {
    /// Every kind, in the order of its number.
    pub const ALL: [OpKind; 7] = [
        OpKind::MappedRead,
        OpKind::Pread,
        OpKind::Pwrite,
        OpKind::AnonWrite,
        OpKind::AnonRead,
        OpKind::WholeWrite,
        OpKind::MappedWrite,
    ];

    /// The kind with this number, if there is one.
    pub fn from_u8(number: u8) -> Option<OpKind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the reference makes its page dirty.
    pub fn is_write(self) -> bool {
        matches!(
            self,
            OpKind::Pwrite | OpKind::AnonWrite | OpKind::WholeWrite | OpKind::MappedWrite
        )
    }

    /// Whether it is a call, `pread` or `pwrite`, that can be for several pages.
    pub fn is_call(self) -> bool {
        matches!(self, OpKind::Pread | OpKind::Pwrite | OpKind::WholeWrite)
    }

    /// Whether the referenced object is an anonymous region (otherwise it is a file).
    pub fn is_anon(self) -> bool {
        matches!(self, OpKind::AnonWrite | OpKind::AnonRead)
    }
}

/// One reference of one task to one page of one object.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Op {
    /// What is done.
    pub kind: OpKind,
    /// File or anonymous region, counted from 0.
    pub object: u8,
    /// Task that does it, counted from 0.
    pub task: u16,
    /// Page index inside the object, below [`MAX_PAGES`].
    pub page: u32,
}

/// Pages that one object may have (2^31, that is 8 TiB of 4 KiB pages).
pub const MAX_PAGES: u64 = 1 << 31;

impl Op {
    /// Bytes of one `pageops` record.
    pub const BYTES: usize = 8;

    /// Of the same kind, by the same task, and to the same object: what can be served together.
    #[inline]
    pub fn is_like(self, other: Op) -> bool {
        (self.kind, self.object, self.task) == (other.kind, other.object, other.task)
    }

    /// The `pageops` record of this reference (little-endian).
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let [t0, t1] = self.task.to_le_bytes();
        let [p0, p1, p2, p3] = self.page.to_le_bytes();
        [self.kind as u8, self.object, t0, t1, p0, p1, p2, p3]
    }

    /// Reads a `pageops` record; `None` if its kind is unknown or its page is not
    /// below [`MAX_PAGES`].
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Op> {
        let [kind, object, t0, t1, p0, p1, p2, p3] = bytes;
        let page = u32::from_le_bytes([p0, p1, p2, p3]);
        if u64::from(page) >= MAX_PAGES {
            return None;
        }
        Some(Op {
            kind: OpKind::from_u8(kind)?,
            object,
            task: u16::from_le_bytes([t0, t1]),
            page,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_op_takes_eight_bytes() {
        assert_eq!(std::mem::size_of::<Op>(), Op::BYTES);
    }

    #[test]
    fn record_layout_is_kind_object_task_page() {
        let op = Op {
            kind: OpKind::AnonWrite,
            object: 2,
            task: 0x0405,
            page: 0x0607_0809,
        };
        assert_eq!(op.to_bytes(), [3, 2, 5, 4, 9, 8, 7, 6]);
    }

    #[test]
    fn unknown_kind_and_huge_page_are_refused() {
        assert_eq!(Op::from_bytes([7, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Op::from_bytes([0, 0, 0, 0, 0, 0, 0, 0x80]), None);
        assert!(Op::from_bytes([4, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]).is_some());
    }

    proptest! {
        #[test]
        fn bytes_round_trip(kind in 0u8..7, object: u8, task: u16, page in 0u32..1 << 31) {
            let op = Op { kind: OpKind::from_u8(kind).expect("known kind"), object, task, page };
            prop_assert_eq!(Op::from_bytes(op.to_bytes()), Some(op));
        }
    }
}
