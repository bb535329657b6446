//! Which zone pages come from (`docs/rules/zones.md#several-zones`).
//!
//! A folio knows its zone. What has been taken and is no folio's is counted by zone only: pages that a task has just been
//! given. What the kernel and compressed contents hold is counted where it is used. Zones are named by their position among
//! those of all nodes.

use super::wanted::Wanted;
use crate::ctx::Reach;
use crate::world::World;
use coldset_engine::zone::{Mark, ReserveRights, Zone, ZoneClass, ZoneList, Zones};
use coldset_engine::{NodeId, Pages};

/// The order in which a task of each node tries the zones: its own, the highest first, then those of the next nodes.
#[derive(Debug)]
pub(crate) struct ZoneOrders {
    orders: Vec<u8>,
    zones: usize,
    per_node: usize,
}

impl ZoneOrders {
    /// Of these.
    pub(crate) fn new(zones: &Zones, nodes: u32) -> Self {
        let per_node = zones.of(NodeId(0)).len();
        let of_node = |n: u32| (0..per_node).rev().map(move |i| n as usize * per_node + i);
        let from = |first: u32| (0..nodes).flat_map(move |n| of_node((first + n) % nodes));
        Self {
            orders: (0..nodes).flat_map(from).map(|at| at as u8).collect(),
            zones: nodes as usize * per_node,
            per_node,
        }
    }

    /// Those within reach.
    #[inline]
    pub(crate) fn of(&self, reach: Reach) -> &[u8] {
        let at = reach.node.idx() * self.zones;
        let n = if reach.bound {
            self.per_node
        } else {
            self.zones
        };
        &self.orders[at..at + n]
    }
}

/// Pages that have been taken from the zones and are not in use yet.
#[derive(Clone, Debug)]
pub(crate) struct Loose {
    /// Of each zone. Less than none where a large folio is said to be in a zone that another folio's page came from.
    pages: Vec<i64>,
    /// Zone of the last one.
    last: u8,
}

impl Loose {
    /// None yet, of so many zones.
    pub(crate) fn new(zones: usize) -> Self {
        let pages = vec![0; zones];
        Self { pages, last: 0 }
    }

    /// Zone of `n` of them within reach: that of the last if it has so many, else the best that has.
    fn zone_of(&self, within: &[u8], n: Pages) -> u8 {
        let has = |zone: &u8| self.pages[usize::from(*zone)] >= n as i64;
        let last = Some(self.last).filter(|last| within.contains(last));
        let best = || within.iter().copied().find(has);
        let zone = last.filter(has).or_else(best).or(last);
        zone.unwrap_or(within[0])
    }

    fn take(&mut self, zone: usize, n: Pages) {
        self.pages[zone] += n as i64;
        self.last = zone as u8;
    }

    fn give(&mut self, within: &[u8], n: Pages) -> usize {
        let zone = usize::from(self.zone_of(within, n));
        self.pages[zone] -= n as i64;
        zone
    }

    /// By zone.
    pub(crate) fn pages(&self) -> &[i64] {
        &self.pages
    }
}

impl World {
    /// Takes a block of pages without any wait, from the first zone within reach that stays above its low mark, and whose node
    /// has room for pages to write if it is for one. Without zones memory is unlimited.
    #[inline]
    pub(super) fn take_wanted(&mut self, reach: Reach, wanted: Wanted) -> bool {
        if self.engine.zones.is_empty() {
            return true;
        }
        let full = match wanted.to_write {
            true => self.nodes_full_of_writes(),
            false => 0,
        };
        let order = wanted.pages.ilog2();
        let zone = self.take_where(reach, |z| {
            full >> z.node.0 & 1 == 0
                && z.ok(
                    order,
                    Mark::Low,
                    ReserveRights::default(),
                    ZoneClass::Movable,
                )
                && z.take(order)
        });
        if let Some(zone) = zone {
            self.took(zone, wanted.pages);
        }
        zone.is_some()
    }

    /// Nodes, one bit each, that have more to write than their part of the dirty limit
    /// (`docs/rules/zones.md#pages-that-will-be-written`).
    #[inline(never)]
    fn nodes_full_of_writes(&self) -> u64 {
        let threshold = self.wb.params().dirty;
        let dirtyable = |node| self.engine.node_dirtyable(node);
        let nodes = || (0..self.engine.config().nr_nodes).map(NodeId);
        let machine = nodes().map(dirtyable).sum();
        nodes()
            .filter(|&node| {
                let most = threshold.node_pages(dirtyable(node), machine);
                self.engine.node_write_pending(node) > most
            })
            .fold(0, |full, node| full | 1 << node.0)
    }

