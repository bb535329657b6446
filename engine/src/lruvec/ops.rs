//! The verbs every policy answers: insert, remove, accessed, explicit activation.

use super::{LruList, LruvecLists};
use crate::classic;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruvecId};
use crate::policies::verbs::ListEntry;

impl Engine {
    /// Adjusts the size of a list in pages, in the lruvec and in the statistics of its memcg.
    #[inline]
    pub(crate) fn resize_list(&mut self, lruvec: LruvecId, zone: u8, list: LruList, pages: i64) {
        let lv = &mut self.lruvecs[lruvec];
        lv.sizes[zone as usize][list.idx()] += pages;
        debug_assert!(lv.sizes[zone as usize][list.idx()] >= 0);
        let (memcg, node) = (lv.memcg, lv.node);
        self.nodes[node.idx()].resize_list(list, pages);
        self.memcgs.count_on(memcg, node, list.counter(), pages);
    }

    /// Puts a folio that is on no list onto the list its flags select, at the newest end
    /// (`oldest`: at the victims' end of the coldest list). Unevictable folios are only counted.
    pub(crate) fn lruvec_add(&mut self, id: FolioId, oldest: bool) {
        self.lruvec_enter(
            id,
            if oldest {
                ListEntry::Oldest
            } else {
                ListEntry::New
            },
        );
    }

    /// As [`Self::lruvec_add`]; list policies tell survivors of reclaim from newcomers.
    pub(crate) fn lruvec_enter(&mut self, id: FolioId, entry: ListEntry) {
        let oldest = entry == ListEntry::Oldest;
        self.meter.list_ops += 1;
        let f = &self.folios[id];
        debug_assert!(f.word().gen().is_none());
        if f.has(Flags::UNEVICTABLE) {
            let (lruvec, zone, n) = (f.lruvec(), f.zone(), f.nr_pages() as i64);
            self.resize_list(lruvec, zone, LruList::Unevictable, n);
            return;
        }
        match &mut self.lruvecs[f.lruvec()].lists {
            LruvecLists::MultiGen(_) => self.gen_add(id, oldest),
            LruvecLists::Classic(lists) => {
                let list = classic::uses::list_of(f);
                let (lruvec, zone, n) = (f.lruvec(), f.zone(), f.nr_pages() as i64);
                let l = &mut lists.lists[list.idx()];
                if oldest {
                    l.push_tail(&mut self.folios, id);
                } else {
                    l.push_head(&mut self.folios, id);
                }
                self.resize_list(lruvec, zone, list, n);
            }
            LruvecLists::List(_) => {
                // Counted by the list.
                self.meter.list_ops -= 1;
                self.list_add(id, entry);
            }
        }
    }

    /// Takes a folio off its list. `reclaiming`: for reclaim, so that multi-gen leaves `ACTIVE`
    /// alone; otherwise a folio of the two youngest generations keeps its youth as `ACTIVE`.
    pub(crate) fn lruvec_del(&mut self, id: FolioId, reclaiming: bool) {
        self.meter.list_ops += 1;
        let f = &self.folios[id];
        let (lruvec, zone, n) = (f.lruvec(), f.zone(), f.nr_pages() as i64);
        if f.has(Flags::UNEVICTABLE) {
            self.resize_list(lruvec, zone, LruList::Unevictable, -n);
            return;
        }
        match &mut self.lruvecs[lruvec].lists {
            LruvecLists::MultiGen(_) => self.gen_del(id, reclaiming),
            LruvecLists::Classic(lists) => {
                let list = classic::uses::list_of(f);
                lists.lists[list.idx()].remove(&mut self.folios, id);
                self.resize_list(lruvec, zone, list, -n);
            }
            LruvecLists::List(_) => {
                self.meter.list_ops -= 1;
                self.list_del(id);
            }
        }
    }

    /// A folio is used: by a `read`, including the one that brings it in, or as a page-table entry with its accessed bit
    /// set goes away.
    #[inline]
    pub fn mark_accessed(&mut self, cpu: u16, id: FolioId) {
        match self.lruvecs[self.folios[id].lruvec()].lists {
            LruvecLists::MultiGen(_) => (self.rules.kernel.accessed)(self.folios[id].word_mut()),
            LruvecLists::Classic(_) => self.classic_mark_accessed(cpu, id),
            LruvecLists::List(_) => self.list_accessed(id),
        }
    }
}
