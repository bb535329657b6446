//! Swap slots over several areas, with optional per-CPU caches (`docs/rules/swap.md`).

use super::area::Area;
use crate::ids::Pages;

/// Slots of a cluster where huge folios are swapped whole.
pub const CLUSTER: u32 = 512;
/// Most slots a scan is charged for in one call.
pub const SCAN_MAX: u64 = 256;

/// A page-sized place in swap, numbered over all areas.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct SwapSlot {
    /// Index of the area, in order of addition.
    pub area: u16,
    /// Slot in the area.
    pub offset: u32,
}

/// A slot that has been handed out, and what finding it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The slot it got.
    pub slot: SwapSlot,
    /// Slots a scan looked at to find it (or the batch it came from), at most [`SCAN_MAX`].
    pub scanned: u64,
}

/// Swap that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SwapError {
    /// An area without slots.
    #[error("swap area of 0 slots: give it at least one page")]
    Empty,
    /// Too many areas.
    #[error("swap area number {0}: at most 65535 areas can be added")]
    TooMany(usize),
    /// A cluster size that is no power of two.
    #[error("swap cluster of {0} slots: use a power of two, 256 or 512 usually")]
    Cluster(u32),
}

/// Per-CPU slot caches: allocation in batches, frees buffered. Later kernels have none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct SlotCacheConfig {
    /// Slots of a batch (64).
    pub batch: u32,
    /// CPUs, each of which fills a cluster of its own.
    pub cpus: u32,
}

impl SlotCacheConfig {
    /// The usual batch for so many CPUs.
    pub fn new(cpus: u32) -> Self {
        Self { batch: 64, cpus }
    }

    fn on_above(self) -> u64 {
        5 * u64::from(self.batch) * u64::from(self.cpus)
    }

    fn off_below(self) -> u64 {
        2 * u64::from(self.batch) * u64::from(self.cpus)
    }
}

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct CpuCache {
    ready: Vec<SwapSlot>,
    freed: Vec<SwapSlot>,
}

/// All swap areas, and the slots each CPU keeps ready.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct SwapSlots {
    areas: Vec<Area>,
    /// Areas by priority, highest first; among equals, the one used longest ago first.
    order: Vec<u16>,
    cluster: u32,
    caches: Option<SlotCacheConfig>,
    caches_on: bool,
    cpus: Vec<CpuCache>,
}

impl SwapSlots {
    /// No areas. `cluster` is a power of two, such as [`CLUSTER`]; `caches` switches the per-CPU
    /// slot caches on.
    pub fn new(cluster: u32, caches: Option<SlotCacheConfig>) -> Result<Self, SwapError> {
        if !cluster.is_power_of_two() {
            return Err(SwapError::Cluster(cluster));
        }
        let order = Vec::new();
        let cpus = Vec::new();
        Ok(Self {
            areas: Vec::new(),
            order,
            cluster,
            caches,
            caches_on: false,
            cpus,
        })
    }

    /// Adds an area; areas of higher priority are used first, equal ones in turn.
    pub fn add_area(&mut self, slots: u32, priority: i32) -> Result<u16, SwapError> {
        if slots == 0 {
            return Err(SwapError::Empty);
        }
        let id =
            u16::try_from(self.areas.len()).map_err(|_| SwapError::TooMany(self.areas.len()))?;
        self.areas.push(Area::new(priority, slots, self.cluster));
        let at = self
            .order
            .partition_point(|&a| self.areas[usize::from(a)].priority >= priority);
        self.order.insert(at, id);
        Ok(id)
    }

    /// Where half of the slots that have ever been used are free, those are handed out before others, so that what a host
    /// keeps for each slot is little. Otherwise, as in the kernel, whole free clusters come first, those that have been free
    /// for longest before others: what is swapped out together is together.
    #[must_use]
    pub fn dense(mut self) -> Self {
        self.areas.iter_mut().for_each(Area::make_dense);
        self
    }

    /// Slots of all areas.
    pub fn total(&self) -> Pages {
        self.areas.iter().map(|a| u64::from(a.slots())).sum()
    }

