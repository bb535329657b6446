//! What a slot of compressed memory holds, packed into 64 bits.

use super::slab::Handle;
use crate::sys::PAGE;

/// From this size on a page is kept as it is.
pub const HARDLY: usize = PAGE - PAGE / 8;

/// Contents of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// None.
    Empty,
    /// One word, repeated.
    Same,
    /// A page as it is.
    Raw(Handle),
    /// So many bytes of LZ4.
    Lz4(Handle, usize),
    /// So many bytes of Zstandard.
    Zstd(Handle, usize),
}

const ZSTD: u64 = 1 << 14;

impl Entry {
    /// Bit 0-1 kind, 2-13 length, 14 Zstandard, 16-31 object, 32-63 chunk. Empty is 0.
    pub fn pack(self) -> u64 {
        let at = |h: Handle| (u64::from(h.chunk) << 16 | u64::from(h.object)) << 16;
        let len = |n: usize| {
            debug_assert!(n < HARDLY);
            (n as u64) << 2
        };
        match self {
            Entry::Empty => 0,
            Entry::Same => 1,
            Entry::Raw(h) => 2 | at(h),
            Entry::Lz4(h, n) => 3 | len(n) | at(h),
            Entry::Zstd(h, n) => 3 | len(n) | ZSTD | at(h),
        }
    }

    /// The entry of such bits.
    pub fn unpack(v: u64) -> Self {
        let h = Handle {
            chunk: (v >> 32) as u32,
            object: (v >> 16) as u16,
        };
        let len = (v as usize >> 2) & 0xFFF;
        match v & 3 {
            0 => Entry::Empty,
            1 => Entry::Same,
            2 => Entry::Raw(h),
            _ if v & ZSTD != 0 => Entry::Zstd(h, len),
            _ => Entry::Lz4(h, len),
        }
    }

    /// Its object in the slab, and how many bytes of it count.
    pub fn object(self) -> Option<(Handle, usize)> {
        match self {
            Entry::Empty | Entry::Same => None,
            Entry::Raw(h) => Some((h, PAGE)),
            Entry::Lz4(h, n) | Entry::Zstd(h, n) => Some((h, n)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_survive_packing(chunk: u32, object: u16, len in 1..HARDLY, kind in 0..5) {
            let h = Handle { chunk, object };
            let e = match kind {
                0 => Entry::Empty,
                1 => Entry::Same,
                2 => Entry::Raw(h),
                3 => Entry::Lz4(h, len),
                _ => Entry::Zstd(h, len),
            };
            prop_assert_eq!(Entry::unpack(e.pack()), e);
            prop_assert_eq!(e.pack() == 0, e == Entry::Empty);
        }
    }
}
