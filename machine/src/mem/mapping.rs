//! Mappings: the part of an address space that shows an object, with its page-table entries.
//!
//! An entry is one byte; which folio it maps is told by the object's slot. A touch of a resident
//! page is a byte test and a byte store. Leaf tables are aligned blocks of 512 entries, counted from
//! the start of the mapping.

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
    /// One page-table entry.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Pte: u8 {
        /// Maps the folio in the object's slot.
        const PRESENT = 1;
        /// Accessed since last cleared.
        const YOUNG = 2;
        /// Written since last cleared.
        const DIRTY = 4;
        /// Stores need no fault.
        const WRITABLE = 8;
    }
}

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
    pub ptes: PerPage<Pte>,
    /// For each leaf table: bit 0 = accessed mark of its upper entry, bit 1 = the table exists, bit 2 = the
    /// upper entry is a huge one.
    pub tables: PerPage<u8>,
    /// Number of entries that are present.
    pub present: u32,
    /// False once unmapped.
    pub alive: bool,
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
        Self::with(
            mm,
            object,
            start,
            flags,
            PerPage::whole(pages as usize),
            tables,
        )
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
        let ptes = PerPage::scattered(pages as usize);
        Self::with(mm, object, start, flags, ptes, tables)
    }

    fn with(
        mm: MmId,
        object: ObjectId,
        start: u32,
        flags: MappingFlags,
        ptes: PerPage<Pte>,
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
            ahead: SwapReadahead::default(),
            faults: FaultWindow::NEW,
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> u32 {
        self.ptes.len() as u32
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
        let Some(pte) = self.ptes.get_mut(e as usize) else {
            return false;
        };
        let need = if write {
            Pte::PRESENT.union(Pte::WRITABLE)
        } else {
            Pte::PRESENT
        };
        if !pte.contains(need) {
            return false;
        }
        *pte |= if write {
            Pte::YOUNG.union(Pte::DIRTY)
        } else {
            Pte::YOUNG
        };
        self.tables[(e / TABLE) as usize] |= TABLE_YOUNG;
        true
    }

    /// Loads from consecutive entries from `e` on, at most `count`, as far as they are present. Returns how
    /// many were.
    pub fn touch_run(&mut self, e: u32, count: u32) -> u32 {
        let end = e.saturating_add(count).min(self.len());
        let mut done = 0;
        for at in e..end {
            match self.ptes.get_mut(at as usize) {
                Some(pte) if pte.contains(Pte::PRESENT) => *pte |= Pte::YOUNG,
                _ => break,
            }
            done += 1;
        }
        if done > 0 {
            for t in e / TABLE..=(e + done - 1) / TABLE {
                self.tables[t as usize] |= TABLE_YOUNG;
            }
        }
        done
    }

    /// Which of at most 64 entries are present and have been accessed: a bit each, the first is bit 0.
    pub fn used(&self, entries: Range<u32>) -> u64 {
        let used = |pte: Pte| pte.contains(Pte::PRESENT.union(Pte::YOUNG));
        let (from, to) = (entries.start as usize, entries.end as usize);
        let Some(part) = self.ptes.part(from..to) else {
            let bit = |at: u32| u64::from(used(self.ptes.get(at as usize))) << (at - entries.start);
            return entries.clone().map(bit).sum();
        };
        let mut bits = 0;
        let mut eights = part.chunks_exact(8);
        for (i, c) in eights.by_ref().enumerate() {
            let c = u64::from_le_bytes(std::array::from_fn(|k| c[k].bits()));
            // PRESENT and YOUNG are the two lowest bits; the product gathers a bit of each byte.
            let both = c & c >> 1 & 0x0101_0101_0101_0101;
            bits |= (both.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
        }
        let rest = part.len() / 8 * 8;
        for (i, &pte) in eights.remainder().iter().enumerate() {
            bits |= u64::from(used(pte)) << (rest + i);
        }
        bits
    }

    /// Sets a present entry. True if its leaf table had to be created.
    pub fn set(&mut self, e: u32, bits: Pte) -> bool {
        debug_assert!(!self.ptes[e as usize].contains(Pte::PRESENT));
        self.ptes[e as usize] = bits | Pte::PRESENT;
        self.present += 1;
        let t = &mut self.tables[(e / TABLE) as usize];
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
        let marks = self.marks(range.clone());
        for e in range {
            self.ptes[e as usize] |= marks;
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

    /// Accessed and dirty bits of any of the entries.
    pub fn marks(&self, entries: Range<u32>) -> Pte {
        let all = entries.map(|e| self.ptes.get(e as usize));
        all.fold(Pte::empty(), Pte::union) & (Pte::YOUNG | Pte::DIRTY)
    }

    /// A leaf table that maps nothing is given back. True if there was one.
    pub fn drop_table(&mut self, table: u32) -> bool {
        let t = &mut self.tables[table as usize];
        std::mem::take(t) & TABLE_EXISTS != 0
    }

    /// Clears an entry and returns what it was.
    pub fn clear(&mut self, e: u32) -> Pte {
        let old = self.ptes.get_mut(e as usize);
        let old = old.map(std::mem::take).unwrap_or_default();
        self.present -= u32::from(old.contains(Pte::PRESENT));
        old
    }

    /// Clears bits of an entry.
    #[inline]
    pub fn clear_bits(&mut self, e: u32, bits: Pte) {
        if let Some(pte) = self.ptes.get_mut(e as usize) {
            *pte -= bits;
        }
    }

    /// All entries are gone.
    pub fn drop_entries(&mut self) {
        self.ptes = PerPage::growing(0);
    }

    /// All leaf tables are gone. How many there were.
    pub fn drop_tables(&mut self) -> u64 {
        let (mut n, mut from) = (0, 0);
        while let Some(t) = self.tables.next_place(from) {
            n += u64::from(self.tables[t] & TABLE_EXISTS != 0);
            from = t + 1;
        }
        self.tables = PerPage::growing(0);
        n
    }

    /// The first leaf table at or after `from` that may exist.
    #[inline]
    pub fn next_table(&self, from: u32) -> Option<u32> {
        self.tables.next_place(from as usize).map(|t| t as u32)
    }

    /// Entries of leaf table `t` that belong to the mapping.
    #[inline]
    pub fn table_range(&self, t: u32) -> std::ops::Range<u32> {
        t * TABLE..((t + 1) * TABLE).min(self.len())
    }
}

/// Name of a leaf table for the engine: the same table always has the same key.
#[inline]
pub fn table_key(m: MappingId, table: u32) -> u64 {
    u64::from(m.0) << 32 | u64::from(table)
}
