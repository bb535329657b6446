//! LIRS: folios whose last two uses lay close together stay; the others pass through a short queue.
//!
//! S. Jiang, X. Zhang, "LIRS: an efficient low inter-reference recency set replacement policy to improve
//! buffer cache performance", SIGMETRICS 2002. Names are the paper's. The queue Q has a hundredth of the
//! capacity, as there. The paper leaves open how many evicted folios the stack S may hold; here it is as
//! many pages as fit in memory.

use super::{ListPolicy, Pages, Queue};
use crate::folio::FolioTable;
use crate::ids::FolioId;
use std::collections::BTreeMap;

/// Q: resident folios of high inter-reference recency, the next victim first.
const HIR: usize = 0;
/// Folios of low inter-reference recency. Their order is that of S.
const LIR: usize = 1;
/// In the bits of the folio: it has been on a list before.
const KNOWN: u32 = 1;

/// Somebody on the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
enum Entry {
    Lir(FolioId),
    Hir(FolioId),
    /// Number of the eviction, and pages.
    Gone(u64, u64),
}

/// The two lists, and the stack by time of last use.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Lirs {
    lists: [Queue; 2],
    /// By time of last use; the first is its bottom, always a LIR folio.
    stack: BTreeMap<u64, Entry>,
    /// When each folio was last used, by its number; 0: not on the stack. It stays while a folio is off
    /// its list.
    used: Vec<u64>,
    /// Evictions on the stack, and where.
    gone: BTreeMap<u64, u64>,
    gone_pages: u64,
    now: u64,
    /// Pages that fit, as of the last eviction; before, what the limits allow.
    capacity: u64,
    evicting: bool,
}

impl Lirs {
    /// Pages for LIR folios.
    fn share(&self) -> u64 {
        self.capacity - (self.capacity / 100).max(1).min(self.capacity)
    }

    fn time(&self, id: FolioId) -> u64 {
        self.used.get(id.0 as usize).copied().unwrap_or(0)
    }

    fn set_time(&mut self, id: FolioId, time: u64) {
        let at = id.0 as usize;
        if at >= self.used.len() {
            self.used.resize(at + 1, 0);
        }
        self.used[at] = time;
    }

    /// To the top of the stack.
    fn stack_top(&mut self, entry: Entry) {
        self.now += 1;
        if let Entry::Lir(id) | Entry::Hir(id) = entry {
            self.set_time(id, self.now);
        }
        self.stack.insert(self.now, entry);
    }

    /// Nothing but a LIR folio is at the bottom.
    fn prune(&mut self) {
        while let Some(bottom) = self.stack.first_entry() {
            match *bottom.get() {
                Entry::Lir(_) => return,
                Entry::Hir(id) => {
                    bottom.remove();
                    self.set_time(id, 0);
                }
                Entry::Gone(eviction, pages) => {
                    bottom.remove();
                    self.gone.remove(&eviction);
                    self.gone_pages -= pages;
                }
            }
        }
    }

    /// LIR folios that no longer fit go to Q from the bottom.
    fn demote(&mut self, p: &mut Pages<'_>) {
        while self.lists[LIR].pages() > self.share() {
            let Some((_, Entry::Lir(id))) = self.stack.pop_first() else {
                unreachable!("LIR folios are on the stack, one at its bottom");
            };
            self.set_time(id, 0);
            self.lists[LIR].remove(p, id);
            p.set_list(id, HIR);
            self.lists[HIR].push_head(p, id);
            self.prune();
        }
    }

    /// The oldest evictions are forgotten.
    fn forget(&mut self) {
        while self.gone_pages > self.capacity {
            let (_, at) = self.gone.pop_first().expect("has pages");
            let Some(Entry::Gone(_, pages)) = self.stack.remove(&at) else {
                unreachable!("an eviction is on the stack");
            };
            self.gone_pages -= pages;
        }
    }

    /// Whether an eviction is on the stack; it is not any more.
    fn take_gone(&mut self, eviction: u64) -> bool {
        let Some(at) = self.gone.remove(&eviction) else {
            return false;
        };
        if let Some(Entry::Gone(_, pages)) = self.stack.remove(&at) {
            self.gone_pages -= pages;
        }
        true
    }

    /// A folio used now goes onto its list, and onto the stack.
    fn enter(&mut self, p: &mut Pages<'_>, id: FolioId) {
        let list = p.list(id);
        self.lists[list].push_head(p, id);
        self.stack_top(if list == LIR {
            Entry::Lir(id)
        } else {
            Entry::Hir(id)
        });
        self.demote(p);
        self.prune();
    }
}

