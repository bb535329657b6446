//! Self-check of the machine: slots, page tables, dirty marks, swap slots and contents agree.

use crate::mem::folio::{pages_of, MAX_ORDER};
use crate::mem::mapping::TABLE;
use crate::mem::{Mapping, Object, Pte, Slot};
use crate::world::World;
use coldset_engine::{Flags, NodeId};

impl World {
    /// Asserts the engine's and the machine's invariants. It may be called whenever no task is in
    /// the middle of an action, that is between any two polls. Time: linear in pages.
    ///
    /// # Panics
    /// If one is broken: that is a defect. The text names what does not agree.
    pub fn check(&self) {
        self.engine.check();
        self.wb.check();
        assert!(
            !self.engine.has_newly_dirty(),
            "a dirty folio is in no index"
        );
        let (mut slots_used, mut pending) = (0, 0);
        for (i, o) in self.objects.iter().enumerate() {
            let (mut tagged, mut writeback) = (0, 0);
            for page in 0..o.pages() {
                match o.slot(page) {
                    Slot::Folio(_) => {
                        writeback += u64::from(self.check_resident(i, o, page));
                    }
                    Slot::Swap(slot) => {
                        slots_used += 1;
                        self.check_swapped(i, o, page, slot);
                    }
                    Slot::Empty | Slot::Shadow(_) => {
                        assert!(
                            !o.is_tagged(page),
                            "page {page} of object {i} is dirty and gone"
                        );
                        self.check_away(i, o, page);
                    }
                }
                tagged += u64::from(o.is_tagged(page));
            }
            assert_eq!(o.nr_dirty, tagged, "dirty pages of object {i}");
            if o.is_file() {
                pending += o.nr_dirty + o.nr_writeback;
                assert_eq!(
                    o.nr_writeback, writeback,
                    "pages of object {i} under writeback"
                );
            }
        }
        // A large folio keeps those of pages that have been dropped.
        for (_, f) in self.engine.folios() {
            slots_used += f.swap_slot().map_or(0, |_| f.nr_pages());
        }
        if let Some(s) = &self.swap {
            assert_eq!(
                s.total() - s.free(),
                slots_used,
                "swap slots in use against referred to"
            );
        }
        let of_wbs: u64 = self.wb.wbs().map(|(_, wb)| wb.dirty()).sum();
        assert_eq!(of_wbs, pending, "pages of write contexts");
        self.check_entries();
        self.check_nodes();
    }

    /// What is known to lie on a node has been taken from its zones. (Tasks may hold more.)
    fn check_nodes(&self) {
        if self.engine.zones.is_empty() {
            return;
        }
        let mut known = vec![0; self.engine.config().nr_nodes as usize];
        for (_, f) in self.engine.folios() {
            known[self.engine.lruvec(f.lruvec()).node.idx()] += f.nr_pages();
        }
        for (zone, n) in self.pages_of_the_kernel().enumerate() {
            known[self.engine.zones.place(zone).0.idx()] += n;
        }
        for (node, known) in known.into_iter().enumerate() {
            let of_node = self
                .engine
                .zones
                .all()
                .iter()
                .filter(|z| z.node.idx() == node);
            let taken: u64 = of_node.map(|z| z.managed - z.free - z.pcp).sum();
            assert!(
                known <= taken,
                "{known} pages lie on node {node}, {taken} are taken from it"
            );
        }
        self.check_zones();
    }

