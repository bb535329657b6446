//! Shadow words (`docs/rules/workingset.md#shadow`): 63 bits that the host keeps in the emptied slot.

/// Bits of the node id.
const NODE_BITS: u32 = 10;
/// Bits of the memcg id.
const MEMCG_BITS: u32 = 16;
/// Bits of the value: one of the 64 is lost to the tag that tells a shadow from a pointer.
pub const VALUE_BITS: u32 = 64 - (1 + 1 + NODE_BITS + MEMCG_BITS);
/// Mask of the value.
pub const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
/// Mask of a multi-gen value's sequence number, which has two bits of references below it.
pub const SEQ_MASK: u64 = VALUE_MASK >> 2;

/// The packed record of an eviction. Uses the low 63 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Shadow(pub u64);

/// What a shadow tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unpacked {
    /// Clock reading (classic) or generation and references (multi-gen), truncated.
    pub value: u64,
    /// Reusable id of the memcg that caused (classic) or suffered (multi-gen) the eviction.
    pub memcg: u16,
    /// Node the folio was on.
    pub node: u32,
    /// The folio was part of the workingset.
    pub workingset: bool,
}

impl Shadow {
    /// Packs; the value is truncated to [`VALUE_BITS`].
    #[inline]
    pub fn pack(u: Unpacked) -> Self {
        let word = ((u.value & VALUE_MASK) << MEMCG_BITS) | u64::from(u.memcg);
        let word = (word << NODE_BITS) | u64::from(u.node);
        Self((word << 1) | u64::from(u.workingset))
    }

    /// Reads the fields of a packed shadow.
    #[inline]
    pub fn unpack(self) -> Unpacked {
        Unpacked {
            workingset: self.0 & 1 == 1,
            node: (self.0 >> 1) as u32 & ((1 << NODE_BITS) - 1),
            memcg: (self.0 >> (1 + NODE_BITS)) as u16,
            value: (self.0 >> (1 + NODE_BITS + MEMCG_BITS)) & VALUE_MASK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w4_packing() {
        let u = Unpacked {
            value: 5,
            memcg: 7,
            node: 3,
            workingset: true,
        };
        assert_eq!(Shadow::pack(u), Shadow(671_102_983));
        assert_eq!(Shadow(671_102_983).unpack(), u);
    }
}
