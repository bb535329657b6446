//! Small typed indices. Everything in the engine refers to everything else by index, so that the
//! whole state is plain data without pointers, locks or lifetimes.

/// Declares a 32-bit index type with a `NONE` value.
macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(pub u32);

        impl $name {
            /// The value that means "none".
            pub const NONE: Self = Self(u32::MAX);

            /// The index as a `usize`, for table look-ups.
            #[inline]
            pub const fn idx(self) -> usize {
                self.0 as usize
            }

            /// True unless this is [`Self::NONE`].
            #[inline]
            pub const fn is_some(self) -> bool {
                self.0 != u32::MAX
            }
        }
    };
}

index_type!(
    /// A folio: one or more contiguous base pages that are reclaimed as a unit.
    FolioId
);
index_type!(
    /// A memory cgroup. `MemcgId(0)` is the root.
    MemcgId
);
index_type!(
    /// A NUMA node.
    NodeId
);
index_type!(
    /// One (memcg, node) pair, the owner of a set of LRU lists.
    LruvecId
);
index_type!(
    /// An address space, as `Engine::mm_create` has named it.
    MmId
);
index_type!(
    /// A file or anonymous region whose slots hold folios and shadows, named by the host.
    ObjectId
);
index_type!(
    /// A write context: one device (per memcg under cgroup writeback), `docs/rules/writeback.md`.
    WbId
);

impl MemcgId {
    /// The root of the memcg tree.
    pub const ROOT: Self = Self(0);
}

/// Base pages. All sizes in the engine are in 4 KiB pages unless a name says otherwise.
pub type Pages = u64;

/// Virtual or real nanoseconds since the host started.
pub type Nanos = u64;

/// Bytes of a base page.
pub const PAGE_SIZE: u64 = 4096;

/// The type of a folio for reclaim: which pair of lists it lives on (`docs/rules/generations.md#state`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum LruType {
    /// Swap-backed: anonymous and shmem.
    Anon = 0,
    /// Page cache and lazily freed anonymous memory.
    File = 1,
}

impl LruType {
    /// Both types, anonymous first.
    pub const ALL: [LruType; 2] = [LruType::Anon, LruType::File];

    /// 0 for anonymous, 1 for file.
    #[inline]
    pub const fn idx(self) -> usize {
        self as usize
    }

    /// The other type.
    #[inline]
    pub const fn other(self) -> Self {
        match self {
            LruType::Anon => LruType::File,
            LruType::File => LruType::Anon,
        }
    }
}
