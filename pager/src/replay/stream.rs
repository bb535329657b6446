//! Gathers accesses during a replay.

use crate::policy::{Arrival, Book, Policy};
use coldset_engine::{Flags, FolioId, MemcgId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// An access, or several that were seen as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// When it was seen, nanoseconds.
    pub at: u64,
    /// Index into [`Accesses::regions`].
    pub region: u32,
    /// Page of it.
    pub page: u32,
    /// The page was stored to. Of anonymous memory only stores that missed are known.
    pub store: bool,
    /// It was not in memory.
    pub missed: bool,
}

/// A region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionInfo {
    /// Pages.
    pub pages: u64,
    /// Anonymous memory, else a file.
    pub anonymous: bool,
    /// Index into [`Accesses::groups`].
    pub group: u32,
}

/// Gathers accesses during a replay.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) accesses: Vec<Access>,
    pub(super) resident_before: u64,
    pub(super) regions: Vec<RegionInfo>,
    /// The root group's memcg.
    top: u32,
    /// Index of the region of an object.
    places: BTreeMap<u32, u32>,
    /// By region and sixty-fourth of its pages, one bit a page: it has missed, and nobody has asked
    /// about it since.
    fresh: HashMap<(u32, u32), u64>,
}

impl Stream {
    /// The state at the beginning: regions, and pages in memory in order of generation.
    pub(super) fn begin(&mut self, policy: &Policy, now: u64) {
        self.top = policy.top.0;
        let engine = policy.engine();
        let mut next = 1;
        for b in policy.books() {
            if next < b.object.0 {
                // Closed before the journal began, one for however many.
                self.region(policy.top, 0, false);
            }
            self.opened(b);
            next = b.object.0 + 1;
        }
        let age = |f: &coldset_engine::Folio| {
            let memcg = engine.lruvec(f.lruvec()).memcg;
            let young = engine.generations(memcg).last().map_or(0, |g| g[0]);
            match f.word().gen() {
                Some(slot) => (young + GENS - slot as u64) % GENS,
                None => u64::from(!f.has(Flags::ACTIVE)),
            }
        };
        let mut resident: Vec<_> = engine.folios().collect();
        resident.sort_by_cached_key(|(id, f)| (Reverse(age(f)), id.0));
        for (_, f) in resident {
            let (object, page) = f.owner();
            self.push(now, object.0, page, f.has(Flags::DIRTY), false);
        }
        self.resident_before = self.accesses.len() as u64;
    }

    fn push(&mut self, at: u64, object: u32, page: u32, store: bool, missed: bool) {
        let Some(&region) = self.places.get(&object) else {
            // Of a region that is gone.
            return;
        };
        self.accesses.push(Access {
            at,
            region,
            page,
            store,
            missed,
        });
    }

    /// Sets or clears; what it was.
    fn set_fresh(&mut self, object: u32, page: u32, fresh: bool) -> bool {
        let bits = self.fresh.entry((object, page / 64)).or_default();
        let bit = page % 64;
        let was = *bits >> bit & 1 == 1;
        *bits = *bits & !(1 << bit) | u64::from(fresh) << bit;
        was
    }

    pub(super) fn opened(&mut self, book: &Book) {
        self.places.insert(book.object.0, self.regions.len() as u32);
        self.region(book.memcg, book.pages() as u64, book.anon);
    }

    fn region(&mut self, group: MemcgId, pages: u64, anonymous: bool) {
        self.regions.push(RegionInfo {
            pages,
            anonymous,
            group: group.0 - self.top,
        });
    }

    pub(super) fn arrived(&mut self, book: &Book, page: usize, how: Arrival, now: u64) {
        // Read-ahead is the pager's doing, and what comes back never left.
        if how.wanted && !how.returned {
            self.push(now, book.object.0, page as u32, how.write, true);
        }
        self.set_fresh(book.object.0, page as u32, how.wanted && !how.returned);
    }

    pub(super) fn young(&mut self, policy: &Policy, id: FolioId, now: u64) {
        let (object, page) = policy.engine().folio(id).owner();
        // What is seen first of a page that has missed may be the miss itself: the other policy
        // will see as much when it asks.
        if self.set_fresh(object.0, page, false) {
            return;
        }
        let told = self.accesses.last().is_some_and(|a| {
            let region = self.places.get(&object.0) == Some(&a.region);
            (a.at, region, a.page) == (now, true, page) && a.store && !a.missed
        });
        // A sweep that finds stores has told of the page already.
        if !told {
            self.push(now, object.0, page, false, false);
        }
    }

    /// Stores were found.
    pub(super) fn stored(&mut self, policy: &Policy, id: FolioId, now: u64) {
        let f = policy.engine().folio(id);
        if f.has(Flags::DIRTY) {
            return;
        }
        let (object, page) = f.owner();
        self.push(now, object.0, page, true, false);
    }
}

/// Slots of generations.
const GENS: u64 = coldset_engine::mglru::MAX_NR_GENS as u64;
