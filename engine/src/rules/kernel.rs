//! The rules of a kernel generation: a table of functions by name (`docs/rules/kernels.md`).

use crate::folio::flags::FlagWord;
use crate::folio::Flags;
use crate::ids::LruType;
use crate::mglru::{EvictableTypes, MultiGen};
use crate::reclaim::work::References;

/// How generations work in one kernel. Each field is a rule.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    // ---- where folios enter (docs/rules/generations.md)
    /// Sequence number at which a folio enters; `true`: it is rotated to the cold end.
    pub(crate) entry: fn(&MultiGen, FlagWord, LruType, bool) -> u64,
    /// What entering as active does to the references.
    pub(crate) entered_active: fn(&mut FlagWord),

    // ---- references and tiers (docs/rules/generations.md)
    /// An access through a descriptor.
    pub(crate) accessed: fn(&mut FlagWord),
    /// Times used through descriptors, 0..=4.
    pub(crate) refs: fn(FlagWord) -> u32,
    /// Tier for a number of uses, in or outside the working set.
    pub(crate) tier: fn(u32, bool) -> usize,
    /// Used so often that the scan protects the folio whatever the tier limit.
    pub(crate) lazily_promoted: fn(FlagWord) -> bool,

    // ---- accessed bits (docs/rules/aging.md)
    /// A page-table walk found one. True: the folio goes to the youngest generation.
    pub(crate) walk_found: fn(&mut FlagWord) -> bool,
    /// Look-around without a walk context found one; the slot is that of the youngest generation.
    /// True: activate the folio.
    pub(crate) neighbour_found: fn(&mut FlagWord, usize) -> bool,
    /// The reverse map has answered.
    pub(crate) referenced: fn(&mut FlagWord, References, LruType) -> Fate,
    /// Kept without asking the reverse map, if mapped.
    pub(crate) kept_unasked: fn(FlagWord) -> bool,

    // ---- new and old generations (docs/rules/aging.md)
    /// Types in the order in which a full generation is forced out.
    pub(crate) forced_out: [LruType; 2],
    /// Empty generations are about to be dropped: keeps the types within reach of each other under
    /// this swappiness.
    pub(crate) level_min_seq: fn(&MultiGen, &mut [u64; 2], u16),
    /// Should the loop before the series age? Asked while eviction is possible.
    pub(crate) wants_aging: fn(&MultiGen, EvictableTypes) -> bool,
    /// The generation whose age says whether a working set is in danger.
    pub(crate) ttl_seq: fn(&MultiGen, EvictableTypes) -> u64,

    // ---- sorting and survivors (docs/rules/eviction.md)
    /// What moving to the next generation leaves of the references.
    pub(crate) protect: fn(&mut FlagWord),
    /// Folios protected by their tier go to the tail of the next generation.
    pub(crate) protected_to_tail: bool,
    /// Does protecting a folio count for the controller? The flag: it was promoted lazily.
    pub(crate) counts_protected: fn(ProtectedBy, bool) -> bool,
    /// A survivor of the folio path: true to try it once more, false if it has been readied to go back.
    pub(crate) survivor: fn(&MultiGen, &mut FlagWord, Survivor) -> bool,

    // ---- feedback (docs/rules/workingset.md)
    /// Weights of tier 0 and of the tier compared with it.
    pub(crate) tier_gains: (u64, u64),
    /// Which type to evict from under this swappiness, with or without I/O; a kernel may settle the tier
    /// limit along with it.
    pub(crate) type_to_scan: fn(&MultiGen, u16, bool) -> (LruType, Option<usize>),
    /// The working-set bit of an evicted folio's shadow.
    pub(crate) evicted_workingset: fn(FlagWord) -> bool,
    /// Is a refault recent that was evicted from this (truncated) sequence number?
    pub(crate) recent: fn(&MultiGen, LruType, u64) -> bool,
    /// Uses that a shadow tells, from its low two bits and its working-set bit.
    pub(crate) shadow_refs: fn(u32, bool) -> u32,
    /// A recent refault.
    pub(crate) refaulted: fn(&mut FlagWord, Refault) -> RefaultCounts,
}

/// What the answer of the reverse map means for a folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Take it out of memory.
    Reclaim,
    /// As long as nothing has to be written.
    ReclaimClean,
    /// Put it back.
    Keep,
    /// Put it back as active.
    Activate,
}

/// Why a folio moved from the oldest generation to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProtectedBy {
    /// The scan found its tier above the limit.
    Tier,
    /// Its generation was forced out.
    Aging,
}

/// What is known of a survivor besides its flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survivor {
    /// Its type.
    pub(crate) lru_type: LruType,
    /// Mapped by some page table.
    pub(crate) mapped: bool,
    /// It has been tried twice.
    pub(crate) retried: bool,
}

/// A recent refault of a multi-gen folio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refault {
    /// Uses before it was evicted.
    pub(crate) refs: u32,
    /// Its shadow's working-set bit.
    pub(crate) workingset: bool,
    /// Inside a page fault.
    pub(crate) in_fault: bool,
}

/// As what a recent refault counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RefaultCounts {
    /// WORKINGSET_ACTIVATE.
    pub(crate) activate: bool,
    /// WORKINGSET_RESTORE.
    pub(crate) restore: bool,
}

impl Kernel {
    /// Tier of a folio, 0..=3.
    #[inline]
    pub(crate) fn tier_of(&self, w: FlagWord) -> usize {
        (self.tier)((self.refs)(w), w.has(Flags::WORKINGSET))
    }
}