    /// What the kernel and compressed contents hold, by zone.
    fn pages_of_the_kernel(&self) -> impl Iterator<Item = u64> + '_ {
        let kernel = |zone: usize| self.kernel.as_ref().map_or(0, |k| k.from[zone]);
        let pool = |zone: usize| self.swap.as_ref().map_or(0, |s| s.pool_from()[zone]);
        (0..self.engine.zones.all().len()).map(move |zone| kernel(zone) + pool(zone))
    }

    /// Where there are several zones, every page of each is free, a folio's, the kernel's, or taken by a task.
    fn check_zones(&self) {
        let Some(loose) = &self.loose else { return };
        let zones = self.engine.zones.all();
        let per_node = self.engine.zones.of(NodeId(0)).len();
        let mut pages = loose.pages().to_vec();
        for (pages, n) in pages.iter_mut().zip(self.pages_of_the_kernel()) {
            *pages += n as i64;
        }
        for (_, f) in self.engine.folios() {
            let node = self.engine.lruvec(f.lruvec()).node;
            let zone = node.idx() * per_node + usize::from(f.zone());
            pages[zone] += f.nr_pages() as i64;
        }
        for (i, (z, pages)) in zones.iter().zip(pages).enumerate() {
            let taken = z.managed - z.free - z.pcp;
            assert_eq!(pages, taken as i64, "pages of zone {i} that are not free");
        }
    }

    /// A page with a folio. True if it is under writeback.
    fn check_resident(&self, i: usize, o: &Object, page: u32) -> bool {
        let id = o.word(page).folio().expect("resident");
        let f = self.engine.folio(id);
        assert!(
            !f.has(Flags::DEAD),
            "slot {page} of object {i} names a freed folio"
        );
        let (owner, index) = f.owner();
        if f.order() > 0 {
            assert!(
                !o.is_tmpfs() && index.is_multiple_of(f.nr_pages() as u32),
                "a large folio of object {i} begins at page {index}: {f:?}"
            );
        }
        assert!(
            owner.idx() == i && pages_of(f).contains(&page),
            "slot {page} of object {i} names a folio of {owner:?}:{index}"
        );
        if o.is_file() {
            assert_eq!(
                o.is_tagged(page),
                f.has(Flags::DIRTY),
                "dirty mark of page {page} of object {i} against {f:?}"
            );
        }
        if let Some(c) = o.contents.as_ref().filter(|_| f.has(Flags::UPTODATE)) {
            let at = page as usize;
            assert!(
                c.memory[at] == c.stored[at],
                "lost store: page {page} of object {i} holds version {} of {}",
                c.memory[at],
                c.stored[at]
            );
            let clean = o.is_file() && !f.any(Flags::DIRTY | Flags::WRITEBACK);
            assert!(
                !clean || c.disk[at] == c.memory[at],
                "page {page} of object {i} is clean with version {}, its file has {}",
                c.memory[at],
                c.disk[at]
            );
        }
        if let Some(first) = f.swap_slot() {
            let slot = first + page - index;
            let used = self.swap.as_ref().is_some_and(|s| s.is_used(slot));
            assert!(
                used,
                "page {page} of object {i} has swap slot {slot}, which is free"
            );
        }
        f.has(Flags::WRITEBACK)
    }

    fn check_swapped(&self, i: usize, o: &Object, page: u32, slot: u32) {
        let swap = self.swap.as_ref().expect("a swapped page without swap");
        assert!(
            swap.is_used(slot),
            "page {page} of object {i} is in swap slot {slot}, which is free"
        );
        if let Some(c) = &o.contents {
            let (stored, held) = (c.stored[page as usize], swap.version(slot));
            assert!(
                stored == held,
                "lost store: page {page} of object {i} is swapped out with version {held} of {stored}"
            );
        }
    }

    fn check_away(&self, i: usize, o: &Object, page: u32) {
        if let Some(c) = &o.contents {
            let (stored, disk) = (c.stored[page as usize], c.disk[page as usize]);
            assert!(
                stored == disk,
                "lost store: page {page} of object {i} is on its device with version {disk} of {stored}"
            );
        }
    }

    /// Huge entries: each maps a huge folio from its first page to its last.
    fn check_huge(&self, i: usize, m: &Mapping) {
        for table in (0..m.len().div_ceil(TABLE)).filter(|t| m.is_huge(t * TABLE)) {
            let first = m.start + table * TABLE;
            let page = self.objects[m.object.idx()].word(first);
            let f = page.folio().map(|id| self.engine.folio(id));
            assert!(
                f.is_none_or(|f| f.order() == MAX_ORDER && f.owner().1 == first),
                "huge entry {table} of mapping {i} maps {f:?}"
            );
            let range = m.table_range(table);
            assert!(
                range.into_iter().all(|e| m.ptes.is_present(e)),
                "huge entry {table} of mapping {i} has holes"
            );
        }
    }

    /// Page-table entries against folios and the counts of address spaces.
    fn check_entries(&self) {
        let mut maps = vec![0u32; self.engine.folio_records()];
        let mut rss = vec![[0u64; 2]; self.mms.len()];
        for (i, m) in self.mappings.iter().enumerate().filter(|(_, m)| m.alive) {
            let mut present = 0;
            self.check_huge(i, m);
            for e in 0..m.ptes.len() {
                if !m.ptes.is_present(e) {
                    continue;
                }
                present += 1;
                let o = &self.objects[m.object.idx()];
                let Some(id) = o.word(m.start + e).folio() else {
                    let zeroes = o.is_anon() && o.mappings.len() == 1;
                    let bits = m.ptes.get(e);
                    assert!(
                        zeroes && !bits.intersects(Pte::WRITABLE | Pte::DIRTY),
                        "entry {e} of mapping {i} maps no folio: {bits:?}"
                    );
                    continue;
                };
                maps[id.idx()] += 1;
                rss[m.mm.idx()][usize::from(o.is_anon())] += 1;
            }
            assert_eq!(m.present, present, "present entries of mapping {i}");
        }
        for (id, f) in self.engine.folios() {
            assert_eq!(f.mapcount(), maps[id.idx()], "map count of {id:?}: {f:?}");
        }
        for (i, (mm, [file, anon])) in self.mms.iter().zip(rss).enumerate() {
            assert_eq!(
                (mm.file, mm.anon),
                (file, anon),
                "resident pages of address space {i}"
            );
        }
    }
}