    /// Free slots of all areas; slots in per-CPU caches are not free.
    pub fn free(&self) -> Pages {
        self.areas.iter().map(|a| u64::from(a.free())).sum()
    }

    /// Slots and free slots of one area.
    pub fn area(&self, id: u16) -> Option<(u32, u32)> {
        self.areas
            .get(usize::from(id))
            .map(|a| (a.slots(), a.free()))
    }

    /// Takes a slot for a CPU; `None` if swap is full.
    pub fn allocate(&mut self, cpu: usize) -> Option<Allocation> {
        self.switch_caches();
        let mut scanned = 0;
        let slot = if self.caches_on {
            self.allocate_cached(cpu, &mut scanned)
        } else {
            self.take(cpu, 1, &mut scanned).pop()
        };
        // The last slots may sit in some CPU's cache.
        let slot = slot.or_else(|| {
            self.drain_caches()
                .then(|| self.take(cpu, 1, &mut scanned).pop())?
        });
        slot.map(|slot| Allocation {
            slot,
            scanned: scanned.min(SCAN_MAX),
        })
    }

    /// Takes a whole free cluster for a huge folio of `pages` pages (which must be the cluster
    /// size); `None` if there is none and the folio must be split.
    pub fn allocate_huge(&mut self, pages: u32) -> Option<SwapSlot> {
        for at in 0..self.order.len() {
            let area = self.order[at];
            if let Some(offset) = self.areas[usize::from(area)].take_cluster(pages) {
                self.used_area(at);
                return Some(SwapSlot { area, offset });
            }
        }
        None
    }

    /// Frees a slot. The caches of `cpu` may hold it back for a while.
    pub fn release(&mut self, cpu: usize, slot: SwapSlot) {
        assert!(self.is_used(slot), "slot {slot:?} is freed twice");
        let Some(config) = self.caches.filter(|_| self.caches_on) else {
            self.areas[usize::from(slot.area)].release(slot.offset);
            return;
        };
        let cache = self.cpu(cpu);
        debug_assert!(!cache.freed.contains(&slot), "slot {slot:?} is freed twice");
        cache.freed.push(slot);
        if cache.freed.len() >= config.batch as usize {
            let freed = std::mem::take(&mut cache.freed);
            self.give_back(freed);
        }
    }

    /// True if the slot is taken, by a page or by a cache.
    pub fn is_used(&self, slot: SwapSlot) -> bool {
        let area = self.areas.get(usize::from(slot.area));
        area.is_some_and(|a| slot.offset < a.slots() && a.is_used(slot.offset))
    }

    /// Empties all caches into the areas; true if they held anything.
    pub fn drain_caches(&mut self) -> bool {
        let mut drained = false;
        for cpu in 0..self.cpus.len() {
            let cache = std::mem::take(&mut self.cpus[cpu]);
            drained |= !cache.ready.is_empty() || !cache.freed.is_empty();
            self.give_back(cache.ready);
            self.give_back(cache.freed);
        }
        drained
    }

    /// Caches come on with plenty of free slots and go off, emptied, when slots get scarce.
    fn switch_caches(&mut self) {
        let Some(config) = self.caches else { return };
        let free = self.free();
        if self.caches_on && free < config.off_below() {
            self.caches_on = false;
            self.drain_caches();
        } else if !self.caches_on && free > config.on_above() {
            self.caches_on = true;
        }
    }

    fn allocate_cached(&mut self, cpu: usize, scanned: &mut u64) -> Option<SwapSlot> {
        if self.cpu(cpu).ready.is_empty() {
            let batch = self.caches.map_or(1, |c| c.batch);
            let mut slots = self.take(cpu, batch, scanned);
            slots.reverse();
            self.cpu(cpu).ready = slots;
        }
        self.cpu(cpu).ready.pop()
    }

