//! Mappings: the part of an address space that shows an object, with its page-table entries.
//!
//! Leaf tables are aligned blocks of 512 entries, counted from the start of the mapping.

use super::entries::Entries;
pub use super::entries::Pte;
use super::per_page::PerPage;
use crate::io::read_ahead::{Advice, FaultWindow};
use bitflags::bitflags;
use coldset_engine::swap::SwapReadahead;
use coldset_engine::{MmId, ObjectId};
use std::ops::Range;

/// Entries of a leaf table.
pub const TABLE: u32 = 512;

/// A mapping of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MappingId(pub u32);

bitflags! {
    /// Properties of a mapping.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct MappingFlags: u8 {
        /// Its pages may be executed.
        const EXEC = 1;
        /// Random or sequential advice: accessed bits are ignored, no read-ahead.
        const NO_RECENCY = 2;
        /// Locked into memory.
        const LOCKED = 4;
        /// With `NO_RECENCY`: the advice is sequential, and faults read ahead.
        const SEQUENTIAL = 8;
        /// No huge pages.
        const NO_HUGE = 16;
    }
}

/// A range of an address space that shows part of an object.
#[derive(Debug)]
pub struct Mapping {
    /// Address space it is part of.
    pub mm: MmId,
    /// Object whose pages it shows.
    pub object: ObjectId,
    /// Object page of the first entry.
    pub start: u32,
    /// Executable, locked, advice.
    pub flags: MappingFlags,
    /// Page-table entries, one for each page.
    pub ptes: Entries,
    /// For each leaf table: bit 0 = accessed mark of its upper entry, bit 1 = the table exists, bit 2 = the
    /// upper entry is a huge one.
    pub tables: PerPage<u8>,
    /// Number of entries that are present.
    pub present: u32,
    /// False once unmapped.
    pub alive: bool,
    /// The first mapping of the address space that had these addresses, or that of its leaf table, if it shares one; none:
    /// this one.
    pub(crate) place: Option<MappingId>,
    /// Shares its leaf table with others of the address space.
    pub(crate) shares_table: bool,
    /// Of mappings that share the leaf table that is called after this one, those with entries in it.
    pub(crate) in_table: u32,
    /// Read-ahead of pages that are in swap.
    pub ahead: SwapReadahead,
    /// Read-ahead of a file.
    pub(crate) faults: FaultWindow,
}

impl MappingFlags {
    /// How faults are told to expect each other.
    pub(crate) fn advice(self) -> Advice {
        match self.contains(Self::NO_RECENCY) {
            true if self.contains(Self::SEQUENTIAL) => Advice::Sequential,
            true => Advice::Random,
            false => Advice::Normal,
        }
    }
}

/// Accessed mark of an upper entry.
pub const TABLE_YOUNG: u8 = 1;
/// The leaf table exists (and is charged).
pub const TABLE_EXISTS: u8 = 2;
/// The upper entry maps a huge folio itself (a table for later is there, and charged). It is accessed, or
/// written, if any of the entries below says so: a touch marks the one it goes through, whoever clears the
/// marks clears all of them.
pub const TABLE_HUGE: u8 = 4;

impl Mapping {
    /// A mapping of `pages` pages from `start` on, nothing present.
    pub fn new(mm: MmId, object: ObjectId, start: u32, pages: u32, flags: MappingFlags) -> Self {
        let tables = PerPage::whole(pages.div_ceil(TABLE) as usize);
        Self::with(mm, object, start, flags, Entries::whole(pages), tables)
    }

    /// The same, taking memory by the entries that are used.
    pub fn scattered(
        mm: MmId,
        object: ObjectId,
        start: u32,
        pages: u32,
        flags: MappingFlags,
    ) -> Self {
        let tables = PerPage::scattered(pages.div_ceil(TABLE) as usize);
        let ptes = Entries::scattered(pages);
        Self::with(mm, object, start, flags, ptes, tables)
    }

