//! Zones: watermarks, who may allocate, kswapd's tests, the reserve gate, and the allocation slow
//! path (`docs/rules/zones.md`). Sizes are pages.
//!
//! Free pages are counted, not placed: of the buddy system only the order of the largest free block
//! is kept, which the host may set where higher orders matter.

pub mod alloc;
pub mod kswapd;
mod list;
mod lists;
pub mod watermark;
mod zones;

use crate::ids::{NodeId, Pages};
pub use alloc::{AllocFlags, AllocInput, AllocStep, AllocTask};
pub use kswapd::{balanced, kswapd_target, pfmemalloc_allowed};
pub use list::ZoneList;
pub use lists::CpuLists;
pub use watermark::{
    min_free_kbytes, set_lowmem_reserves, set_watermarks, totalreserve, WatermarkConfig,
    WatermarkError,
};
pub use zones::Zones;

/// Largest order of a block of the buddy system.
pub const MAX_ORDER: u32 = 10;

/// Class of a zone, lowest first. A request of a class may use it and all lower ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum ZoneClass {
    /// For devices that address little memory.
    Dma = 0,
    /// For devices that address 4 GiB.
    Dma32 = 1,
    /// Everything else the kernel can use for itself.
    #[default]
    Normal = 2,
    /// Not mapped by the kernel (32-bit machines).
    HighMem = 3,
    /// For movable pages only.
    Movable = 4,
}

impl ZoneClass {
    /// Number of classes.
    pub const COUNT: usize = 5;

    /// Position in the order.
    pub const fn idx(self) -> usize {
        self as usize
    }

    /// True for zones that hold user pages only and get a fixed small reserve.
    pub const fn is_high_or_movable(self) -> bool {
        matches!(self, Self::HighMem | Self::Movable)
    }
}

/// Which watermark is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Nothing is held back (privileged requests).
    None,
    /// Reserve of the kernel.
    Min,
    /// Below it kswapd is woken.
    Low,
    /// kswapd stops above it.
    High,
    /// kswapd stops above it with memory tiering.
    Promo,
}

/// Rights of a request to dip into the reserve below a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReserveRights {
    /// High-priority request (GFP_HIGH): half of the mark.
    pub high: bool,
    /// It cannot block (atomic): a quarter less again, if it is a high-priority one.
    pub atomic: bool,
    /// Victim of the OOM killer: half of the rest.
    pub oom_victim: bool,
}

/// A zone of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Zone {
    /// Node the zone belongs to.
    pub node: NodeId,
    /// Which requests may use it.
    pub class: ZoneClass,
    /// Pages given to the allocator; 0 = the zone is empty.
    pub managed: Pages,
    /// Free pages, without those on per-CPU lists.
    pub free: Pages,
    /// Free pages on per-CPU lists, all CPUs together.
    pub pcp: Pages,
    /// How these move.
    pub lists: CpuLists,
    /// Order of the largest free block.
    pub largest_free_order: u32,
    /// Free pages held back for atomic higher orders.
    pub highatomic: Pages,
    /// Watermarks without boost.
    pub min: Pages,
    /// Free pages below which kswapd is woken.
    pub low: Pages,
    /// Free pages at which kswapd stops.
    pub high: Pages,
    /// Free pages at which kswapd stops with memory tiering.
    pub promo: Pages,
    /// Added to each mark after fragmenting allocations, until kswapd removes it.
    pub boost: Pages,
    /// Held back from requests of each higher class.
    pub lowmem_reserve: [Pages; ZoneClass::COUNT],
    /// Pages reclaim could free: file pages, and anonymous pages if swap has free slots. Set by
    /// the host before asking.
    pub reclaimable: Pages,
}

impl Zone {
    /// A zone with all pages free, without marks yet.
    pub fn new(node: NodeId, class: ZoneClass, managed: Pages) -> Self {
        Self {
            node,
            class,
            managed,
            free: managed,
            pcp: 0,
            lists: CpuLists::default(),
            largest_free_order: MAX_ORDER,
            highatomic: 0,
            min: 0,
            low: 0,
            high: 0,
            promo: 0,
            boost: 0,
            lowmem_reserve: [0; ZoneClass::COUNT],
            reclaimable: 0,
        }
    }

