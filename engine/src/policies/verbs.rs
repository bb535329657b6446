//! The verbs of an lruvec, passed on to its list policy.

use super::outside::{Event, Outside};
use super::{ListPolicy, Lists, Pages};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId, MemcgId, NodeId, ObjectId};
use crate::lruvec::{LruList, LruvecLists};
use crate::memcg::UNLIMITED;
use crate::switches::RefaultKind;
use crate::workingset::shadow::{Unpacked, VALUE_MASK};
use crate::workingset::Shadow;

/// Where a folio enters its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ListEntry {
    /// The end where new folios enter.
    New,
    /// The end where the next victim is.
    Oldest,
    /// A victim that comes back.
    Back,
}

/// A folio that [`Engine::evict_next`] has evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// Object whose slots held it.
    pub object: ObjectId,
    /// Index of its first page in the object.
    pub index: u32,
    /// Log2 of the number of pages.
    pub order: u8,
    /// What to leave in the slot.
    pub shadow: Shadow,
}

impl Engine {
    /// Calls `f` with the lists of a type of an lruvec under a list policy. Work on lists is metered.
    #[inline]
    fn with_lists<R>(
        &mut self,
        lruvec: LruvecId,
        t: LruType,
        (capacity, eviction, limit): (u64, u64, u64),
        f: impl FnOnce(&mut dyn ListPolicy, &mut Pages<'_>) -> R,
    ) -> R {
        let LruvecLists::List(state) = &mut self.lruvecs[lruvec].lists else {
            panic!("no list policy: {:?}", self.switches().policy);
        };
        let mut p = Pages {
            folios: &mut self.folios,
            capacity,
            eviction,
            limit,
            list_ops: 0,
        };
        let result = f(state.lists.of_mut(t), &mut p);
        self.meter.list_ops += p.list_ops;
        result
    }

    fn list_place(&self, id: FolioId) -> (LruvecId, LruType, u8, i64) {
        let f = &self.folios[id];
        (f.lruvec(), f.lru_type(), f.zone(), f.nr_pages() as i64)
    }

    pub(crate) fn list_add(&mut self, id: FolioId, entry: ListEntry) {
        let (lruvec, t, zone, n) = self.list_place(id);
        let limit = match entry {
            ListEntry::New if self.lists(lruvec, t).wants_limit() => self.lowest_limit(lruvec),
            _ => 0,
        };
        self.with_lists(lruvec, t, (0, 0, limit), |lists, p| match entry {
            ListEntry::New => lists.insert(p, id),
            ListEntry::Oldest => lists.insert_oldest(p, id),
            ListEntry::Back => lists.put_back(p, id),
        });
        self.resize_list(lruvec, zone, LruList::of(t, false), n);
    }

    /// The lowest hard limit of the memcg and those above it, pages; [`u64::MAX`]: none.
    fn lowest_limit(&self, lruvec: LruvecId) -> u64 {
        let mut lowest = UNLIMITED;
        let mut at = Some(self.memcg_of(lruvec));
        while let Some(id) = at {
            lowest = lowest.min(self.memcgs[id].memory().max());
            at = self.memcgs[id].parent();
        }
        if lowest < UNLIMITED {
            lowest
        } else {
            u64::MAX
        }
    }

    pub(crate) fn list_del(&mut self, id: FolioId) {
        let (lruvec, t, zone, n) = self.list_place(id);
        self.with_lists(lruvec, t, (0, 0, 0), |lists, p| lists.remove(p, id));
        self.resize_list(lruvec, zone, LruList::of(t, false), -n);
    }

    /// A read. The first one is what brought the folio in.
    pub(crate) fn list_accessed(&mut self, id: FolioId) {
        let (lruvec, t, ..) = self.list_place(id);
        if !self.lists(lruvec, t).wants_uses() {
            return;
        }
        let word = self.folios[id].word_mut();
        if !word.has(Flags::REFERENCED) {
            word.set(Flags::REFERENCED);
            return;
        }
        let before = self.meter.list_ops;
        self.with_lists(lruvec, t, (0, 0, 0), |lists, p| lists.accessed(p, id));
        if self.meter.list_ops > before {
            self.meter.lock(lruvec);
            let memcg = self.memcg_of(lruvec);
            self.memcgs.count(memcg, Counter::LruLockAcq, 1);
        }
    }

    /// An isolated victim that is mapped turns out to be in use.
    pub(crate) fn list_referenced(&mut self, id: FolioId) {
        let (lruvec, t, ..) = self.list_place(id);
        self.with_lists(lruvec, t, (0, 0, 0), |lists, p| lists.referenced(p, id));
    }

    /// The next victim. `capacity`: what the lists of the type hold, or held when the reclaimer began.
    pub(crate) fn list_victim(
        &mut self,
        lruvec: LruvecId,
        t: LruType,
        capacity: u64,
    ) -> Option<FolioId> {
        self.with_lists(lruvec, t, (capacity, 0, 0), |lists, p| lists.victim(p))
    }

    /// The lists of a type. Panics under another policy.
    #[inline]
    pub(crate) fn lists(&self, lruvec: LruvecId, t: LruType) -> &dyn ListPolicy {
        match &self.lruvecs[lruvec].lists {
            LruvecLists::List(state) => state.lists.of(t),
            _ => panic!("no list policy: {:?}", self.switches().policy),
        }
    }

    /// The list policy of the folio remembers evictions.
    pub(crate) fn has_ghosts(&self, id: FolioId) -> bool {
        let (lruvec, t, ..) = self.list_place(id);
        self.lists(lruvec, t).remembers()
    }

    /// The policy is told of an eviction. Its shadow, if the policy remembers it by its number.
    pub(crate) fn list_evicted(&mut self, id: FolioId) -> Option<Shadow> {
        let (lruvec, t, ..) = self.list_place(id);
        let remembers = self.lists(lruvec, t).remembers();
        let lv = &mut self.lruvecs[lruvec];
        let LruvecLists::List(state) = &mut lv.lists else {
            unreachable!("looked at above");
        };
        state.evictions += 1;
        let (eviction, memcg, node) = (state.evictions, lv.memcg, lv.node);
        self.with_lists(lruvec, t, (0, eviction, 0), |lists, p| lists.evicted(p, id));
        remembers.then(|| {
            Shadow::pack(Unpacked {
                value: eviction,
                memcg: self.memcgs[memcg].css_id(),
                node: node.0,
                workingset: false,
            })
        })
    }

    /// A refault under a policy with ghosts. Only its own lruvec knows an eviction.
    pub(crate) fn list_refault(&mut self, id: FolioId, shadow: Shadow) {
        let (lruvec, t, _, n) = self.list_place(id);
        let u = shadow.unpack();
        let owner = self.memcgs.by_css_id(u.memcg).unwrap_or(MemcgId::ROOT);
        if self.lruvecs.id(owner, NodeId(u.node)) != lruvec {
            return;
        }
        self.count_refault(lruvec, RefaultKind::Refault, t, n as u64);
        let Some(eviction) = self.eviction_of(lruvec, u.value) else {
            return;
        };
        if self.with_lists(lruvec, t, (0, eviction, 0), |lists, p| lists.refault(p, id)) {
            self.count_refault(lruvec, RefaultKind::Activate, t, n as u64);
        }
    }

    /// The number of an eviction from an lruvec, by what its shadow has of it.
    fn eviction_of(&self, lruvec: LruvecId, value: u64) -> Option<u64> {
        let LruvecLists::List(state) = &self.lruvecs[lruvec].lists else {
            unreachable!("a list policy's eviction");
        };
        // The shadow has the low bits of a number that is not above the present one.
        let now = state.evictions;
        let age = now.wrapping_sub(value) & VALUE_MASK;
        now.checked_sub(age).filter(|&eviction| eviction > 0)
    }

    /// A page that [`Self::evict_next`] has evicted, and that has left this shadow, will never come back: its file was cut,
    /// or its memory given back. What the policy remembers of it can go.
    ///
    /// # Panics
    /// Under another policy.
    pub fn forget_evicted(&mut self, lruvec: LruvecId, t: LruType, shadow: Shadow) {
        if !self.lists(lruvec, t).remembers() {
            return;
        }
        if let Some(eviction) = self.eviction_of(lruvec, shadow.unpack().value) {
            self.with_lists(lruvec, t, (0, 0, 0), |lists, _| lists.forget(eviction));
        }
    }

    /// Evicts the next victim of a list policy at once. For hosts without a world, in which nothing
    /// can stand in the way: folios are clean, mapped by nobody, and held by their slots alone. `None`
    /// if the lists are empty.
    ///
    /// # Panics
    /// Under another policy, or if the victim is in use.
    pub fn evict_next(&mut self, lruvec: LruvecId, t: LruType) -> Option<Evicted> {
        let capacity = self.lruvecs[lruvec].size_all(LruList::of(t, false));
        let id = self.list_victim(lruvec, t, capacity)?;
        self.lruvec_del(id, true);
        let f = &mut self.folios[id];
        assert!(
            u64::from(f.refcount()) == f.nr_pages() && !f.any(Flags::DIRTY | Flags::WRITEBACK),
            "the victim is in use: {f:?}"
        );
        f.clear(Flags::LRU | Flags::ACTIVE);
        f.freeze();
        let (object, index) = f.owner();
        let order = f.order();
        let shadow = self.workingset_eviction(id, Some(self.memcg_of(lruvec)));
        self.folio_release(id);
        Some(Evicted {
            object,
            index,
            order,
            shadow,
        })
    }

    /// Takes what policies outside have not been told yet: what has happened to each type of each lruvec,
    /// in order. Empty under any other policy.
    pub fn take_events(&mut self) -> Vec<(LruvecId, LruType, Vec<Event>)> {
        let mut all = Vec::new();
        for (n, lv) in self.lruvecs.iter_mut().enumerate() {
            let Some(lists) = outside(&mut lv.lists) else {
                return all;
            };
            for t in LruType::ALL {
                let events = lists[t.idx()].take_events();
                if !events.is_empty() {
                    all.push((LruvecId(n as u32), t, events));
                }
            }
        }
        all
    }

    /// Whether a folio is on the lists of a type of an lruvec, so that it can be the victim, and has been there since
    /// events were taken: a record may be another page's by now.
    pub fn can_be_victim(&self, lruvec: LruvecId, t: LruType, id: FolioId) -> bool {
        if id.idx() >= self.folios.records() {
            return false;
        }
        let f = &self.folios[id];
        f.has(Flags::LRU)
            && !f.any(Flags::UNEVICTABLE | Flags::DEAD)
            && (f.lruvec(), f.lru_type()) == (lruvec, t)
            && !self.has_news_of(lruvec, t, id)
    }

    /// A policy outside has still to be told that a folio came or left.
    fn has_news_of(&self, lruvec: LruvecId, t: LruType, id: FolioId) -> bool {
        let LruvecLists::List(state) = &self.lruvecs[lruvec].lists else {
            return false;
        };
        match &state.lists {
            Lists::Outside(lists) => lists[t.idx()].has_news_of(id),
            _ => false,
        }
    }

    /// The host has to be asked for the next victim.
    pub(crate) fn victim_is_outside(&mut self, lruvec: LruvecId, t: LruType) -> bool {
        let lists = outside(&mut self.lruvecs[lruvec].lists);
        lists.is_some_and(|lists| !lists[t.idx()].is_empty())
    }

    /// What the host has answered. A folio that cannot be the victim counts for no answer.
    pub(crate) fn name_victim(&mut self, lruvec: LruvecId, t: LruType, id: Option<FolioId>) {
        let id = id.filter(|&id| self.can_be_victim(lruvec, t, id));
        if let Some(lists) = outside(&mut self.lruvecs[lruvec].lists) {
            lists[t.idx()].name(id);
        }
    }
}

/// The lists of a policy outside of the engine.
#[inline]
fn outside(lists: &mut LruvecLists) -> Option<&mut [Outside; 2]> {
    match lists {
        LruvecLists::List(state) => match &mut state.lists {
            Lists::Outside(lists) => Some(lists),
            _ => None,
        },
        _ => None,
    }
}