    fn with(
        mm: MmId,
        object: ObjectId,
        start: u32,
        flags: MappingFlags,
        ptes: Entries,
        tables: PerPage<u8>,
    ) -> Self {
        Self {
            mm,
            object,
            start,
            flags,
            ptes,
            tables,
            present: 0,
            alive: true,
            place: None,
            shares_table: false,
            in_table: 0,
            ahead: SwapReadahead::default(),
            faults: FaultWindow::NEW,
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> u32 {
        self.ptes.len()
    }

    /// True if it has no entries.
    pub fn is_empty(&self) -> bool {
        self.ptes.is_empty()
    }

    /// The entry number that shows `page` of the object.
    #[inline]
    pub fn entry_of(&self, page: u32) -> Option<u32> {
        page.checked_sub(self.start).filter(|&e| e < self.len())
    }

    /// The entries that show pages of a folio.
    #[inline]
    pub fn entries_of(&self, pages: &Range<u32>) -> Range<u32> {
        let from = pages.start.saturating_sub(self.start).min(self.len());
        let to = pages.end.saturating_sub(self.start).min(self.len());
        from..to
    }

    /// A touch of entry `e`: true if it is present (and, for a store, writable). Sets the accessed
    /// and dirty bits as hardware does.
    #[inline]
    pub fn touch(&mut self, e: u32, write: bool) -> bool {
        if !self.ptes.touch(e, write) {
            return false;
        }
        self.tables[(e / TABLE) as usize] |= TABLE_YOUNG;
        true
    }

    /// Loads from consecutive entries from `e` on, at most `count`, as far as they are present. Returns how
    /// many were.
    pub fn touch_run(&mut self, e: u32, count: u32) -> u32 {
        let end = e.saturating_add(count).min(self.len());
        let done = self.ptes.touch_run(e.min(end)..end);
        if done > 0 {
            for t in e / TABLE..=(e + done - 1) / TABLE {
                self.tables[t as usize] |= TABLE_YOUNG;
            }
        }
        done
    }

    /// Sets a present entry. True if its leaf table had to be created.
    pub fn set(&mut self, e: u32, bits: Pte) -> bool {
        debug_assert!(!self.ptes.is_present(e));
        self.ptes.add(e, bits | Pte::PRESENT);
        self.present += 1;
        self.enter_table(e / TABLE)
    }

    /// The same for the entries from `first` on whose bits are in `which`, which lie in one leaf table.
    pub fn set_some(&mut self, first: u32, which: u64, bits: Pte) -> bool {
        self.ptes.add_some(first, which, bits | Pte::PRESENT);
        self.present += which.count_ones();
        self.enter_table(first / TABLE)
    }

    /// An entry of a leaf table has been set. True if the table had to be created.
    #[inline]
    fn enter_table(&mut self, table: u32) -> bool {
        let t = &mut self.tables[table as usize];
        let new = *t & TABLE_EXISTS == 0;
        *t |= TABLE_EXISTS | TABLE_YOUNG;
        new
    }

    /// True if the entry is part of a huge one.
    #[inline]
    pub fn is_huge(&self, e: u32) -> bool {
        self.tables.get((e / TABLE) as usize) & TABLE_HUGE != 0
    }

    /// The upper entry of an empty table's place becomes a huge one. True if the table had to be created.
    pub fn set_huge(&mut self, table: u32, bits: Pte) -> bool {
        let mut new = false;
        for e in self.table_range(table) {
            new |= self.set(e, bits);
        }
        self.tables[table as usize] |= TABLE_HUGE;
        new
    }

    /// A huge entry becomes a table of single ones, all of them accessed, and written, if it was. False if it
    /// is none.
    pub fn split_huge(&mut self, table: u32) -> bool {
        if self.tables.get(table as usize) & TABLE_HUGE == 0 {
            return false;
        }
        self.leave_huge(table * TABLE);
        let range = self.table_range(table);
        let marks = self.ptes.marks(range.clone());
        for e in range {
            self.ptes.add(e, marks);
        }
        true
    }

    /// The entry is about to be cleared, and with it all others of its table, if it is part of a huge one.
    #[inline]
    pub fn leave_huge(&mut self, e: u32) {
        if let Some(t) = self.tables.get_mut((e / TABLE) as usize) {
            *t &= !TABLE_HUGE;
        }
    }

    /// A leaf table that maps nothing is given back. True if there was one.
    pub fn drop_table(&mut self, table: u32) -> bool {
        let t = &mut self.tables[table as usize];
        std::mem::take(t) & TABLE_EXISTS != 0
    }

    /// Clears an entry and returns what it was.
    pub fn clear(&mut self, e: u32) -> Pte {
        let old = self.ptes.clear(e);
        self.present -= u32::from(old.contains(Pte::PRESENT));
        old
    }

    /// All entries are gone.
    pub fn drop_entries(&mut self) {
        self.ptes = Entries::whole(0);
    }

    /// All leaf tables are gone. How many there were.
    pub fn drop_tables(&mut self) -> u64 {
        let (mut n, mut from) = (0, 0);
        while let Some(t) = self.tables.next_set(from) {
            n += u64::from(self.tables[t] & TABLE_EXISTS != 0);
            from = t + 1;
        }
        self.tables = PerPage::growing(0);
        n
    }

    /// The first leaf table at or after `from` that may exist.
    #[inline]
    pub fn next_table(&self, from: u32) -> Option<u32> {
        self.tables.next_set(from as usize).map(|t| t as u32)
    }

    /// Entries of leaf table `t` that belong to the mapping.
    #[inline]
    pub fn table_range(&self, t: u32) -> std::ops::Range<u32> {
        t * TABLE..((t + 1) * TABLE).min(self.len())
    }
}

/// Name of leaf table `table` of the mapping `id` for the engine: that of the upper entry it hangs from, and so what is
/// mapped later at the same addresses has it again.
#[inline]
pub fn table_key(id: MappingId, m: &Mapping, table: u32) -> u64 {
    u64::from(m.place.unwrap_or(id).0) << 32 | u64::from(table)
}
