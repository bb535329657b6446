//! The rules of a kernel generation: a table of functions by name (`docs/rules/kernels.md`).

use crate::folio::flags::FlagWord;
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
    /// A folio is queued for its list by a page fault.
    pub(crate) added_in_fault: fn(&mut FlagWord),

    // ---- references and tiers (docs/rules/generations.md)
    /// An access through a descriptor.
    pub(crate) accessed: fn(&mut FlagWord),
    /// What a folio's uses amount to.
    pub(crate) standing: fn(FlagWord) -> Standing,

    // ---- accessed bits (docs/rules/aging.md)
    /// A page-table walk found one. True: the folio goes to the youngest generation.
    pub(crate) walk_found: fn(&mut FlagWord) -> bool,
    /// Walks leave folios that are on no list alone.
    pub(crate) walks_on_lists: bool,
    /// Look-around without a walk context found one; the slot is that of the youngest generation.
    /// True: activate the folio.
    pub(crate) neighbour_found: fn(&mut FlagWord, usize) -> bool,
    /// It leaves folios that are on no list alone: those of the batch that is being reclaimed.
    pub(crate) looks_around_on_lists: bool,
    /// The reverse map has answered.
    pub(crate) referenced: fn(&mut FlagWord, References, LruType) -> Fate,
    /// Executable file memory joins the working set at its first use, where the use is found by the
    /// reverse map, by a walk.
    pub(crate) executable_joins: [bool; 2],
    /// Kept without asking the reverse map, if mapped.
    pub(crate) kept_unasked: fn(FlagWord) -> bool,

    // ---- new and old generations (docs/rules/aging.md)
    /// A command opens no generation without force if there are four.
    pub(crate) commands_need_room: bool,
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
    /// The loop before the series isolates no more than its budget at a time.
    pub(crate) batch_within_budget: bool,
    /// What moving to the next generation leaves of the references.
    pub(crate) protect: fn(&mut FlagWord),
    /// Folios protected by their tier go to the tail of the next generation.
    pub(crate) protected_to_tail: bool,
    /// Does protecting a folio count for the controller? The flag: it was promoted lazily.
    pub(crate) counts_protected: fn(ProtectedBy, bool) -> bool,
    /// A survivor of the folio path: true to try it once more, false if it has been readied to go back.
    pub(crate) survivor: fn(&mut FlagWord, Survivor) -> bool,

    // ---- feedback (docs/rules/workingset.md)
    /// Weights of tier 0 and of the tier compared with it.
    pub(crate) tier_gains: (u64, u64),
    /// Which type to evict from under this swappiness, with or without I/O; a kernel may settle the tier
    /// limit along with it.
    pub(crate) type_to_scan: fn(&MultiGen, u16, bool) -> (LruType, Option<usize>),
    /// A recent refault. The shadow tells the low two bits of the folio's uses and its working-set bit;
    /// the last flag says that it happens inside a page fault.
    pub(crate) refaulted: fn(&mut FlagWord, u32, bool, bool) -> Refaulted,
}

/// What a folio's uses amount to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    /// Times used through descriptors, 0..=4.
    pub(crate) refs: u8,
    /// Tier, 0..=3.
    pub(crate) tier: u8,
    /// Used so often that the scan protects it whatever the tier limit.
    pub(crate) lazily_promoted: bool,
    /// Part of the working set.
    pub(crate) workingset: bool,
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
    /// Mapped by some page table.
    pub(crate) mapped: bool,
    /// It has been tried twice.
    pub(crate) retried: bool,
    /// As it is, it would enter the oldest generation.
    pub(crate) enters_oldest: bool,
}

/// As what a recent refault counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refaulted {
    /// The tier from which the folio was evicted.
    pub(crate) tier: u8,
    /// WORKINGSET_ACTIVATE.
    pub(crate) activate: bool,
    /// WORKINGSET_RESTORE.
    pub(crate) restore: bool,
}
