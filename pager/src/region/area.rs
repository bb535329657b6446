//! A region inside: a range of addresses whose pages come and go.
//!
//! Anonymous regions and files are the same thing with another backing store. An area knows its pages and
//! nothing of the pool; what moves pages has both.

use super::backing::Backing;
use super::lent::LoansOf;
use super::memory::{Faults, Memory};
use super::stream::Stream;
use crate::error::Result;
use crate::page::{PageTable, Words};
use crate::policy::Book;
use crate::sys::clock;
use crate::sys::records::Block;
use coldset_engine::FolioId;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::Arc;

/// Pages that a sweep looks at together: those of one page table.
pub(crate) use crate::sys::records::BLOCK;

/// A region as the pager sees it.
#[derive(Debug)]
pub(crate) struct Area {
    pub(super) book: Arc<Book>,
    backing: Option<Backing>,
    pub(super) memory: Memory,
    words: PageTable,
    stream: Stream,
    loans: LoansOf,
    /// Sweeps of this region that have ended.
    sweeps: AtomicU64,
    /// Bytes of page tables that the kernel has for all regions of the pool.
    pub(super) tables: Arc<AtomicU64>,
}

impl Area {
    /// Of the pages of a book. `faults`: none in explicit mode; `tables` counts bytes of page tables.
    pub(crate) fn new(
        book: Arc<Book>,
        backing: Option<Backing>,
        faults: Option<Faults>,
        tables: Arc<AtomicU64>,
    ) -> Result<Self> {
        let writable = backing.as_ref().is_none_or(|b| b.writable);
        Ok(Self {
            memory: Memory::new(book.pages(), faults, writable)?,
            words: PageTable::new(Words::new(book.records.clone())),
            backing,
            book,
            stream: Stream::default(),
            loans: LoansOf::default(),
            sweeps: AtomicU64::new(0),
            tables,
        })
    }

    /// What it is, for messages: the file by its name.
    pub(crate) fn name(&self) -> &str {
        let file = self.backing.as_ref();
        file.map_or("anonymous memory", |b| b.room.what())
    }

    /// What the policy knows of its pages.
    pub(crate) fn book(&self) -> &Arc<Book> {
        &self.book
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// States of its pages.
    pub(crate) fn words(&self) -> &PageTable {
        &self.words
    }

    /// Who reads it in order.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Its blocks in whose place the file's own pages are mapped.
    pub(crate) fn loans(&self) -> &LoansOf {
        &self.loans
    }

    /// Its file; none: anonymous memory.
    pub(crate) fn backing(&self) -> Option<&Backing> {
        self.backing.as_ref()
    }

    /// Its file, if pages of it can become dirty.
    pub(crate) fn writable_file(&self) -> Option<&Backing> {
        self.backing.as_ref().filter(|b| b.writable)
    }

    pub(crate) fn is_anon(&self) -> bool {
        self.backing.is_none()
    }

    /// Are stores refused?
    pub(crate) fn is_read_only(&self) -> bool {
        self.backing.as_ref().is_some_and(|b| !b.writable)
    }

    pub(crate) fn is_explicit(&self) -> bool {
        self.memory.is_explicit()
    }

    pub(crate) fn pages(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn folio(&self, page: usize) -> Option<FolioId> {
        self.book.folio(page)
    }

    pub(crate) fn slot(&self, page: usize) -> Option<u32> {
        self.book.slot(page)
    }

    /// Pages of a range of which anything is known.
    pub(crate) fn known(&self, pages: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        self.book.records.known(pages)
    }

    // ------------------------------------------------------------ blocks

    pub(crate) fn blocks(&self) -> usize {
        self.book.records.blocks()
    }

    /// Pages of a block.
    pub(crate) fn block(&self, b: usize) -> Range<usize> {
        b * BLOCK..((b + 1) * BLOCK).min(self.pages())
    }

    /// What is known of a block; none: no page of it has been used.
    pub(super) fn known_block(&self, b: usize) -> Option<&Block> {
        self.book.records.block(b)
    }

    /// Pages of a block that are in memory or on their way.
    pub(crate) fn in_block(&self, b: usize) -> u32 {
        self.known_block(b).map_or(0, |b| b.in_memory.load(Relaxed))
    }

    /// Names the block of a page for good.
    pub(crate) fn table_key(&self, page: usize) -> u64 {
        u64::from(self.book.object.0) << 32 | (page / BLOCK) as u64
    }

    /// When a block's first dirty page was found, nanoseconds; 0 = all clean.
    pub(crate) fn dirty_since(&self, b: usize) -> u64 {
        self.known_block(b)
            .map_or(0, |b| b.dirty_since.load(Relaxed))
    }

    /// When the block was lent last, in pages that had come in before; 0: never.
    pub(crate) fn lent_at(&self, b: usize) -> u64 {
        self.known_block(b).map_or(0, |b| b.lent_at.load(Relaxed))
    }

    /// The block was lent until now.
    pub(crate) fn set_lent_at(&self, b: usize, pages: u64) {
        let block = self.book.records.make_block(b);
        block.lent_at.store(pages.max(1), Relaxed);
    }

    /// The page is dirty.
    pub(crate) fn note_dirty(&self, page: usize) {
        if self.writable_file().is_none() {
            return;
        }
        let since = &self.book.records.make_block(page / BLOCK).dirty_since;
        if since.load(Relaxed) == 0 {
            since.store(clock::now().max(1), Relaxed);
        }
    }

    /// The block is about to be written. Called before its pages are looked at: a store from here on notes
    /// it again.
    pub(crate) fn forget_dirty(&self, b: usize) {
        if let Some(known) = self.known_block(b) {
            known.dirty_since.store(0, Relaxed);
        }
    }

    // ------------------------------------------------------------ sweeps

    /// Sweeps that have ended.
    pub(crate) fn sweeps(&self) -> u64 {
        self.sweeps.load(Relaxed)
    }

    /// A sweep has ended.
    pub(crate) fn swept(&self) {
        self.sweeps.fetch_add(1, Relaxed);
    }
}
