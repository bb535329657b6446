//! What a new folio is.

use crate::folio::Flags;

/// Description of a folio to create. Start from a kind, refine with the builder methods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    /// Order: `1 << order` pages.
    pub(crate) order: u8,
    /// Zone index.
    pub(crate) zone: u8,
    /// Flags beyond `DIRTY`.
    pub(crate) flags: Flags,
    /// Mappings. The first one occupies an entry of the host's page table.
    pub(crate) maps: u32,
    /// Created dirty.
    pub(crate) dirty: bool,
}

impl Spec {
    const fn of(flags: Flags, maps: u32) -> Self {
        Self {
            order: 0,
            zone: 0,
            flags,
            maps,
            dirty: false,
        }
    }

    /// Page cache, clean, not mapped: one reference a page held by its slot.
    pub(crate) const fn file() -> Self {
        Self::of(Flags::OWNED.union(Flags::UPTODATE), 0)
    }

    /// Page cache mapped `maps` times.
    pub(crate) const fn mapped(maps: u32) -> Self {
        Self::of(Flags::OWNED.union(Flags::UPTODATE), maps)
    }

    /// Shared memory, dirty, not mapped: its object's slots hold it, and it needs swap.
    pub(crate) const fn shmem() -> Self {
        Self::of(
            Flags::OWNED.union(Flags::SWAPBACKED).union(Flags::UPTODATE),
            0,
        )
        .dirty()
    }

    /// Anonymous memory mapped once: its mapping holds the only reference.
    pub(crate) const fn anon() -> Self {
        Self::of(
            Flags::ANON.union(Flags::SWAPBACKED).union(Flags::UPTODATE),
            1,
        )
    }

    /// Anonymous memory given up lazily.
    pub(crate) const fn lazyfree() -> Self {
        Self::of(Flags::ANON.union(Flags::UPTODATE), 1)
    }

    /// Additional flags. `SWAPCACHE` comes with a slot and its references.
    pub(crate) const fn with(mut self, flags: Flags) -> Self {
        self.flags = self.flags.union(flags);
        self
    }

    /// Created dirty (counted as such).
    pub(crate) const fn dirty(mut self) -> Self {
        self.dirty = true;
        self
    }

    /// Of `1 << order` pages.
    pub(crate) const fn order(mut self, order: u8) -> Self {
        self.order = order;
        self
    }

    /// In this zone.
    pub(crate) const fn zone(mut self, zone: u8) -> Self {
        self.zone = zone;
        self
    }
}