    /// Takes a page for who frees memory: like any other request's if a zone stays above its low or at least its min mark,
    /// else from the first zone that has one, reserves included. It is in use. Says where it is from.
    pub(super) fn take_reserved(&mut self, node: NodeId) -> Option<usize> {
        let anywhere = Reach { node, bound: false };
        let mut above = |mark| {
            let rights = ReserveRights::default();
            self.take_where(anywhere, |z| {
                z.ok(0, mark, rights, ZoneClass::Movable) && z.take(0)
            })
        };
        let found = above(Mark::Low).or_else(|| above(Mark::Min));
        found.or_else(|| self.take_where(anywhere, |z| z.take(0)))
    }

    #[inline]
    fn take_where(&mut self, reach: Reach, take: impl FnMut(&mut Zone) -> bool) -> Option<usize> {
        let order = self.zone_orders.of(reach);
        ZoneList::new(self.engine.zones.all_mut(), order).find(take)
    }

    /// `n` pages of this zone are not in use yet.
    #[inline]
    pub(super) fn took(&mut self, zone: usize, n: Pages) {
        if let Some(loose) = &mut self.loose {
            loose.take(zone, n);
        }
    }

    /// `n` pages that a task has taken are in use from now on: says of which zone they are.
    #[inline]
    pub(crate) fn used_from(&mut self, reach: Reach, n: Pages) -> usize {
        match &mut self.loose {
            Some(loose) => loose.give(self.zone_orders.of(reach), n),
            // One zone, or none.
            None => 0,
        }
    }

    /// The same of a new folio: node, and zone of it.
    #[inline]
    pub(crate) fn place_of_new(&mut self, reach: Reach, n: Pages) -> (NodeId, u8) {
        match self.loose {
            Some(_) => {
                let zone = self.used_from(reach, n);
                self.engine.zones.place(zone)
            }
            None => (reach.node, 0),
        }
    }