    /// Takes up to `n` slots of the first area that has any.
    fn take(&mut self, cpu: usize, n: u32, scanned: &mut u64) -> Vec<SwapSlot> {
        for at in 0..self.order.len() {
            let id = self.order[at];
            let area = &mut self.areas[usize::from(id)];
            let taken = (0..n).map_while(|_| area.take(cpu, scanned));
            let slots: Vec<_> = taken.map(|offset| SwapSlot { area: id, offset }).collect();
            if !slots.is_empty() {
                self.used_area(at);
                return slots;
            }
        }
        Vec::new()
    }

    /// Moves the area at a position of the order behind its equals.
    fn used_area(&mut self, at: usize) {
        let priority = |s: &Self, i: usize| s.areas[usize::from(s.order[i])].priority;
        let own = priority(self, at);
        let equals = (at..self.order.len())
            .take_while(|&i| priority(self, i) == own)
            .count();
        self.order[at..at + equals].rotate_left(1);
    }

    fn give_back(&mut self, slots: Vec<SwapSlot>) {
        for slot in slots {
            self.areas[usize::from(slot.area)].release(slot.offset);
        }
    }

    fn cpu(&mut self, cpu: usize) -> &mut CpuCache {
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, CpuCache::default);
        }
        &mut self.cpus[cpu]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn one_area(slots: u32) -> SwapSlots {
        let mut s = SwapSlots::new(CLUSTER, None).unwrap();
        s.add_area(slots, 0).unwrap();
        s
    }

    fn offset(s: &mut SwapSlots, cpu: usize) -> u32 {
        s.allocate(cpu).unwrap().slot.offset
    }

    #[test]
    fn each_cpu_fills_a_cluster_of_its_own() {
        let mut s = one_area(2048);
        assert_eq!(
            [0, 1, 0, 1, 0].map(|cpu| offset(&mut s, cpu)),
            [0, 512, 1, 513, 2]
        );
        for _ in 0..509 {
            offset(&mut s, 0);
        }
        assert_eq!(
            offset(&mut s, 0),
            1024,
            "its cluster is full, so the next free one"
        );
    }

    #[test]
    fn full_clusters_are_skipped_and_holes_found_by_scanning() {
        let mut s = one_area(1024);
        for _ in 0..1024 {
            s.allocate(0).unwrap();
        }
        assert_eq!((s.allocate(0), s.free()), (None, 0));
        for offset in [700, 900] {
            s.release(0, SwapSlot { area: 0, offset });
        }
        let a = s.allocate(0).unwrap();
        // The first cluster is full; in the second 512..=700 are looked at.
        assert_eq!((a.slot.offset, a.scanned), (700, 189));
        let a = s.allocate(1).unwrap();
        assert_eq!((a.slot.offset, a.scanned), (900, 200));
        assert_eq!(s.allocate(0), None);
    }

    #[test]
    fn priorities_and_turns() {
        let mut s = SwapSlots::new(CLUSTER, None).unwrap();
        let low = s.add_area(2, 1).unwrap();
        let a = s.add_area(2, 5).unwrap();
        let b = s.add_area(2, 5).unwrap();
        let areas: Vec<_> = (0..6).map(|_| s.allocate(0).unwrap().slot.area).collect();
        assert_eq!(areas, [a, b, a, b, low, low]);
        assert_eq!(
            (s.allocate(0), s.total(), s.area(low)),
            (None, 6, Some((2, 0)))
        );
    }

    #[test]
    fn huge_folios_need_a_whole_cluster() {
        let mut s = one_area(1024 + 100);
        offset(&mut s, 0);
        assert_eq!(
            s.allocate_huge(512),
            Some(SwapSlot {
                area: 0,
                offset: 512
            })
        );
        assert_eq!(
            s.allocate_huge(512),
            None,
            "the tail of the area is no whole cluster"
        );
        assert_eq!(s.free(), 611);
        (512..1024).for_each(|offset| s.release(0, SwapSlot { area: 0, offset }));
        assert_eq!(
            s.allocate_huge(512),
            Some(SwapSlot {
                area: 0,
                offset: 512
            })
        );
    }

    #[test]
    fn caches_take_batches_and_buffer_frees() {
        let mut s = SwapSlots::new(CLUSTER, Some(SlotCacheConfig::new(1))).unwrap();
        s.add_area(1024, 0).unwrap();
        let first: Vec<_> = (0..64).map(|_| s.allocate(0).unwrap().slot).collect();
        assert_eq!(first[63].offset, 63);
        assert_eq!(s.free(), 1024 - 64);
        for &slot in &first[..63] {
            s.release(0, slot);
        }
        assert_eq!(s.free(), 1024 - 64, "buffered");
        s.release(0, first[63]);
        assert_eq!(s.free(), 1024);
    }

    #[test]
    fn caches_go_off_when_slots_get_scarce_and_lose_none() {
        let mut s = SwapSlots::new(CLUSTER, Some(SlotCacheConfig::new(2))).unwrap();
        s.add_area(1000, 0).unwrap();
        let mut taken = BTreeSet::new();
        for i in 0..1000 {
            assert!(taken.insert(s.allocate(i % 2).unwrap().slot), "given twice");
        }
        assert_eq!((s.allocate(0), s.free()), (None, 0));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn double_free_is_a_broken_invariant() {
        one_area(10).release(0, SwapSlot { area: 0, offset: 3 });
    }

    #[test]
    fn dense_slots_are_at_most_half_free_below_the_last_that_was_used() {
        const LIVE: usize = 3000;
        for dense in [true, false] {
            let mut s = one_area(100_000);
            if dense {
                s = s.dense();
            }
            let (mut live, mut last, mut x) = (Vec::new(), 0, 1u64);
            for step in 0..200_000 {
                if live.len() == LIVE {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Now and then all of it goes.
                    let gone = if step % 50_000 < LIVE { LIVE } else { 1 };
                    for _ in 0..gone {
                        let at = (x >> 33) as usize % live.len();
                        s.release(0, live.swap_remove(at));
                    }
                }
                let slot = s.allocate(0).unwrap().slot;
                last = last.max(slot.offset);
                live.push(slot);
            }
            let most = 2 * LIVE as u32 + CLUSTER;
            assert_eq!(last < most, dense, "{last}");
        }
    }

    #[test]
    fn bad_areas() {
        assert_eq!(one_area(1).add_area(0, 0), Err(SwapError::Empty));
        assert_eq!(
            SwapSlots::new(300, None).unwrap_err(),
            SwapError::Cluster(300)
        );
    }

    proptest! {
        #[test]
        fn no_slot_is_given_twice(
            ops in prop::collection::vec((0u8..8, 0usize..3, any::<u16>()), 1..1500),
            caches in any::<bool>(), dense in any::<bool>(), sizes in prop::collection::vec(1u32..300, 1..4),
        ) {
            let caches = caches.then_some(SlotCacheConfig { batch: 8, cpus: 3 });
            let mut s = SwapSlots::new(64, caches).unwrap();
            for (i, &n) in sizes.iter().enumerate() {
                s.add_area(n, i as i32 / 2).unwrap();
            }
            if dense {
                s = s.dense();
            }
            let mut taken: Vec<SwapSlot> = Vec::new();
            for (op, cpu, pick) in ops {
                match op {
                    0..=4 => match s.allocate(cpu) {
                        Some(a) => { prop_assert!(!taken.contains(&a.slot)); taken.push(a.slot); }
                        None => prop_assert_eq!(taken.len() as u64, s.total()),
                    },
                    5 => if let Some(first) = s.allocate_huge(64) {
                        for i in 0..64 {
                            let slot = SwapSlot { offset: first.offset + i, ..first };
                            prop_assert!(!taken.contains(&slot));
                            taken.push(slot);
                        }
                    },
                    _ => if !taken.is_empty() {
                        let at = usize::from(pick) % taken.len();
                        s.release(cpu, taken.swap_remove(at));
                    },
                }
                prop_assert!(taken.iter().all(|&t| s.is_used(t)));
            }
            s.drain_caches();
            prop_assert_eq!(s.free(), s.total() - taken.len() as u64);
        }
    }
}
