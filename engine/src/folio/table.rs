//! The folio table: one record for each folio in memory, recycled through a free list.
//!
//! Records are an array of structures rather than a structure of arrays: a list move or a reclaim
//! decision touches links, flags and owner of the same folio together, which is one cache line this
//! way and four the other.

use super::flags::{FlagWord, Flags};
use crate::ids::{FolioId, LruType, LruvecId, ObjectId};
use prefetch_index::prefetch_index;
use std::ops::{Index, IndexMut};

/// Metadata of one folio. At most 40 bytes (asserted by a test).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Folio {
    /// Towards the tail (older) on its list; next free record when free.
    pub(super) next: FolioId,
    /// Towards the head (newer) on its list.
    pub(super) prev: FolioId,
    /// Flags, generation and refs.
    pub(super) word: FlagWord,
    /// The lruvec it is charged to.
    pub(super) lruvec: LruvecId,
    /// References: owner slots, mappings, batches, isolation, host users. 0 = free or frozen.
    pub(super) refcount: u32,
    /// Page-table entries that map it.
    pub(super) mapcount: u32,
    /// The object whose slot holds it.
    pub(super) object: ObjectId,
    /// Its first page's index in the object.
    pub(super) index: u32,
    /// Swap slot + 1 while in the swap cache, else 0.
    pub(super) swap: u32,
    /// Order: the folio has `1 << order` pages.
    pub(super) order: u8,
    /// Zone index on its node.
    pub(super) zone: u8,
    /// Multi-gen: slot of the list it is physically on, which lags behind its generation. List
    /// policies: number of its list.
    pub(super) home: u8,
}

impl Folio {
    /// Number of base pages.
    #[inline]
    pub fn nr_pages(&self) -> u64 {
        1 << self.order
    }

    /// True if all of `f` are set.
    #[inline]
    pub fn has(&self, f: Flags) -> bool {
        self.word.has(f)
    }

    /// True if any of `f` is set.
    #[inline]
    pub fn any(&self, f: Flags) -> bool {
        self.word.any(f)
    }

    /// Anonymous or file, for list membership: lazily freeable anonymous memory counts as file.
    #[inline]
    pub fn lru_type(&self) -> LruType {
        if self.word.has(Flags::SWAPBACKED) {
            LruType::Anon
        } else {
            LruType::File
        }
    }

    /// True if its dirty mark is accounted for (dirty limits, flushers): page cache of files, not
    /// shmem and not anonymous memory, whether lazily freeable or not.
    #[inline]
    pub fn counts_as_dirty_file(&self) -> bool {
        !self.word.any(Flags::ANON.union(Flags::SWAPBACKED))
    }

    /// True if some page table maps it.
    #[inline]
    pub fn mapped(&self) -> bool {
        self.mapcount > 0
    }

    /// False if it is locked into memory, by itself or by its mapping.
    #[inline]
    pub fn evictable(&self) -> bool {
        !self
            .word
            .any(Flags::MLOCKED.union(Flags::MAPPING_UNEVICTABLE))
    }

    /// The object whose slot holds it and its index there.
    #[inline]
    pub fn owner(&self) -> (ObjectId, u32) {
        (self.object, self.index)
    }

    /// The lruvec it belongs to.
    #[inline]
    pub fn lruvec(&self) -> LruvecId {
        self.lruvec
    }

    /// Number of references held.
    #[inline]
    pub fn refcount(&self) -> u32 {
        self.refcount
    }

    /// Page-table entries that map it.
    #[inline]
    pub fn mapcount(&self) -> u32 {
        self.mapcount
    }

    /// Its swap slot while it is in the swap cache.
    #[inline]
    pub fn swap_slot(&self) -> Option<u32> {
        self.swap.checked_sub(1)
    }

    /// Flags, generation and refs.
    #[inline]
    pub fn word(&self) -> FlagWord {
        self.word
    }

    /// The folio has `1 << order` pages.
    #[inline]
    pub fn order(&self) -> u8 {
        self.order
    }