    /// Gives back `n` pages that are not in use.
    pub(crate) fn give_loose(&mut self, reach: Reach, n: Pages) {
        if self.loose.is_none() {
            return self.engine.zones.give_at(0, n);
        }
        for _ in 0..n {
            let zone = self.used_from(reach, 1);
            self.engine.zones.give_at(zone, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Ctx, InlineClock, MachineConfig, MachineRun, MappingFlags, Marks, OpenFile, SwapConfig,
        ZoneSpec,
    };
    use coldset_engine::presets::preset;
    use coldset_engine::writeback::Threshold;
    use coldset_engine::{Counter, MemcgId};

    #[test]
    fn a_folio_is_where_the_last_page_was_taken() {
        let all = [3, 2, 1, 0];
        let mut loose = Loose::new(4);
        loose.take(1, 1);
        loose.take(0, 1);
        assert_eq!((loose.give(&all, 1), loose.give(&all, 1)), (0, 1));
        loose.take(2, 4);
        loose.take(1, 1);
        assert_eq!(loose.give(&all, 4), 2, "the last zone has too few");
        assert_eq!(loose.pages(), [0, 1, 0, 0]);
        assert_eq!(loose.give(&all, 8), 1);
        assert_eq!(loose.pages(), [0, -7, 0, 0]);
        loose.take(0, 1);
        loose.take(3, 1);
        assert_eq!(loose.give(&[1, 0], 1), 0, "the last is out of reach");
    }

    fn zone(node: u32, pages: u64, reserve: u64) -> ZoneSpec {
        let (min, low, high) = (20, 30, 40);
        ZoneSpec {
            node,
            pages,
            marks: Marks { min, low, high },
            reserve,
            batch: None,
        }
    }

    /// A machine of these zones.
    fn machine_of(variant: &str, zones: &[ZoneSpec]) -> MachineConfig {
        let mut cfg = MachineConfig::new(preset(variant).unwrap());
        cfg.ram = Some(zones.iter().map(|z| z.pages).sum());
        cfg.engine.nr_nodes = zones[zones.len() - 1].node + 1;
        cfg.zones = zones.to_vec();
        cfg
    }

    /// One with one zone, whose CPUs' lists have this batch.
    fn batches_of(batch: Option<u64>) -> MachineConfig {
        let only = ZoneSpec {
            batch,
            ..zone(0, 1000, 0)
        };
        MachineConfig {
            cpu_lists: true,
            ..machine_of("v618", &[only])
        }
    }

    /// Free pages of each zone.
    fn free(w: &World) -> Vec<u64> {
        w.engine.zones.all().iter().map(|z| z.free).collect()
    }

    /// Free pages of both zones of a machine, after a task that is bound to a node, if one is named, has used so many pages of
    /// a mapping.
    fn free_after(zones: [ZoneSpec; 2], bound: Option<u32>, pages: u32, variant: &str) -> [u64; 2] {
        let mut cfg = machine_of(variant, &zones);
        cfg.swap = SwapConfig::Disk {
            pages: 4096,
            device: crate::device::DeviceKind::Ramdisk,
        };
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let mm = m.create_mm(MemcgId::ROOT);
        let region = m.mmap(mm, m.create_anon(pages), 0, pages, MappingFlags::empty());
        let mut ctx = Ctx::inline(mm, MemcgId::ROOT, InlineClock::Running);
        bound.into_iter().for_each(|node| ctx.bind(NodeId(node)));
        for e in 0..pages {
            run.run_inline(&ctx, m.access(&ctx, region, e, true))
                .unwrap();
            m.world().check();
        }
        let world = m.world();
        free(&world).try_into().unwrap()
    }

    #[test]
    fn the_highest_zone_comes_first_and_lower_ones_keep_a_reserve() {
        let zones = [zone(0, 400, 100), zone(0, 600, 0)];
        assert_eq!(free_after(zones, None, 500, "v618"), [400, 100]);
        assert_eq!(free_after(zones, None, 700, "v618"), [270, 30]);
        // The low mark and what is held back.
        assert_eq!(free_after(zones, None, 840, "v618"), [130, 30]);
        for variant in ["v618", "v72", "classic"] {
            let [low, high] = free_after(zones, None, 2000, variant);
            assert!(low > 100 && high >= 20, "{variant}: {low} {high}");
        }
    }

    #[test]
    fn a_batch_of_none_or_of_too_many_is_refused() {
        let refused = |batch| {
            let run = MachineRun::new(&batches_of(Some(batch)));
            run.err().map(|e| e.to_string())
        };
        assert_eq!(refused(31), None);
        for batch in [0, u64::MAX] {
            let text = refused(batch).unwrap();
            assert!(
                text.contains("batch") && text.contains("1,048,576"),
                "{text}"
            );
        }
    }

    #[test]
    fn each_zone_has_batches_of_its_own() {
        let left = |batch| {
            let mut run = MachineRun::new(&batches_of(batch)).unwrap();
            let m = run.machine.clone();
            let mm = m.create_mm(MemcgId::ROOT);
            let region = m.mmap(mm, m.create_anon(1), 0, 1, MappingFlags::empty());
            let ctx = Ctx::inline(mm, MemcgId::ROOT, InlineClock::Running);
            run.run_inline(&ctx, m.access(&ctx, region, 0, true))
                .unwrap();
            let world = m.world();
            free(&world)[0]
        };
        assert_eq!([left(Some(31)), left(Some(3)), left(None)], [969, 997, 937]);
    }

    #[test]
    fn too_many_zones_are_refused() {
        let of_node = |node| std::iter::repeat_n(zone(node, 100, 0), 4);
        let zones: Vec<ZoneSpec> = (0..64).flat_map(of_node).collect();
        let run = MachineRun::new(&machine_of("v618", &zones));
        let refused = run.err().unwrap().to_string();
        assert!(
            refused.contains("256") && refused.contains("255"),
            "{refused}"
        );
    }

    /// Free pages of two nodes of which little may be dirty, after a file has been read and another written, and what kswapd
    /// has freed.
    fn after_writing(read: u32, written: u32, whole: bool) -> ([u64; 2], i64) {
        let mut cfg = machine_of("v618", &[zone(0, 1000, 0), zone(1, 1000, 0)]);
        cfg.dirty.dirty = Threshold::Percent(10);
        cfg.dirty_balance = false;
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let (old, new) = (m.create_file(0, read), m.create_file(0, written));
        let ctx = Ctx::inline(
            m.create_mm(MemcgId::ROOT),
            MemcgId::ROOT,
            InlineClock::Running,
        );
        run.run_inline(&ctx, m.read(&ctx, &OpenFile::new(old), 0, read))
            .unwrap();
        for page in 0..written {
            run.run_inline(&ctx, m.write(&ctx, new, page, 1, whole))
                .unwrap();
        }
        let world = m.world();
        let stolen = world
            .engine
            .memcgs
            .live(MemcgId::ROOT, Counter::PgstealKswapd);
        (free(&world).try_into().unwrap(), stolen)
    }

    /// Measured on 6.18 and 7.2 (`docs/rules/zones.md#pages-that-will-be-written`).
    #[test]
    fn pages_to_write_go_where_less_is_dirty() {
        // A tenth of the 1000 - 40 dirtyable pages of a node may be dirty.
        assert_eq!(after_writing(0, 50, true).0, [950, 1000]);
        assert_eq!(after_writing(0, 100, true).0, [904, 996]);
        // While old contents are read, pages may be written back, and leave room for others.
        let [first, next] = after_writing(0, 100, false).0;
        assert!((900..=904).contains(&first), "{first}");
        assert_eq!(first + next, 1900);
        let read = after_writing(180, 0, true).0;
        assert_eq!(read, [820, 1000], "pages to read do not");
    }

    #[test]
    fn without_room_to_write_the_first_node_is_reclaimed_while_there_is_memory() {
        // At the low mark of the first node, the next takes what is written until it has its share.
        assert_eq!(after_writing(950, 90, true), ([30, 930], 0));
        let (free, stolen) = after_writing(950, 300, true);
        assert!(
            stolen > 0 && free[0] > 20 && free[1] > 700,
            "{free:?} {stolen}"
        );
    }

    /// Measured on 6.18 and 7.2 (`docs/rules/swap.md#zram`).
    #[test]
    fn who_frees_memory_takes_reserves_last() {
        let zones = [zone(0, 60, 10), zone(0, 50, 0)];
        let run = MachineRun::new(&machine_of("v618", &zones)).unwrap();
        let m = run.machine.clone();
        let mut w = m.world_mut();
        let mut after = |n| {
            for _ in 0..n {
                w.take_reserved(NodeId(0)).unwrap();
            }
            free(&w)
        };
        // To their low marks, the higher zone first; what the lower holds back comes on top.
        assert_eq!((after(20), after(20)), (vec![60, 30], vec![40, 30]));
        // To their min marks.
        assert_eq!((after(10), after(10)), (vec![40, 20], vec![30, 20]));
        // And all there is.
        assert_eq!((after(20), after(30)), (vec![30, 0], vec![0, 0]));
        assert_eq!(w.take_reserved(NodeId(0)), None);
    }

    /// Measured on 6.12, 6.18 and 7.2 (`docs/rules/swap.md#zram`).
    #[test]
    fn compressed_contents_are_on_the_node_of_their_page() {
        for (variant, near) in [
            ("v612", false),
            ("v618", true),
            ("v72", true),
            ("classic", true),
        ] {
            let mut cfg = machine_of(variant, &[zone(0, 1000, 0), zone(1, 1000, 0)]);
            cfg.swap = SwapConfig::Zram {
                pages: 4096,
                algorithm: "lzo-rle".into(),
            };
            let mut run = MachineRun::new(&cfg).unwrap();
            let m = run.machine.clone();
            let memcg = m.limited_memcg(200);
            let mm = m.create_mm(memcg);
            let region = m.mmap(mm, m.create_anon(600), 0, 600, MappingFlags::empty());
            // The CPU is on node 0.
            let mut ctx = Ctx::inline(mm, memcg, InlineClock::Running);
            ctx.bind(NodeId(1));
            for page in 0..600 {
                run.run_inline(&ctx, m.access(&ctx, region, page, true))
                    .unwrap();
            }
            let free = free(&m.world());
            assert_eq!(free[0] == 1000, near, "{variant}: {free:?}");
            assert!(!near || free[1] < 800, "{variant}: {free:?}");
        }
    }

    #[test]
    fn a_request_goes_on_to_the_next_node() {
        let nodes = [zone(0, 400, 0), zone(1, 600, 0)];
        assert_eq!(free_after(nodes, None, 300, "v618"), [100, 600]);
        assert_eq!(free_after(nodes, None, 700, "v618"), [30, 270]);
        // Nothing is reclaimed before both are at their low marks.
        assert_eq!(free_after(nodes, None, 940, "v618"), [30, 30]);
        for variant in ["v618", "v72", "classic"] {
            let [_, next] = free_after(nodes, None, 1000, variant);
            assert!(
                next > 30,
                "{variant}: {next}, kswapd of the next node has not run"
            );
            let free = free_after(nodes, None, 2000, variant);
            assert!(
                free.iter().all(|n| (20..140).contains(n)),
                "{variant}: {free:?}"
            );
            let [bound_to, other] = free_after(nodes, Some(0), 2000, variant);
            assert!((20..140).contains(&bound_to), "{variant}: {bound_to}");
            assert_eq!(other, 600, "{variant}");
            let [other, bound_to] = free_after(nodes, Some(1), 2000, variant);
            assert!((20..140).contains(&bound_to), "{variant}: {bound_to}");
            assert_eq!(other, 400, "{variant}");
        }
    }
}
