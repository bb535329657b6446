//! What is going to be looked at, brought into the CPU's cache ahead of time. Changes nothing.
//!
//! With many pages, a third of the time of an access that misses, with the reclaim that it causes, was waiting for a few words.
//! Which ones is known before they are needed: a trace says what comes, and so does a list of victims. What is found through
//! another word is asked for in two steps, the second when that word has come.

use crate::mem::mapping::TABLE;
use crate::mem::MappingId;
use crate::world::World;
use coldset_engine::mglru::look_around::window;
use coldset_engine::{FolioId, ObjectId};

/// Slots in a line of the cache, 64 bytes on most CPUs.
const SLOTS_A_LINE: usize = 8;

impl World {
    /// How many accesses are best looked ahead at.
    pub const AHEAD: usize = 32;

    /// The slots of pages.
    #[inline]
    pub fn prefetch_slots(&self, object: ObjectId, pages: impl Iterator<Item = u32>) {
        let object = &self.objects[object.idx()];
        pages.for_each(|page| object.prefetch(page));
    }

    /// The folios of pages, whose slots have come.
    #[inline]
    pub fn prefetch_folios(&self, object: ObjectId, pages: impl Iterator<Item = u32>) {
        let object = &self.objects[object.idx()];
        pages.for_each(|page| self.engine.prefetch(object.word(page).folio_or_zero()));
    }

    /// The folio that an entry shows, whose slot has come; none beyond the end.
    #[inline]
    pub(crate) fn prefetch_folio_of(&self, mapping: MappingId, entry: u32) {
        let m = &self.mappings[mapping.0 as usize];
        if m.ptes.is_present(entry) {
            let word = self.objects[m.object.idx()].word(m.start + entry);
            self.engine.prefetch(word.folio_or_zero());
        }
    }

    /// Entries of a mapping.
    #[inline]
    pub fn prefetch_entries(&self, mapping: MappingId, entries: impl Iterator<Item = u32>) {
        let m = &self.mappings[mapping.0 as usize];
        entries.for_each(|entry| m.ptes.prefetch(entry));
    }

    /// The slots behind entries that have come and are empty.
    #[inline]
    pub fn prefetch_absent(&self, mapping: MappingId, entries: impl Iterator<Item = u32>) {
        let m = &self.mappings[mapping.0 as usize];
        let absent = entries.filter(|&entry| !m.ptes.is_present(entry));
        self.prefetch_slots(m.object, absent.map(|entry| m.start + entry));
    }

    /// Entries and slots of victims.
    #[inline]
    pub(crate) fn prefetch_victims(&self, victims: &[FolioId]) {
        for &id in victims {
            let (object, page) = self.engine.folio(id).owner();
            let object = &self.objects[object.idx()];
            object.prefetch(page);
            if let Some(&mapping) = object.mappings.first() {
                let m = &self.mappings[mapping.0 as usize];
                if let Some(e) = m.entry_of(page) {
                    m.ptes.prefetch(e);
                }
            }
        }
    }

    /// Entries of the victim that comes next, in the mappings besides the first. Those of a whole batch would not all stay
    /// in the cache.
    #[inline]
    pub(crate) fn prefetch_shared(&self, victim: FolioId) {
        let (object, page) = self.engine.folio(victim).owner();
        for mapping in self.objects[object.idx()].mappings.iter().skip(1) {
            let m = &self.mappings[mapping.0 as usize];
            if let Some(e) = m.entry_of(page) {
                m.ptes.prefetch(e);
            }
        }
    }

    /// The slots that look-around will look at if this victim, whose entry has come, has been used.
    #[inline]
    pub(crate) fn prefetch_neighbours(&self, victim: FolioId) {
        let (object, page) = self.engine.folio(victim).owner();
        let object = &self.objects[object.idx()];
        let Some(&mapping) = object.mappings.first() else {
            return;
        };
        let m = &self.mappings[mapping.0 as usize];
        let used = |&e: &u32| m.ptes.accessed(e) == Some(true);
        let Some(e) = m.entry_of(page).filter(used) else {
            return;
        };
        let table = m.table_range(e / TABLE);
        let (from, to) = window(e.into(), table.start.into(), table.end.into());
        for e in (from as u32..to as u32).step_by(SLOTS_A_LINE) {
            object.prefetch(m.start + e);
        }
    }
}