impl ListPolicy for Lirs {
    fn queues(&self) -> &[Queue] {
        &self.lists
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.lists
    }

    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        self.capacity = p.capacity();
        self.evicting = true;
        self.forget();
        self.demote(p);
        self.lists[HIR]
            .tail()
            .or(match self.stack.first_key_value() {
                Some((_, &Entry::Lir(id))) => Some(id),
                _ => None,
            })
    }

    fn insert(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, KNOWN);
        self.set_time(id, 0);
        if !self.evicting {
            self.capacity = p.limit();
        }
        if self.lists[LIR].pages() + p.size(id) <= self.share() {
            p.set_list(id, LIR);
        }
        self.enter(p, id);
    }

    fn insert_oldest(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, KNOWN);
        self.set_time(id, 0);
        p.set_list(id, HIR);
        self.lists[HIR].push_tail(p, id);
    }

    /// To where it was on the stack; in Q, to the end.
    fn put_back(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, KNOWN);
        let time = self.time(id);
        let free = time > 0 && !self.stack.contains_key(&time);
        if p.list(id) == LIR {
            self.lists[LIR].push_head(p, id);
            if free {
                self.stack.insert(time, Entry::Lir(id));
            } else {
                self.stack_top(Entry::Lir(id));
            }
            self.demote(p);
        } else {
            self.lists[HIR].push_head(p, id);
            if free {
                self.stack.insert(time, Entry::Hir(id));
            } else {
                self.set_time(id, 0);
            }
        }
        self.prune();
    }

    fn remove(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.lists[p.list(id)].remove(p, id);
        self.stack.remove(&self.time(id));
        self.prune();
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.refs(id) != KNOWN {
            return; // Not inserted yet.
        }
        if !p.listed(id) {
            // It comes back as the newest.
            if self.time(id) > 0 {
                p.set_list(id, LIR);
            }
            self.now += 1;
            self.set_time(id, self.now);
            return;
        }
        let on_stack = self.time(id) > 0;
        self.lists[p.list(id)].remove(p, id);
        self.stack.remove(&self.time(id));
        if on_stack {
            p.set_list(id, LIR);
        }
        self.enter(p, id);
    }

    fn evicted(&mut self, p: &mut Pages<'_>, id: FolioId) {
        // A piece of a folio that was split may leave before it was ever inserted.
        let used = self.used.get_mut(id.0 as usize);
        let time = used.map_or(0, std::mem::take);
        let above = self.stack.first_key_value().is_some_and(|(&b, _)| b < time);
        if p.list(id) == HIR && above && !self.stack.contains_key(&time) {
            self.stack
                .insert(time, Entry::Gone(p.eviction(), p.size(id)));
            self.gone.insert(p.eviction(), time);
            self.gone_pages += p.size(id);
            self.forget();
        }
    }

    fn refault(&mut self, p: &mut Pages<'_>, id: FolioId) -> bool {
        let known = self.take_gone(p.eviction());
        if known {
            p.set_list(id, LIR);
        }
        known
    }

    fn forget(&mut self, eviction: u64) {
        self.take_gone(eviction);
    }

    fn remembers(&self) -> bool {
        true
    }

    fn wants_limit(&self) -> bool {
        !self.evicting
    }

    fn check(&self, folios: &FolioTable) {
        if let Some((_, bottom)) = self.stack.first_key_value() {
            assert!(matches!(bottom, Entry::Lir(_)), "at the bottom: {bottom:?}");
        }
        let (mut lir, mut gone) = (0, 0);
        for (&time, entry) in &self.stack {
            match *entry {
                Entry::Gone(eviction, pages) => {
                    assert_eq!(self.gone.get(&eviction), Some(&time));
                    gone += pages;
                }
                Entry::Lir(id) => {
                    assert_eq!(self.time(id), time, "{id:?}");
                    lir += folios[id].nr_pages();
                }
                Entry::Hir(id) => assert_eq!(self.time(id), time, "{id:?}"),
            }
        }
        assert_eq!(lir, self.lists[LIR].pages(), "LIR folios on the stack");
        assert_eq!(gone, self.gone_pages, "evicted folios on the stack");
        assert!(gone <= self.capacity, "{gone} of {}", self.capacity);
    }
}
