//! Self-check: every invariant that ties folios, lists, batches and statistics together.
//!
//! Hosts call it in tests, and sampled in long runs. It may be called between any two steps or
//! verbs; folios that a task holds isolated at that moment are allowed for.

use crate::batch::BatchOp;
use crate::config::MAX_ZONES;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::{Flags, Folio, List};
use crate::ids::{FolioId, LruType, LruvecId, MemcgId, NodeId};
use crate::lruvec::{LruList, LruvecLists};
use crate::mglru::{MAX_NR_GENS, MIN_NR_GENS};
use crate::policies::ListPolicy;

/// Where a folio was found while lists were walked: lruvec, and slot or list number.
type Place = (LruvecId, usize);

/// Number of a list of a list policy.
fn list_place(t: LruType, list: usize) -> usize {
    list * 2 + t.idx()
}

/// Sums over folios of one lruvec, in pages.
#[derive(Clone, Default)]
struct Sums {
    sizes: [[i64; 5]; MAX_ZONES],
    gens: [[[i64; MAX_ZONES]; 2]; MAX_NR_GENS],
    anon: i64,
    file: i64,
    dirty: i64,
    writeback: i64,
    swapcache: i64,
}

impl Engine {
    /// Checks all invariants. Time: linear in folios and lruvecs.
    ///
    /// # Panics
    /// If one is broken; the text names it and the folio, lruvec or memcg concerned.
    pub fn check(&self) {
        let places = self.check_lists();
        let queued = self.check_batches();
        let mut sums = vec![Sums::default(); self.lruvecs.len()];
        for (id, f) in self.folios.iter() {
            self.check_folio(id, f, &places, queued[id.idx()]);
            self.add_to_sums(f, &mut sums[f.lruvec().idx()]);
        }
        self.check_sizes(&sums);
        self.check_memcgs(&sums);
        self.check_heat();
    }

    /// Heat as posted is within its bounds; each wheel holds what is below its root, each memcg once.
    fn check_heat(&self) {
        let max = self.heat_config().levels.max();
        for node in &self.nodes {
            for (i, h) in node.heat.posted.iter().enumerate() {
                assert!(h.heat() <= max, "heat {} of memcg {i}", h.heat());
            }
            for (&root, wheel) in &node.heat.wheels {
                wheel.check();
                let mut below = self.memcgs.preorder(root).skip(1);
                let missing = below.find(|&m| !wheel.contains(m));
                assert_eq!(missing, None, "memcg on no list of the wheel of {root:?}");
                let all = self.memcgs.preorder(root).count() - 1;
                assert_eq!(wheel.len(), all, "members of the wheel of {root:?}");
            }
        }
    }

    /// Walks every list once: no folio twice, lengths and ends right.
    fn check_lists(&self) -> Vec<Option<Place>> {
        let mut places = vec![None; self.folios.records()];
        for (i, lv) in self.lruvecs.iter().enumerate() {
            let id = LruvecId(i as u32);
            match &lv.lists {
                LruvecLists::Classic(c) => {
                    for (n, list) in c.lists.iter().enumerate() {
                        self.check_list(list, (id, n), &mut places);
                    }
                }
                LruvecLists::List(state) => {
                    for t in LruType::ALL {
                        self.check_list_policy(state.lists.of(t), (id, t), &mut places);
                    }
                }
                LruvecLists::MultiGen(m) => {
                    for (slot, by_type) in m.lists.iter().enumerate() {
                        for list in by_type.iter().flatten() {
                            self.check_list(list, (id, slot), &mut places);
                        }
                    }
                }
            }
        }
        places
    }

    /// Lists and ghosts of one type.
    fn check_list_policy(
        &self,
        lists: &dyn ListPolicy,
        (lruvec, t): (LruvecId, LruType),
        places: &mut [Option<Place>],
    ) {
        for (n, queue) in lists.queues().iter().enumerate() {
            let at = (lruvec, list_place(t, n));
            self.check_list(queue.list(), at, places);
            let folios = queue.list().iter(&self.folios);
            let pages: u64 = folios.map(|id| self.folios[id].nr_pages()).sum();
            assert_eq!(queue.pages(), pages, "pages on list {at:?}");
        }
        for ghosts in lists.ghosts() {
            ghosts.check();
        }
        lists.check(&self.folios);
    }