    /// A watermark as it is read: with the boost.
    pub fn mark(&self, mark: Mark) -> Pages {
        match mark {
            Mark::None => 0,
            Mark::Min => self.min + self.boost,
            Mark::Low => self.low + self.boost,
            Mark::High => self.high + self.boost,
            Mark::Promo => self.promo + self.boost,
        }
    }

    /// True if a request of `order` and `class` leaves the zone above a mark of `mark` pages.
    pub fn ok_pages(
        &self,
        order: u32,
        mark: Pages,
        rights: ReserveRights,
        class: ZoneClass,
    ) -> bool {
        self.ok_with_free(self.free, order, mark, rights, class)
            && (order == 0 || self.largest_free_order >= order)
    }

    /// True if a request of `order` and `class` leaves the zone above `mark`.
    pub fn ok(&self, order: u32, mark: Mark, rights: ReserveRights, class: ZoneClass) -> bool {
        self.ok_pages(order, self.mark(mark), rights, class)
    }

    /// True if the request could be met at min, were all reclaimable pages free. The block order is
    /// taken as attainable.
    pub fn could_meet(&self, order: u32, rights: ReserveRights, class: ZoneClass) -> bool {
        let free = self.free + self.reclaimable;
        self.ok_with_free(free, order, self.mark(Mark::Min), rights, class)
    }

    fn ok_with_free(
        &self,
        free: Pages,
        order: u32,
        mark: Pages,
        rights: ReserveRights,
        class: ZoneClass,
    ) -> bool {
        let mut mark = mark;
        if rights.high {
            mark -= mark / 2;
            if rights.atomic {
                mark -= mark / 4;
            }
        }
        if rights.oom_victim {
            mark -= mark / 2;
        }
        let held = (1u64 << order) - 1 + self.highatomic;
        let needed = mark + self.lowmem_reserve[class.idx()];
        free.checked_sub(held).is_some_and(|left| left > needed)
    }

    /// Takes a block out of the free pages. A single page comes from the per-CPU lists where CPUs keep any, which are
    /// filled first, or if no other is free. False if the zone has none.
    pub fn take(&mut self, order: u32) -> bool {
        let n = 1u64 << order;
        let from_lists = order == 0 && !self.lists.are_none();
        if from_lists && self.pcp == 0 {
            let refill = self.lists.refill().min(self.free);
            self.free -= refill;
            self.pcp += refill;
        }
        if from_lists && self.pcp > 0 {
            self.lists.taken();
            self.pcp -= 1;
        } else if self.free >= n {
            self.free -= n;
        } else if order == 0 && self.pcp > 0 {
            self.pcp -= 1;
        } else {
            return false;
        }
        true
    }

    /// Gives pages back: to the per-CPU lists where CPUs keep any, and what is too much there to the free pages.
    pub fn give(&mut self, pages: Pages) {
        if self.lists.are_none() {
            self.free += pages;
        } else {
            self.pcp += pages;
            let drained = self.lists.drain(pages, self.pcp);
            self.pcp -= drained;
            self.free += drained;
        }
        debug_assert!(
            self.free + self.pcp <= self.managed,
            "more free than managed pages"
        );
    }

    /// Empties the per-CPU lists into the free pages; returns how many pages that were.
    pub fn drain_pcp(&mut self) -> Pages {
        let n = std::mem::take(&mut self.pcp);
        self.free += n;
        n
    }

    /// Gives up one page block of the high-order atomic reserve; true if there was any.
    pub fn unreserve_highatomic(&mut self, block: Pages) -> bool {
        let had = self.highatomic > 0;
        self.highatomic -= block.min(self.highatomic);
        had
    }

