//! Where folios enter (`docs/rules/generations.md#entry`) and how they move between generations (`docs/rules/generations.md#promotion`).

use super::{MultiGen, MAX_NR_GENS};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId};
use crate::lruvec::LruList;

impl Engine {
    /// Moves `pages` between generation slots in the counts, and between "active" and "inactive" in
    /// the statistics where the move crosses that border.
    pub(crate) fn gen_resize(
        &mut self,
        lruvec: LruvecId,
        t: LruType,
        zone: u8,
        old: Option<usize>,
        new: Option<usize>,
        pages: i64,
    ) {
        let m = self.lruvecs[lruvec].gens_mut();
        let class = |m: &MultiGen, s: Option<usize>| s.map(|s| m.is_active(s));
        if let Some(s) = old {
            m.nr_pages[s][t.idx()][zone as usize] -= pages;
        }
        if let Some(s) = new {
            m.nr_pages[s][t.idx()][zone as usize] += pages;
        }
        let (was, is) = (class(m, old), class(m, new));
        if was != is {
            if let Some(active) = was {
                self.resize_list(lruvec, zone, LruList::of(t, active), -pages);
            }
            if let Some(active) = is {
                self.resize_list(lruvec, zone, LruList::of(t, active), pages);
            }
        }
    }

    /// Adds an evictable folio that is on no list. `reclaiming`: rotation to the cold end.
    pub(crate) fn gen_add(&mut self, id: FolioId, reclaiming: bool) {
        let kernel = &self.rules.kernel;
        let f = &mut self.folios[id];
        let (lruvec, zone, n, t) = (f.lruvec(), f.zone(), f.nr_pages() as i64, f.lru_type());
        let m = self.lruvecs[lruvec].gens();
        let slot = MultiGen::slot((kernel.entry)(m, f.word(), t, reclaiming));
        if f.test_clear(Flags::ACTIVE) {
            (kernel.entered_active)(f.word_mut());
        }
        f.word_mut().set_gen(Some(slot));
        self.gen_link(id, slot, reclaiming);
        self.gen_resize(lruvec, t, zone, None, Some(slot), n);
    }

    /// Takes a folio off its generation. Not for reclaim: youth survives as `ACTIVE`.
    pub(crate) fn gen_del(&mut self, id: FolioId, reclaiming: bool) {
        let f = &self.folios[id];
        let (lruvec, zone, n, t) = (f.lruvec(), f.zone(), f.nr_pages() as i64, f.lru_type());
        let slot = f.word().gen().expect("on a generation");
        self.gen_unlink(id);
        let m = self.lruvecs[lruvec].gens();
        let young = m.is_active(slot);
        let word = self.folios[id].word_mut();
        word.set_gen(None);
        if !reclaiming && young {
            word.set(Flags::ACTIVE);
        }
        self.gen_resize(lruvec, t, zone, Some(slot), None, n);
    }

    /// Unlinks a folio from the list it is physically on.
    pub(crate) fn gen_unlink(&mut self, id: FolioId) {
        let f = &self.folios[id];
        let (lruvec, home, t, zone) = (f.lruvec(), f.home(), f.lru_type(), f.zone());
        self.lruvecs[lruvec].gens_mut().lists[home as usize][t.idx()][zone as usize]
            .remove(&mut self.folios, id);
    }

    /// Links an unlinked folio to the list of generation slot `slot`.
    pub(crate) fn gen_link(&mut self, id: FolioId, slot: usize, tail: bool) {
        let f = &mut self.folios[id];
        f.set_home(slot as u8);
        let (lruvec, t, zone) = (f.lruvec(), f.lru_type(), f.zone());
        let list = &mut self.lruvecs[lruvec].gens_mut().lists[slot][t.idx()][zone as usize];
        if tail {
            list.push_tail(&mut self.folios, id);
        } else {
            list.push_head(&mut self.folios, id);
        }
    }

    /// Moves a folio between physical lists.
    #[inline]
    pub(crate) fn gen_relink(&mut self, id: FolioId, slot: usize, tail: bool) {
        self.meter.list_ops += 1;
        self.gen_unlink(id);
        self.gen_link(id, slot, tail);
    }

    /// Promotion by a page-table walk (`docs/rules/generations.md#promotion`): flags and counts only. Returns true if the
    /// folio changed generation.
    pub(crate) fn gen_promote(&mut self, id: FolioId, slot: usize) -> bool {
        let f = &mut self.folios[id];
        if !(self.rules.kernel.walk_found)(f.word_mut()) {
            return false;
        }
        let old = f.word().gen().expect("promoted from a generation");
        f.word_mut().set_gen(Some(slot));
        if old == slot {
            return false;
        }
        let (lruvec, zone, n, t) = (f.lruvec(), f.zone(), f.nr_pages() as i64, f.lru_type());
        self.gen_resize(lruvec, t, zone, Some(old), Some(slot), n);
        self.memcgs
            .count(self.memcg_of(lruvec), Counter::WalkPromoted, n);
        true
    }

    /// From the oldest generation to the next (`docs/rules/generations.md#protection`). Returns the new slot; if a promotion
    /// got there first, the slot the folio already counts in.
    pub(crate) fn gen_protect(&mut self, id: FolioId, mark_reclaim: bool) -> usize {
        let f = &mut self.folios[id];
        let t = f.lru_type();
        let m = self.lruvecs[f.lruvec()].gens();
        let oldest = MultiGen::slot(m.min_seq[t.idx()]);
        let now = f.word().gen().expect("on a generation");
        if now != oldest {
            return now;
        }
        let new = (oldest + 1) % MAX_NR_GENS;
        (self.rules.kernel.protect)(f.word_mut());
        if mark_reclaim {
            f.set(Flags::RECLAIM);
        }
        f.word_mut().set_gen(Some(new));
        let (lruvec, zone, n) = (f.lruvec(), f.zone(), f.nr_pages() as i64);
        self.gen_resize(lruvec, t, zone, Some(oldest), Some(new), n);
        new
    }
}
