//! What uses and their cost do to active and inactive lists (`docs/rules/classic.md`).

use crate::engine::Engine;
use crate::folio::{Flags, Folio};
use crate::ids::{FolioId, LruType, LruvecId, MemcgId};
use crate::lruvec::LruList;

/// The list that a folio's flags select.
#[inline]
pub fn list_of(f: &Folio) -> LruList {
    LruList::of(f.lru_type(), f.has(Flags::ACTIVE))
}

impl Engine {
    /// The second access activates (`docs/rules/classic.md#second-chance`).
    pub(crate) fn classic_mark_accessed(&mut self, cpu: u16, id: FolioId) {
        let f = &mut self.folios[id];
        if !f.has(Flags::REFERENCED) {
            f.set(Flags::REFERENCED);
        } else if f.has(Flags::UNEVICTABLE) || f.has(Flags::ACTIVE) {
            // Nothing more to know.
        } else {
            let (lruvec, n) = (f.lruvec(), f.nr_pages());
            if f.has(Flags::LRU) {
                self.activate(cpu, id);
            } else if self.in_add_batch(cpu, id) {
                self.folios[id].set(Flags::ACTIVE);
            }
            self.folios[id].clear(Flags::REFERENCED);
            self.nonresident_age(lruvec, n);
        }
    }

    /// Reclaim has paid `io` pages of I/O and `rotated` pages looked at in vain for a type
    /// (`docs/rules/classic.md#file-or-anonymous`). Both types' costs halve when they exceed a quarter of the lists;
    /// what has cost nothing halves nothing.
    pub(crate) fn note_cost(&mut self, lruvec: LruvecId, t: LruType, io: u64, rotated: u64) {
        let cost = io * 32 + rotated;
        if cost == 0 {
            return;
        }
        let lv = &self.lruvecs[lruvec];
        let node = lv.node;
        let mut at: Option<MemcgId> = Some(lv.memcg);
        while let Some(memcg) = at {
            let size: i64 = LruList::EVICTABLE
                .iter()
                .map(|l| self.stat(memcg, node, l.counter()))
                .sum();
            let id = self.lruvec_id(memcg, node);
            self.meter.lock(id);
            let c = &mut self.lruvecs[id].cost;
            c[t.idx()] += cost;
            if c[0] + c[1] > size.max(0) as u64 / 4 {
                c[0] /= 2;
                c[1] /= 2;
            }
            at = self.memcgs[memcg].parent();
        }
    }
}
