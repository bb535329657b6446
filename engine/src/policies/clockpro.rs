//! CLOCK-Pro: hot folios, cold ones on probation and evicted ones on one clock with three hands. A cold
//! folio that is used again within its test period becomes hot.
//!
//! S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective improvement of the CLOCK replacement", USENIX ATC
//! 2005. Names are the paper's. HAND_hot is at the tail of the list, so what it passes becomes the newest;
//! the other two hands go on from where they stopped. The share of cold folios begins at one page.

use super::{ListPolicy, Pages, Queue};
use crate::folio::FolioTable;
use crate::ids::FolioId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// Resident cold folios. Their order is that of the clock, as for the hot ones.
const COLD: usize = 0;
/// Hot folios.
const HOT: usize = 1;
/// In the bits of the folio: used since a hand last passed it.
const USED: u32 = 1;
/// In the bits of the folio: it has been on a list before.
const KNOWN: u32 = 2;

/// Somebody on the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
enum Entry {
    Hot(FolioId),
    Cold(FolioId),
    /// Number of the eviction, and pages.
    Gone(u64, u64),
}

/// The two lists and the clock.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct ClockPro {
    lists: [Queue; 2],
    /// From the tail, where HAND_hot is, to the head.
    clock: BTreeMap<u64, Entry>,
    /// Positions of resident cold folios.
    cold: BTreeSet<u64>,
    /// Positions of those in their test period, resident or not.
    test: BTreeSet<u64>,
    /// Position of each folio, by its number; 0: none. It stays while a folio is off its list.
    at: Vec<u64>,
    /// Of the folios off their lists, those in their test period, by position.
    held: BTreeSet<u64>,
    gone: BTreeMap<u64, u64>,
    gone_pages: u64,
    head: u64,
    hand_cold: u64,
    hand_test: u64,
    /// m: pages that fit, as of the last eviction; before, what the limits allow.
    m: u64,
    /// m_c less 1: pages for cold folios.
    more_cold: u64,
    evicting: bool,
}

impl ClockPro {
    /// m_h.
    fn hot_share(&self) -> u64 {
        self.m.saturating_sub(1 + self.more_cold)
    }

    fn more_cold(&mut self, pages: u64) {
        self.more_cold = (self.more_cold + pages).min(self.m.saturating_sub(1));
    }

    fn position(&self, id: FolioId) -> u64 {
        self.at.get(id.0 as usize).copied().unwrap_or(0)
    }

    fn set_position(&mut self, id: FolioId, position: u64) {
        let at = id.0 as usize;
        if at >= self.at.len() {
            self.at.resize(at + 1, 0);
        }
        self.at[at] = position;
    }

    /// Onto the clock, at a position that nobody has.
    fn place(&mut self, position: u64, entry: Entry, test: bool) {
        match entry {
            Entry::Hot(id) => self.set_position(id, position),
            Entry::Cold(id) => {
                self.set_position(id, position);
                self.cold.insert(position);
            }
            Entry::Gone(eviction, pages) => {
                self.gone.insert(eviction, position);
                self.gone_pages += pages;
            }
        }
        if test {
            self.test.insert(position);
        }
        self.clock.insert(position, entry);
    }

    fn place_head(&mut self, entry: Entry, test: bool) {
        self.head += 1;
        self.place(self.head, entry, test);
    }

    /// Off the clock; whether it was in its test period.
    fn take(&mut self, position: u64) -> bool {
        if let Some(Entry::Gone(eviction, pages)) = self.clock.remove(&position) {
            self.gone.remove(&eviction);
            self.gone_pages -= pages;
        }
        self.cold.remove(&position);
        self.test.remove(&position)
    }

    /// Turns hot folios into cold ones until they fit their share; on its way the hand ends test periods.
    fn hand_hot(&mut self, p: &mut Pages<'_>) {
        while self.lists[HOT].pages() > self.hot_share() {
            let (&position, &entry) = self.clock.first_key_value().expect("hot folios are there");
            if self.take(position) {
                self.more_cold = self.more_cold.saturating_sub(1);
            }
            match entry {
                Entry::Hot(id) if p.refs(id) & USED != 0 => {
                    p.set_refs(id, KNOWN);
                    self.place_head(entry, false);
                }
                Entry::Hot(id) => {
                    self.lists[HOT].remove(p, id);
                    p.set_list(id, COLD);
                    self.lists[COLD].push_head(p, id);
                    self.place_head(Entry::Cold(id), false);
                }
                Entry::Cold(_) => self.place_head(entry, false),
                Entry::Gone(..) => {}
            }
        }
    }

    /// Ends test periods until no more evicted pages are remembered than fit in memory.
    fn hand_test(&mut self) {
        while self.gone_pages > self.m {
            let at =
                after(&self.test, self.hand_test).expect("evicted ones are in their test period");
            self.hand_test = at;
            self.test.remove(&at);
            self.more_cold = self.more_cold.saturating_sub(1);
            if matches!(self.clock[&at], Entry::Gone(..)) {
                self.take(at);
            }
        }
    }
}

/// The next position behind a hand, round the clock.
fn after(positions: &BTreeSet<u64>, hand: u64) -> Option<u64> {
    let ahead = positions.range((Excluded(hand), Unbounded)).next();
    ahead.or(positions.first()).copied()
}

