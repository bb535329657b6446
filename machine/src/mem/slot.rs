//! One word for each page of an object: where its contents are.

use coldset_engine::workingset::Shadow;
use coldset_engine::FolioId;

/// What a page of an object is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Never touched, or dropped without a trace.
    Empty,
    /// In memory, in this folio.
    Folio(FolioId),
    /// On the backing file, evicted from memory.
    Shadow(Shadow),
    /// In this swap slot.
    Swap(u32),
}

/// Encoded slot: bit 0 set = shadow; else 0 = empty, bit 1 set = folio, clear = swap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotWord(u64);

impl SlotWord {
    /// The folio, if that is what it holds: the test of the hit path.
    #[inline]
    pub fn folio(self) -> Option<FolioId> {
        (self.0 & 3 == 2).then_some(FolioId((self.0 >> 2) as u32))
    }

    /// The folio's number, or 0 where there is none: no branch on a word that may not be in the
    /// cache yet.
    #[inline]
    pub(crate) fn folio_or_zero(self) -> FolioId {
        FolioId((self.0 >> 2) as u32 * u32::from(self.0 & 3 == 2))
    }

    /// The page is in memory or in swap: an index node that has it does not hold shadows only.
    #[inline]
    pub(super) fn is_held(self) -> bool {
        self.0 != 0 && self.0 & 1 == 0
    }

    /// Reads a slot.
    #[inline]
    pub fn get(self) -> Slot {
        match self.0 {
            0 => Slot::Empty,
            w if w & 1 == 1 => Slot::Shadow(Shadow(w >> 1)),
            w if w & 2 == 2 => Slot::Folio(FolioId((w >> 2) as u32)),
            w => Slot::Swap((w >> 2) as u32 - 1),
        }
    }
}

impl From<Slot> for SlotWord {
    #[inline]
    fn from(s: Slot) -> Self {
        Self(match s {
            Slot::Empty => 0,
            Slot::Folio(id) => u64::from(id.0) << 2 | 2,
            Slot::Shadow(s) => s.0 << 1 | 1,
            Slot::Swap(slot) => (u64::from(slot) + 1) << 2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_word() {
        for s in [
            Slot::Empty,
            Slot::Folio(FolioId(0)),
            Slot::Folio(FolioId(77)),
            Slot::Shadow(Shadow(0)),
            Slot::Shadow(Shadow((1 << 63) - 1)),
            Slot::Swap(0),
            Slot::Swap(u32::MAX - 1),
        ] {
            let w = SlotWord::from(s);
            assert_eq!(w.get(), s);
            assert_eq!(w.folio().is_some(), matches!(s, Slot::Folio(_)));
            assert_eq!(w.is_held(), !matches!(s, Slot::Empty | Slot::Shadow(_)));
        }
    }
}