    fn check_list(&self, list: &List, at: Place, places: &mut [Option<Place>]) {
        let (mut n, mut last) = (0, None);
        for id in list.iter(&self.folios) {
            let f = &self.folios[id];
            assert!(
                !f.has(Flags::DEAD),
                "list {at:?} holds {id:?}, which was freed"
            );
            let was = places[id.idx()].replace(at);
            assert!(
                was.is_none(),
                "{id:?} is on list {at:?} and on list {was:?}: {f:?}"
            );
            last = Some(id);
            n += 1;
        }
        assert_eq!(list.len(), n, "length of list {at:?}");
        assert_eq!(list.tail(), last, "tail of list {at:?}");
    }

    /// References that batches hold, by folio.
    fn check_batches(&self) -> Vec<u32> {
        let mut queued = vec![0; self.folios.records()];
        for id in self.batches.entries() {
            let f = &self.folios[id];
            assert!(!f.has(Flags::DEAD), "a batch holds {id:?}, which was freed");
            queued[id.idx()] += 1;
        }
        for cpu in 0..self.config().nr_cpus as u16 {
            for &id in self.batch(cpu, BatchOp::Add) {
                let f = &self.folios[id];
                assert!(
                    !f.has(Flags::LRU),
                    "{id:?} waits for a list and is on one: {f:?}"
                );
            }
        }
        queued
    }

    fn check_folio(&self, id: FolioId, f: &Folio, places: &[Option<Place>], queued: u32) {
        let place = places[id.idx()];
        let gen = f.word().gen();
        let listed = f.has(Flags::LRU) && !f.has(Flags::UNEVICTABLE);
        if !listed {
            assert!(
                place.is_none(),
                "{id:?} is on list {place:?} but not marked so: {f:?}"
            );
            assert!(
                gen.is_none(),
                "{id:?} is in a generation but on no list: {f:?}"
            );
        } else {
            let (lruvec, n) = place.unwrap_or_else(|| panic!("{id:?} is on no list: {f:?}"));
            assert_eq!(
                lruvec,
                f.lruvec(),
                "{id:?} is on a list of another lruvec: {f:?}"
            );
            match &self.lruvecs[lruvec].lists {
                LruvecLists::Classic(_) => {
                    let want = crate::classic::uses::list_of(f).idx();
                    assert_eq!(n, want, "list of {id:?} against its flags: {f:?}");
                }
                LruvecLists::List(_) => {
                    assert_eq!(
                        n,
                        list_place(f.lru_type(), f.home().into()),
                        "list of {id:?}: {f:?}"
                    );
                }
                LruvecLists::MultiGen(_) => {
                    assert!(
                        gen.is_some(),
                        "{id:?} is on a list without a generation: {f:?}"
                    );
                    assert_eq!(n, f.home() as usize, "home slot of {id:?}: {f:?}");
                    assert!(
                        !f.has(Flags::ACTIVE),
                        "{id:?} is active in a generation: {f:?}"
                    );
                }
            }
        }
        // Frozen: the batch of a reclaimer frees it next.
        if f.refcount() == 0 {
            assert!(
                !f.has(Flags::LRU),
                "{id:?} is on a list without references: {f:?}"
            );
            return;
        }
        let n = f.nr_pages() as u32;
        let owned = f.has(Flags::OWNED) && !f.has(Flags::ANON);
        let held = f.mapcount()
            + queued
            + u32::from(f.has(Flags::WRITEBACK))
            + if owned { n } else { 0 }
            + if f.has(Flags::SWAPCACHE) { n } else { 0 };
        assert!(
            f.refcount() >= held,
            "{id:?} has fewer references than holders ({held}): {f:?}"
        );
        let slot = f.swap_slot().is_some();
        assert_eq!(f.has(Flags::SWAPCACHE), slot, "swap slot of {id:?}: {f:?}");
    }

