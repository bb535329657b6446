//! Folio flags and the two small fields (generation, references) that share their word
//! (`docs/rules/generations.md`).

use bitflags::bitflags;

bitflags! {
    /// State bits of one folio. Names are the kernel's without the `PG_` prefix.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Flags: u32 {
        /// Locked by a reclaimer, a reader in flight or the host.
        const LOCKED = 1 << 0;
        /// Classic: accessed once. Multi-gen: the refs field is valid.
        const REFERENCED = 1 << 1;
        /// Was once part of the workingset (`docs/rules/workingset.md#refault`).
        const WORKINGSET = 1 << 2;
        /// Belongs (or will be added) to the active list / the young generations.
        const ACTIVE = 1 << 3;
        /// Rotate to the cold end when the writeback ends. The same bit of a file's page that is clean, or
        /// dirty and not queued, makes its next read start a window (`docs/rules/read-ahead.md#mark`).
        const RECLAIM = 1 << 4;
        /// Newer than the backing store.
        const DIRTY = 1 << 5;
        /// I/O to the backing store is in flight.
        const WRITEBACK = 1 << 6;
        /// Anonymous or shmem: needs swap to leave memory.
        const SWAPBACKED = 1 << 7;
        /// Has a swap slot.
        const SWAPCACHE = 1 << 8;
        /// On the unevictable list.
        const UNEVICTABLE = 1 << 9;
        /// Locked into memory by a mapping.
        const MLOCKED = 1 << 10;
        /// On a list of its lruvec.
        const LRU = 1 << 11;
        /// Anonymous memory (also when lazily freeable, i.e. not swap-backed).
        const ANON = 1 << 12;
        /// May be pinned for DMA.
        const PINNED = 1 << 13;
        /// Mapped executable by some mapping.
        const EXEC = 1 << 14;
        /// Belongs to a slot of its object. A slot of the page cache holds one reference for each page; of anonymous
        /// memory ([`Self::ANON`]) the mappings hold them. Cleared by the host when it gives the page up.
        const OWNED = 1 << 15;
        /// Poisoned by a memory error: reclaim takes a single page off its list, and its memory is
        /// never free again.
        const POISONED = 1 << 16;
        /// A large folio not mapped as a whole.
        const PARTIALLY_MAPPED = 1 << 17;
        /// Has buffers that must be released before it can be freed.
        const PRIVATE = 1 << 18;
        /// Its mapping is unevictable (ramfs, locked shmem).
        const MAPPING_UNEVICTABLE = 1 << 19;
        /// Contents have been read from the backing store.
        const UPTODATE = 1 << 20;
        /// Read ahead from swap, and not used since.
        const READAHEAD = 1 << 21;
        /// Being freed: on no list, unreachable.
        const DEAD = 1 << 22;
    }
}

/// Bits 27..=29: generation + 1, 0 = on no generation list.
const GEN_SHIFT: u32 = 27;
const GEN_MASK: u32 = 7 << GEN_SHIFT;
/// Bits 30..=31: references through descriptors beyond the first.
const REFS_SHIFT: u32 = 30;
const REFS_MASK: u32 = 3 << REFS_SHIFT;

/// Largest value of the refs field.
pub const REFS_MAX: u32 = 3;

/// The flag word of a folio: [`Flags`] plus generation and refs fields.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct FlagWord(u32);

impl std::fmt::Debug for FlagWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} gen={:?} refs={}",
            self.flags(),
            self.gen(),
            self.refs()
        )
    }
}

impl FlagWord {
    /// A word with the given flags, on no generation, refs field 0.
    #[inline]
    pub const fn new(flags: Flags) -> Self {
        Self(flags.bits())
    }

    /// The flags without the fields.
    #[inline]
    pub const fn flags(self) -> Flags {
        Flags::from_bits_truncate(self.0 & !(GEN_MASK | REFS_MASK))
    }

    /// The whole word: flags and fields.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// True if all of `f` are set.
    #[inline]
    pub const fn has(self, f: Flags) -> bool {
        self.0 & f.bits() == f.bits()
    }

    /// True if any of `f` is set.
    #[inline]
    pub const fn any(self, f: Flags) -> bool {
        self.0 & f.bits() != 0
    }

    /// Sets `f`.
    #[inline]
    pub fn set(&mut self, f: Flags) {
        self.0 |= f.bits();
    }

    /// Clears `f`.
    #[inline]
    pub fn clear(&mut self, f: Flags) {
        self.0 &= !f.bits();
    }

    /// Clears `f` and says whether any of it was set.
    #[inline]
    pub fn test_clear(&mut self, f: Flags) -> bool {
        let was = self.any(f);
        self.clear(f);
        was
    }

    /// Generation index 0..=3, or none if the folio is on no generation list.
    #[inline]
    pub const fn gen(self) -> Option<usize> {
        match (self.0 & GEN_MASK) >> GEN_SHIFT {
            0 => None,
            g => Some(g as usize - 1),
        }
    }

    /// Sets or clears the generation.
    #[inline]
    pub fn set_gen(&mut self, gen: Option<usize>) {
        let field = gen.map_or(0, |g| g as u32 + 1);
        self.0 = (self.0 & !GEN_MASK) | field << GEN_SHIFT;
    }

    /// The refs field, 0..=3 (its meaning depends on the version, `docs/rules/generations.md#references`).
    #[inline]
    pub const fn refs(self) -> u32 {
        (self.0 & REFS_MASK) >> REFS_SHIFT
    }

    /// Sets the refs field.
    #[inline]
    pub fn set_refs(&mut self, refs: u32) {
        debug_assert!(refs <= REFS_MAX);
        self.0 = (self.0 & !REFS_MASK) | refs << REFS_SHIFT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_disturb_flags() {
        let mut w = FlagWord::new(Flags::DIRTY | Flags::DEAD);
        w.set_gen(Some(3));
        w.set_refs(3);
        assert_eq!((w.gen(), w.refs()), (Some(3), 3));
        assert_eq!(w.flags(), Flags::DIRTY | Flags::DEAD);
        w.set_gen(None);
        w.set_refs(0);
        assert_eq!(w, FlagWord::new(Flags::DIRTY | Flags::DEAD));
    }
}