impl ListPolicy for ClockPro {
    fn queues(&self) -> &[Queue] {
        &self.lists
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.lists
    }

    /// HAND_cold.
    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        let smaller = p.capacity() < self.m;
        self.m = p.capacity();
        self.evicting = true;
        if smaller {
            self.more_cold(0);
            self.hand_test();
            self.hand_hot(p);
        }
        loop {
            let Some(at) = after(&self.cold, self.hand_cold) else {
                // Batches have taken all cold ones.
                let hot = self.clock.values().find_map(|e| match *e {
                    Entry::Hot(id) => Some(id),
                    _ => None,
                });
                return hot;
            };
            let Entry::Cold(id) = self.clock[&at] else {
                unreachable!("a cold folio is on the clock");
            };
            if p.refs(id) & USED == 0 {
                self.hand_cold = at - 1;
                return Some(id);
            }
            self.hand_cold = at;
            p.set_refs(id, KNOWN);
            if self.take(at) {
                self.more_cold(1);
                self.lists[COLD].remove(p, id);
                p.set_list(id, HOT);
                self.lists[HOT].push_head(p, id);
                self.place_head(Entry::Hot(id), false);
                self.hand_hot(p);
            } else {
                self.place_head(Entry::Cold(id), true);
            }
        }
    }

    fn insert(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, KNOWN);
        if !self.evicting {
            self.m = p.limit();
            if self.lists[HOT].pages() + p.size(id) <= self.hot_share() {
                p.set_list(id, HOT);
            }
        }
        let list = p.list(id);
        self.lists[list].push_head(p, id);
        if list == HOT {
            self.place_head(Entry::Hot(id), false);
            self.hand_hot(p);
        } else {
            self.place_head(Entry::Cold(id), true);
        }
    }

    /// Under HAND_cold.
    fn insert_oldest(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_list(id, COLD);
        self.set_position(id, 0);
        self.put_back(p, id);
        p.set_refs(id, KNOWN);
    }

    /// To where it was on the clock; a hot one has been passed by HAND_hot, or the next victim would be the same one again.
    fn put_back(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, p.refs(id) | KNOWN);
        let mut at = self.position(id);
        let test = self.held.remove(&at);
        let list = p.list(id);
        if list == HOT || at == 0 || self.clock.contains_key(&at) {
            self.head += 1;
            at = self.head;
        }
        self.lists[list].push_head(p, id);
        if list == HOT {
            self.place(at, Entry::Hot(id), false);
        } else {
            self.place(at, Entry::Cold(id), test);
            if p.refs(id) & USED == 0 {
                // It is dirty, and the paper's cold ones can always go: where none can, hot ones have to become cold.
                self.more_cold(p.size(id));
            }
        }
        self.hand_hot(p);
    }

    fn remove(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.lists[p.list(id)].remove(p, id);
        let at = self.position(id);
        if self.take(at) {
            self.held.insert(at);
        }
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.refs(id) & KNOWN != 0 {
            p.set_refs(id, KNOWN | USED);
        }
    }

    fn evicted(&mut self, p: &mut Pages<'_>, id: FolioId) {
        let at = self.position(id);
        if self.held.remove(&at) && !self.clock.contains_key(&at) {
            self.place(at, Entry::Gone(p.eviction(), p.size(id)), true);
            self.hand_test();
        }
        self.set_position(id, 0);
        // Those that were neither evicted nor put back have been dropped.
        if self.held.len() > 1024 {
            self.held.clear();
        }
    }

    fn refault(&mut self, p: &mut Pages<'_>, id: FolioId) -> bool {
        let Some(&at) = self.gone.get(&p.eviction()) else {
            return false;
        };
        self.take(at);
        self.more_cold(1);
        p.set_list(id, HOT);
        true
    }

    fn forget(&mut self, eviction: u64) {
        if let Some(&at) = self.gone.get(&eviction) {
            self.take(at);
        }
    }

    fn remembers(&self) -> bool {
        true
    }

    fn wants_limit(&self) -> bool {
        !self.evicting
    }

    fn check(&self, folios: &FolioTable) {
        let (mut pages, mut cold) = ([0; 3], 0);
        for (&at, entry) in &self.clock {
            match *entry {
                Entry::Hot(id) => pages[HOT] += folios[id].nr_pages(),
                Entry::Cold(id) => pages[COLD] += folios[id].nr_pages(),
                Entry::Gone(_, n) => pages[2] += n,
            }
            match *entry {
                Entry::Hot(id) | Entry::Cold(id) => assert_eq!(self.position(id), at, "{id:?}"),
                Entry::Gone(eviction, _) => assert_eq!(self.gone[&eviction], at),
            }
            cold += usize::from(matches!(entry, Entry::Cold(_)));
            let hot = matches!(entry, Entry::Hot(_));
            assert!(
                !(hot && self.test.contains(&at)),
                "a hot folio on probation"
            );
        }
        assert_eq!(cold, self.cold.len());
        let on_lists = [&self.lists[COLD], &self.lists[HOT]].map(|l| l.pages());
        assert_eq!(pages, [on_lists[0], on_lists[1], self.gone_pages]);
        assert!(
            self.gone_pages <= self.m,
            "{} of {}",
            self.gone_pages,
            self.m
        );
    }
}
