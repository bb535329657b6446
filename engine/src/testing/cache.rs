//! A cache of single pages over one lruvec: the smallest host of a list policy, one victim at a time,
//! shadows looked at before room is made.

use crate::config::Config;
use crate::engine::Engine;
use crate::folio::table::NewFolio;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId, MemcgId, NodeId, ObjectId};
use crate::memcg::CounterKind;
use crate::policies::ListKind;
use crate::switches::PolicyKind;
use crate::workingset::refault::RefaultSite;
use crate::workingset::Shadow;
use std::collections::BTreeMap;

/// Pages of one file under one policy.
pub(crate) struct Cache {
    pub(crate) eng: Engine,
    pub(crate) lruvec: LruvecId,
    capacity: usize,
    resident: BTreeMap<u32, FolioId>,
    shadows: BTreeMap<u32, Shadow>,
}

impl Cache {
    pub(crate) fn new(kind: ListKind, capacity: usize) -> Self {
        let cfg = Config {
            batch_size: 1,
            ..Config::default()
        };
        let mut sw = crate::presets::preset("base").unwrap();
        sw.policy = PolicyKind::List(kind);
        let mut eng = Engine::new(cfg, sw).unwrap();
        let memcg = eng.memcg_create(MemcgId::ROOT).unwrap();
        let max = eng
            .memcgs
            .set_max(memcg, CounterKind::Memory, capacity as u64);
        max.expect("not the root");
        Self {
            lruvec: eng.lruvec_id(memcg, NodeId(0)),
            eng,
            capacity,
            resident: BTreeMap::new(),
            shadows: BTreeMap::new(),
        }
    }

    /// One read. True: a hit.
    pub(crate) fn read(&mut self, page: u32) -> bool {
        let hit = self.resident.get(&page).copied();
        let id = hit.unwrap_or_else(|| self.bring_in(page));
        self.eng.mark_accessed(0, id);
        hit.is_some()
    }

    /// A page will never come back.
    pub(crate) fn forget(&mut self, page: u32) {
        if let Some(id) = self.resident.remove(&page) {
            assert!(self.eng.folio_put(id, 1), "it has one reference");
        }
        if let Some(shadow) = self.shadows.remove(&page) {
            let lruvec = self.lruvec;
            self.eng.forget_evicted(lruvec, LruType::File, shadow);
        }
    }

    fn bring_in(&mut self, page: u32) -> FolioId {
        let memcg = self.eng.memcg_of(self.lruvec);
        self.eng.memcgs.charge_forced(memcg, CounterKind::Memory, 1);
        let id = self.eng.folio_alloc(NewFolio::page(
            self.lruvec,
            ObjectId(0),
            page,
            Flags::OWNED | Flags::UPTODATE,
        ));
        if let Some(shadow) = self.shadows.remove(&page) {
            self.eng.refault(id, shadow, RefaultSite::Read);
        }
        if self.resident.len() == self.capacity {
            let gone = self.eng.evict_next(self.lruvec, LruType::File).unwrap();
            self.resident.remove(&gone.index).expect("was resident");
            self.shadows.insert(gone.index, gone.shadow);
        }
        self.eng.lru_add(0, id, false);
        self.resident.insert(page, id);
        id
    }

    /// Which reads miss.
    pub(crate) fn misses(&mut self, pages: &[u32]) -> Vec<bool> {
        pages.iter().map(|&p| !self.read(p)).collect()
    }

    /// Takes over which pages are in memory and which shadows are left.
    #[cfg(feature = "state")]
    pub(crate) fn copy_slots(&mut self, other: &Cache) {
        self.resident.clone_from(&other.resident);
        self.shadows.clone_from(&other.shadows);
    }

    /// Pages in memory, ascending.
    pub(crate) fn resident(&self) -> Vec<u32> {
        self.resident.keys().copied().collect()
    }

    /// Pages on a list, next victim first.
    pub(crate) fn list(&self, n: usize) -> Vec<u32> {
        let queue = &self.eng.lists(self.lruvec, LruType::File).queues()[n];
        let newest_first = queue.list().iter(&self.eng.folios);
        let mut pages: Vec<u32> = newest_first
            .map(|id| self.eng.folio(id).owner().1)
            .collect();
        pages.reverse();
        pages
    }
}
