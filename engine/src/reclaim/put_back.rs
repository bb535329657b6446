//! Putting survivors of a list back onto the LRU (`docs/rules/classic.md#inactive-scan`, `docs/rules/eviction.md#survivors`).

use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruvecId};
use crate::policies::verbs::ListEntry;

impl Engine {
    /// Adds each folio at the head of the list its flags select and drops the isolation reference.
    /// Folios that turned unevictable go through the add batch. Returns pages put back.
    pub(crate) fn put_back(&mut self, cpu: u16, lruvec: LruvecId, folios: &[FolioId]) -> u64 {
        let mut pages = 0;
        if !folios.is_empty() {
            self.meter.lock(lruvec);
            let memcg = self.memcg_of(lruvec);
            self.memcgs.count(memcg, Counter::LruLockAcq, 1);
        }
        for &id in folios {
            let f = &mut self.folios[id];
            if !f.evictable() {
                self.put_back_generic(cpu, id);
                continue;
            }
            let n = f.nr_pages();
            f.set(Flags::LRU);
            if f.put(1) {
                // Its owner let go while it was isolated.
                f.clear(Flags::LRU | Flags::ACTIVE);
                self.folio_release(id);
                continue;
            }
            let active = f.has(Flags::ACTIVE);
            self.lruvec_enter(id, ListEntry::Back);
            pages += n;
            if active {
                self.nonresident_age(lruvec, n);
            }
        }
        pages
    }

    /// Through the add batch, which sorts out unevictable folios.
    pub(crate) fn put_back_generic(&mut self, cpu: u16, id: FolioId) {
        self.lru_add(cpu, id, false);
        self.folio_put(id, 1);
    }
}