    /// Index of its zone on its node.
    #[inline]
    pub fn zone(&self) -> u8 {
        self.zone
    }

    /// Multi-gen: slot of the list it is physically on, which lags behind its generation. List
    /// policies: number of its list.
    #[inline]
    pub(crate) fn home(&self) -> u8 {
        self.home
    }

    /// Its neighbour on its list, towards the newest end.
    #[inline]
    pub(crate) fn newer(&self) -> Option<FolioId> {
        self.prev.is_some().then_some(self.prev)
    }

    /// References that remain when nobody but the owning slots and one isolating reclaimer holds it
    /// (`docs/rules/shrink-list.md#steps`).
    #[inline]
    pub(crate) fn expected_refs(&self) -> u32 {
        1 + self.nr_pages() as u32
    }

    /// On a list, and not about to be freed: a reclaimer may isolate it.
    #[inline]
    pub(crate) fn can_isolate(&self) -> bool {
        self.has(Flags::LRU) && self.refcount > 0
    }

    /// Sets all of `f`.
    #[inline]
    pub(crate) fn set(&mut self, f: Flags) {
        self.word.set(f);
    }

    /// Clears all of `f`.
    #[inline]
    pub(crate) fn clear(&mut self, f: Flags) {
        self.word.clear(f);
    }

    /// Clears `f` and says whether any of it was set.
    #[inline]
    pub(crate) fn test_clear(&mut self, f: Flags) -> bool {
        self.word.test_clear(f)
    }

    /// Flags, generation and refs, for the rules of a kernel to change.
    #[inline]
    pub(crate) fn word_mut(&mut self) -> &mut FlagWord {
        &mut self.word
    }

    /// Remembers the list it is about to be on.
    #[inline]
    pub(crate) fn set_home(&mut self, list: u8) {
        self.home = list;
    }

    /// Takes `n` references to a folio that somebody holds.
    #[inline]
    pub(crate) fn get(&mut self, n: u32) {
        debug_assert!(self.refcount > 0, "reference to a dead folio: {self:?}");
        self.refcount += n;
    }

    /// Drops `n` references. True if none is left.
    #[inline]
    pub(crate) fn put(&mut self, n: u32) -> bool {
        assert!(self.refcount >= n, "fewer references than {n}: {self:?}");
        self.refcount -= n;
        self.refcount == 0
    }

    /// Drops all references at once: from here on nobody can find it, and it will be freed.
    #[inline]
    pub(crate) fn freeze(&mut self) {
        self.refcount = 0;
    }

    /// A reclaimer takes it: one reference, and not on a list any more.
    #[inline]
    pub(crate) fn isolate(&mut self) {
        self.get(1);
        self.clear(Flags::LRU);
    }

    /// A page-table entry maps it: one map count, one reference.
    #[inline]
    pub(crate) fn map(&mut self) {
        self.mapcount += 1;
        self.refcount += 1;
    }

    /// A page-table entry is gone, and its reference. True if no reference is left.
    #[inline]
    pub(crate) fn unmap(&mut self) -> bool {
        debug_assert!(self.mapcount > 0, "not mapped: {self:?}");
        self.mapcount -= 1;
        self.put(1)
    }

    /// The swap cache holds it, with one reference a page.
    pub(crate) fn enter_swap_cache(&mut self, slot: u32) {
        debug_assert!(!self.has(Flags::SWAPCACHE));
        self.set(Flags::SWAPCACHE);
        self.swap = slot + 1;
        self.refcount += self.nr_pages() as u32;
    }

    /// The swap cache lets it go.
    pub(crate) fn leave_swap_cache(&mut self) {
        debug_assert!(self.has(Flags::SWAPCACHE));
        self.clear(Flags::SWAPCACHE);
        self.swap = 0;
        self.refcount -= self.nr_pages() as u32;
    }
}

/// What a new folio is.
#[derive(Clone, Copy, Debug)]
pub struct NewFolio {
    /// Lruvec it is charged to.
    pub lruvec: LruvecId,
    /// Object and index of its slot.
    pub object: ObjectId,
    /// Index of the first page in the object.
    pub index: u32,
    /// Log2 of the number of pages.
    pub order: u8,
    /// Zone its pages are in.
    pub zone: u8,
    /// Flags it begins with: its kind at least.
    pub flags: Flags,
}