    fn add_to_sums(&self, f: &Folio, s: &mut Sums) {
        let n = f.nr_pages() as i64;
        let zone = f.zone() as usize;
        if f.has(Flags::LRU | Flags::UNEVICTABLE) {
            s.sizes[zone][LruList::Unevictable.idx()] += n;
        } else if f.has(Flags::LRU) {
            let t = f.lru_type();
            let active = match (&self.lruvecs[f.lruvec()].lists, f.word().gen()) {
                (LruvecLists::MultiGen(m), Some(slot)) => {
                    s.gens[slot][t.idx()][zone] += n;
                    m.is_active(slot)
                }
                (LruvecLists::Classic(_), _) => f.has(Flags::ACTIVE),
                _ => false,
            };
            s.sizes[zone][LruList::of(t, active).idx()] += n;
        }
        if f.has(Flags::ANON) {
            s.anon += n;
        } else {
            s.file += n;
            if f.has(Flags::DIRTY) && f.counts_as_dirty_file() {
                s.dirty += n;
            }
        }
        if f.has(Flags::WRITEBACK) {
            s.writeback += n;
        }
        if f.has(Flags::SWAPCACHE) {
            s.swapcache += n;
        }
    }

    /// List sizes of lruvecs and nodes, generation sizes and the distance of sequence numbers.
    fn check_sizes(&self, sums: &[Sums]) {
        let mut nodes = vec![([0i64; 5], 0u64); self.nodes.len()];
        for (i, (lv, s)) in self.lruvecs.iter().zip(sums).enumerate() {
            assert_eq!(
                lv.sizes, s.sizes,
                "list sizes of lruvec {i}, counted against summed"
            );
            let node = &mut nodes[lv.node.idx()];
            for zone in &s.sizes {
                for (sum, n) in node.0.iter_mut().zip(zone) {
                    *sum += n;
                }
            }
            node.1 += (s.dirty + s.writeback) as u64;
            let LruvecLists::MultiGen(m) = &lv.lists else {
                continue;
            };
            assert_eq!(m.nr_pages, s.gens, "generation sizes of lruvec {i}");
            for min in m.min_seq {
                let gens = m.max_seq + 1 - min;
                assert!(
                    (MIN_NR_GENS..=MAX_NR_GENS as u64).contains(&gens),
                    "lruvec {i} has {gens} generations: {} to {}",
                    min,
                    m.max_seq
                );
            }
        }
        for (node, (lru, pending)) in self.nodes.iter().zip(nodes) {
            assert_eq!(node.list_sizes(), lru, "list sizes of node {}", node.id.0);
            assert_eq!(
                node.write_pending(),
                pending,
                "write_pending of node {}",
                node.id.0
            );
        }
    }

    /// Gauges of each memcg, and that what its folios take is charged.
    fn check_memcgs(&self, sums: &[Sums]) {
        let nr_nodes = self.config().nr_nodes as usize;
        let mut charged = vec![0u64; self.memcgs.capacity()];
        for (i, per_node) in sums.chunks(nr_nodes).enumerate() {
            let memcg = MemcgId(i as u32);
            if !self.memcgs.exists(memcg) {
                continue;
            }
            let sum = |get: fn(&Sums) -> i64| per_node.iter().map(get).sum::<i64>();
            let gauges = [
                (Counter::AnonPages, sum(|s| s.anon)),
                (Counter::FilePages, sum(|s| s.file)),
                (Counter::FileDirty, sum(|s| s.dirty)),
                (Counter::Writeback, sum(|s| s.writeback)),
                (Counter::SwapCached, sum(|s| s.swapcache)),
            ];
            for list in LruList::EVICTABLE.into_iter().filter(|_| nr_nodes > 1) {
                let c = list.counter();
                let on = |n| self.memcgs.live_on(memcg, NodeId(n), c);
                let all: i64 = (0..nr_nodes as u32).map(on).sum();
                assert_eq!(all, self.memcgs.live(memcg, c), "{} of memcg {i}", c.name());
            }
            let local = self.memcgs.local(memcg);
            for (c, want) in gauges {
                assert_eq!(local.get(c), want, "{} of memcg {i}", c.name());
            }
            let pages = (gauges[0].1 + gauges[1].1) as u64;
            let mut at = Some(memcg);
            while let Some(id) = at {
                charged[id.idx()] += pages;
                at = self.memcgs[id].parent();
            }
        }
        for (i, &pages) in charged.iter().enumerate().skip(1) {
            let memcg = MemcgId(i as u32);
            if self.memcgs.exists(memcg) {
                let usage = self.memcgs[memcg].memory().usage();
                assert!(
                    usage >= pages,
                    "memcg {i} is charged {usage} pages, its folios have {pages}"
                );
            }
        }
    }
}
