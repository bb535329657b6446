//! Which zone pages come from (`docs/rules/zones.md#several-zones`).
//!
//! A folio knows its zone. What has been taken and is no folio's is counted by zone only: pages that a task has just been
//! given, and what the kernel and compressed contents hold.

use crate::world::World;
use coldset_engine::zone::{Mark, ReserveRights, Zone, ZoneClass};
use coldset_engine::{NodeId, Pages};

/// Most zones of a node.
const ZONES: usize = 4;

/// Pages that have been taken from the zones of a node and are no folio's.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Loose {
    /// Of each zone. Less than none where a large folio is said to be in a zone that another folio's page came from.
    pages: [i64; ZONES],
    /// Zone of the last one.
    last: u8,
}

impl Loose {
    /// Zone of `n` of them: that of the last if it has so many, else the highest that has.
    fn zone_of(&self, n: Pages) -> u8 {
        let has = |zone: &u8| self.pages[usize::from(*zone)] >= n as i64;
        let highest = || (0..ZONES as u8).rev().find(has);
        let zone = Some(self.last).filter(has).or_else(highest);
        zone.unwrap_or(self.last)
    }

    fn take(&mut self, zone: u8, n: Pages) {
        self.pages[usize::from(zone)] += n as i64;
        self.last = zone;
    }

    fn give(&mut self, n: Pages) -> u8 {
        let zone = self.zone_of(n);
        self.pages[usize::from(zone)] -= n as i64;
        zone
    }

    /// By zone.
    pub(crate) fn pages(&self) -> [i64; ZONES] {
        self.pages
    }
}

impl World {
    /// Takes a block of `n` pages from the node's zones without any wait, from the highest that stays above its low mark.
    /// Without zones memory is unlimited.
    #[inline]
    pub(super) fn take_pages_fast(&mut self, node: NodeId, n: Pages) -> bool {
        if self.engine.zones.is_empty() {
            return true;
        }
        let order = n.ilog2();
        self.take_where(node, n, |z| {
            z.ok(
                order,
                Mark::Low,
                ReserveRights::default(),
                ZoneClass::Movable,
            ) && z.take(order)
        })
    }

    /// Takes a page, reserves included.
    pub(super) fn take_reserved(&mut self, node: NodeId) -> bool {
        self.take_where(node, 1, |z| z.take(0))
    }

    fn take_where(
        &mut self,
        node: NodeId,
        n: Pages,
        mut take: impl FnMut(&mut Zone) -> bool,
    ) -> bool {
        let zones = self.engine.zones.of_mut(node).iter_mut().enumerate();
        match zones.rev().find_map(|(i, z)| take(z).then_some(i)) {
            Some(zone) => {
                self.took(node, zone as u8, n);
                true
            }
            None => false,
        }
    }

    /// `n` pages of this zone are no folio's yet.
    #[inline]
    pub(super) fn took(&mut self, node: NodeId, zone: u8, n: Pages) {
        if let Some(loose) = self.loose.get_mut(node.idx()) {
            loose.take(zone, n);
        }
    }

    /// Zone of a new folio of `n` pages.
    #[inline]
    pub(crate) fn zone_of_new(&mut self, node: NodeId, n: Pages) -> u8 {
        self.loose.get_mut(node.idx()).map_or(0, |l| l.give(n))
    }

    /// Gives back `n` pages that are no folio's.
    pub(crate) fn give_loose(&mut self, node: NodeId, n: Pages) {
        if self.loose.is_empty() {
            return self.engine.zones.give(node, 0, n);
        }
        for _ in 0..n {
            let zone = self.zone_of_new(node, 1);
            self.engine.zones.give(node, zone, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Ctx, InlineClock, MachineConfig, MachineRun, MappingFlags, Marks, SwapConfig, ZoneSpec,
    };
    use coldset_engine::presets::preset;
    use coldset_engine::MemcgId;

    #[test]
    fn a_folio_is_where_the_last_page_was_taken() {
        let mut loose = Loose::default();
        loose.take(1, 1);
        loose.take(0, 1);
        assert_eq!((loose.give(1), loose.give(1)), (0, 1));
        loose.take(2, 4);
        loose.take(1, 1);
        assert_eq!(loose.give(4), 2, "the last zone has too few");
        assert_eq!(loose.pages(), [0, 1, 0, 0]);
        assert_eq!((loose.give(8), loose.pages()), (1, [0, -7, 0, 0]));
    }

    fn zone(pages: u64, reserve: u64) -> ZoneSpec {
        let (min, low, high) = (20, 30, 40);
        ZoneSpec {
            pages,
            marks: Marks { min, low, high },
            reserve,
        }
    }

    /// Free pages of both zones, after so many pages of a mapping have been used.
    fn free_after(pages: u32, variant: &str) -> [u64; 2] {
        let mut cfg = MachineConfig::new(preset(variant).unwrap());
        cfg.ram = Some(1000);
        cfg.zones = vec![zone(400, 100), zone(600, 0)];
        cfg.swap = SwapConfig::Disk {
            pages: 4096,
            device: crate::device::DeviceKind::Ramdisk,
        };
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let mm = m.create_mm(MemcgId::ROOT);
        let region = m.mmap(mm, m.create_anon(pages), 0, pages, MappingFlags::empty());
        let ctx = Ctx::inline(mm, MemcgId::ROOT, InlineClock::Running);
        for e in 0..pages {
            run.run_inline(&ctx, m.access(&ctx, region, e, true))
                .unwrap();
            m.world().check();
        }
        let world = m.world();
        let free: Vec<u64> = world.engine.zones.all().iter().map(|z| z.free).collect();
        free.try_into().unwrap()
    }

    #[test]
    fn the_highest_zone_comes_first_and_lower_ones_keep_a_reserve() {
        assert_eq!(free_after(500, "v618"), [400, 100]);
        assert_eq!(free_after(700, "v618"), [270, 30]);
        // The low mark and what is held back.
        assert_eq!(free_after(840, "v618"), [130, 30]);
        for variant in ["v618", "v72", "classic"] {
            let [low, high] = free_after(2000, variant);
            assert!(low > 100 && high >= 20, "{variant}: {low} {high}");
        }
    }
}