impl NewFolio {
    /// A single page in the lowest zone.
    #[inline]
    pub fn page(lruvec: LruvecId, object: ObjectId, index: u32, flags: Flags) -> Self {
        Self {
            lruvec,
            object,
            index,
            order: 0,
            zone: 0,
            flags,
        }
    }
}

/// All folios in memory.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct FolioTable {
    folios: Vec<Folio>,
    free: u32,
    live: usize,
}

impl FolioTable {
    /// An empty table with room for `folios` records.
    pub fn with_capacity(folios: usize) -> Self {
        Self {
            folios: Vec::with_capacity(folios),
            free: u32::MAX,
            live: 0,
        }
    }

    /// Takes a record: one reference (the caller's), on no list.
    pub fn alloc(&mut self, new: NewFolio) -> FolioId {
        let folio = Folio {
            next: FolioId::NONE,
            prev: FolioId::NONE,
            word: FlagWord::new(new.flags),
            lruvec: new.lruvec,
            refcount: 1,
            mapcount: 0,
            object: new.object,
            index: new.index,
            swap: 0,
            order: new.order,
            zone: new.zone,
            home: 0,
        };
        self.live += 1;
        if self.free != u32::MAX {
            let id = FolioId(self.free);
            self.free = self.folios[id.idx()].next.0;
            self.folios[id.idx()] = folio;
            // The next folio gets this one, which may have been free for long.
            self.prefetch(FolioId(self.free));
            id
        } else {
            let id = FolioId(u32::try_from(self.folios.len()).expect("under 2^32 folios"));
            self.folios.push(folio);
            id
        }
    }

    /// Returns a record. The folio must be on no list, unmapped and without references.
    pub fn release(&mut self, id: FolioId) {
        let f = &mut self.folios[id.idx()];
        assert!(
            f.refcount == 0 && f.mapcount == 0 && !f.word.any(Flags::LRU) && f.word.gen().is_none(),
            "folio {id:?} is still in use: {f:?}"
        );
        f.word = FlagWord::new(Flags::DEAD);
        f.next = FolioId(self.free);
        self.free = id.0;
        self.live -= 1;
    }

    /// Brings a record into the CPU's cache, if there is one.
    #[inline]
    pub fn prefetch(&self, id: FolioId) {
        prefetch_index(&self.folios, id.idx());
        // Half of the records end in another line of the cache than they begin in.
        prefetch_index(&self.folios, id.idx().wrapping_add(1));
    }

    /// The folio on the newer side of any record, in use or not; none beyond the end. Its record is brought into the CPU's
    /// cache.
    #[inline]
    pub(crate) fn prefetch_newer(&self, id: FolioId) -> FolioId {
        let newer = self.folios.get(id.idx()).map_or(FolioId::NONE, |f| f.prev);
        if newer.is_some() {
            self.prefetch(newer);
        }
        newer
    }

    /// Records, in use or free: one more than the largest identifier.
    pub fn records(&self) -> usize {
        self.folios.len()
    }

    /// Folios in use.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Identifiers of all folios in use.
    pub fn iter(&self) -> impl Iterator<Item = (FolioId, &Folio)> {
        self.folios
            .iter()
            .enumerate()
            .filter(|(_, f)| !f.word.has(Flags::DEAD))
            .map(|(i, f)| (FolioId(i as u32), f))
    }
}

impl Index<FolioId> for FolioTable {
    type Output = Folio;
    #[inline]
    fn index(&self, id: FolioId) -> &Folio {
        &self.folios[id.idx()]
    }
}

impl IndexMut<FolioId> for FolioTable {
    #[inline]
    fn index_mut(&mut self, id: FolioId) -> &mut Folio {
        &mut self.folios[id.idx()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folio_record_takes_at_most_40_bytes() {
        assert!(std::mem::size_of::<Folio>() <= 40);
    }
}