    /// kswapd has worked off `boost` pages of boost.
    pub fn unboost(&mut self, boost: Pages) {
        self.boost -= boost.min(self.boost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ATOMIC: ReserveRights = ReserveRights {
        high: true,
        atomic: true,
        oom_victim: false,
    };

    fn zone(free: Pages) -> Zone {
        let z = Zone::new(NodeId(0), ZoneClass::Normal, 1_048_576);
        Zone {
            free,
            min: 2048,
            low: 3096,
            high: 4144,
            promo: 5192,
            ..z
        }
    }

    #[test]
    fn machine_c2_ok() {
        let plain = ReserveRights::default();
        let ok = |free, order, mark| zone(free).ok(order, mark, plain, ZoneClass::Normal);
        assert!(ok(3097, 0, Mark::Low));
        assert!(!ok(3096, 0, Mark::Low));
        assert!(!ok(3103, 3, Mark::Low));
        assert!(ok(3104, 3, Mark::Low));
        assert!(zone(769).ok(0, Mark::Min, ATOMIC, ZoneClass::Normal));
        assert!(!zone(768).ok(0, Mark::Min, ATOMIC, ZoneClass::Normal));
        let victim = ReserveRights {
            oom_victim: true,
            ..plain
        };
        assert!(zone(1025).ok(0, Mark::Min, victim, ZoneClass::Normal));
        assert!(!zone(1024).ok(0, Mark::Min, victim, ZoneClass::Normal));
    }

    #[test]
    fn entry_r1_ok_needs_a_block() {
        let ok = |free, order, largest_free_order| {
            let z = Zone {
                min: 1024,
                largest_free_order,
                ..zone(free)
            };
            z.ok(
                order,
                Mark::Min,
                ReserveRights::default(),
                ZoneClass::Normal,
            )
        };
        assert!(!ok(1024, 0, 0));
        assert!(ok(1025, 0, 0));
        assert!(!ok(1031, 3, 3));
        assert!(!ok(1032, 3, 2));
        assert!(ok(1032, 3, 3));
    }

    #[test]
    fn reserves_count() {
        let mut z = zone(3200);
        z.lowmem_reserve[ZoneClass::Movable.idx()] = 103;
        let ok = |z: &Zone, class| z.ok(0, Mark::Low, ReserveRights::default(), class);
        assert!(ok(&z, ZoneClass::Movable) && ok(&z, ZoneClass::Normal));
        z.free -= 1;
        assert!(!ok(&z, ZoneClass::Movable) && ok(&z, ZoneClass::Normal));
        z.highatomic = 200;
        assert!(!ok(&z, ZoneClass::Normal));
        assert!(z.unreserve_highatomic(512) && !z.unreserve_highatomic(512));
        assert!(ok(&z, ZoneClass::Normal));
    }

    #[test]
    fn a_boost_raises_the_marks_and_is_removed() {
        let mut z = zone(10_000);
        z.boost = 6216;
        assert_eq!(z.mark(Mark::High), 4144 + 6216);
        z.unboost(6000);
        assert_eq!(z.boost, 216);
        z.unboost(6000);
        assert_eq!(z.boost, 0);
    }

    #[test]
    fn per_cpu_lists() {
        let mut z = zone(37);
        z.pcp = 62;
        assert_eq!((z.drain_pcp(), z.free), (62, 99));
        z.free = 0;
        assert!(!z.take(0));
        z.pcp = 1;
        assert!(z.take(0) && !z.take(0));
    }

    #[test]
    fn cpus_keep_pages_in_batches() {
        let mut z = Zone {
            lists: CpuLists::new(63, 252),
            ..zone(1000)
        };
        assert!(z.take(0));
        assert_eq!((z.free, z.pcp), (937, 62));
        assert!((0..62).all(|_| z.take(0)));
        assert_eq!((z.free, z.pcp), (937, 0));
        z.give(251);
        assert_eq!((z.free, z.pcp), (937, 251));
        z.give(1);
        assert_eq!((z.free, z.pcp), (1126, 63));
        assert!(z.take(3), "no list has blocks");
        assert_eq!((z.free, z.pcp), (1118, 63));
        assert!((0..1181).all(|_| z.take(0)) && !z.take(0));
    }

    proptest! {
        #[test]
        fn more_rights_never_hurt(free in 0u64..5000, order in 0u32..5, high: bool, atomic: bool) {
            let z = zone(free);
            let plain = ReserveRights { high, atomic, oom_victim: false };
            let more = ReserveRights { oom_victim: true, ..plain };
            let ok = |order, r| z.ok(order, Mark::Low, r, ZoneClass::Normal);
            prop_assert!(!ok(order, plain) || ok(order, more));
            prop_assert!(!ok(order + 1, plain) || ok(order, plain));
        }
    }
}
