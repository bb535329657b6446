//! Compressed memory: LZ4, Zstandard, or the first and for what stays long the second; a page of one
//! repeated word as that word, hardly compressible pages as they are, if no file behind it takes them.
//!
//! A slot belongs to one caller at a time, the owner of its page, except for recompression: it copies
//! a page, works without a lock, and replaces the object only if the owner has not touched the slot
//! meanwhile. `recompressing` says whose copy is on its way; an owner who empties the slot clears it.
//! Pages that go to the swap file (`leave.rs`) are treated alike: `leaving` has their slots.

mod leave;
mod recompress;

use super::age::{Ages, List};
use super::codec::{lz4, unlz4, Zstd};
use super::entry::Entry;
use super::slab::{Slab, CHUNK};
use crate::meanwhile::meanwhile;
use crate::sys::memory::Table;
use crate::sys::{clock, PAGE};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

pub use super::codec::same_filled;

/// Bytes a buffer for [`Compressed::put`] and [`Compressed::get`] must have.
pub const SCRATCH: usize = 2 * PAGE;

/// How pages are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Codec {
    /// LZ4: fast.
    #[default]
    Lz4,
    /// LZ4 first, Zstandard for what has been in the store for so long, or sooner when it gets full.
    Lz4ThenZstd(Duration),
    /// Zstandard: smaller, and slower in both directions.
    Zstd,
}

/// What the store holds, exactly, and what recompression has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tiers {
    /// Pages of one repeated word: they take no memory.
    pub same_pages: u64,
    /// Pages kept as they are, of 4096 bytes.
    pub raw_pages: u64,
    /// Pages compressed by LZ4.
    pub lz4_pages: u64,
    /// Bytes of those.
    pub lz4_bytes: u64,
    /// Pages compressed by Zstandard.
    pub zstd_pages: u64,
    /// Bytes of those.
    pub zstd_bytes: u64,
    /// Pages in the file.
    pub file_pages: u64,
    /// Pages that went from LZ4, or from as they are, to Zstandard, ever.
    pub recompressed: u64,
    /// Bytes that has saved, ever.
    pub saved_bytes: u64,
    /// Pages that Zstandard would not have made smaller, ever.
    pub not_smaller: u64,
}

impl Tiers {
    /// All of it by the names of the fields.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("same_pages", self.same_pages),
            ("raw_pages", self.raw_pages),
            ("lz4_pages", self.lz4_pages),
            ("lz4_bytes", self.lz4_bytes),
            ("zstd_pages", self.zstd_pages),
            ("zstd_bytes", self.zstd_bytes),
            ("file_pages", self.file_pages),
            ("recompressed", self.recompressed),
            ("saved_bytes", self.saved_bytes),
            ("not_smaller", self.not_smaller),
        ]
    }

    /// Pages that take memory.
    fn pages(&self) -> u64 {
        self.raw_pages + self.lz4_pages + self.zstd_pages
    }

    /// Bytes of contents, without the rounding of the allocator.
    pub fn bytes(&self) -> u64 {
        self.raw_pages * PAGE as u64 + self.lz4_bytes + self.zstd_bytes
    }

    fn count(&mut self, e: Entry, sign: i64) {
        let (pages, bytes, len) = match e {
            Entry::Empty | Entry::Same => return,
            Entry::Raw(_) => {
                self.raw_pages = self.raw_pages.wrapping_add_signed(sign);
                return;
            }
            Entry::Lz4(_, n) => (&mut self.lz4_pages, &mut self.lz4_bytes, n),
            Entry::Zstd(_, n) => (&mut self.zstd_pages, &mut self.zstd_bytes, n),
        };
        *pages = pages.wrapping_add_signed(sign);
        *bytes = bytes.wrapping_add_signed(sign * len as i64);
    }
}

/// What a page may take from the system when no chunk has a place for its size.
pub enum Grow<'a> {
    /// A chunk for objects of its size.
    Freely,
    /// The same, if whoever is asked says so; else a place for larger objects has to do.
    Asking(&'a mut dyn FnMut() -> bool),
    /// A chunk of places for whole pages, and only if there is no place for larger objects either: what
    /// follows finds a place in it, whatever its size.
    ForAll,
}

/// What a try to recompress came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recompressed {
    /// A page is smaller now, or was tried in vain, or left meanwhile: there may be more.
    Page,
    /// There is no page as old as that.
    Nothing,
}

#[derive(Debug)]
struct Inner {
    slab: Slab,
    tiers: Tiers,
    /// Pages in the order in which they came, where Zstandard or a file takes the oldest.
    ages: Option<Ages>,
    /// The slot whose copy is being recompressed.
    recompressing: Option<u32>,
    /// Slots whose copies are on their way to a file.
    leaving: Vec<u32>,
    /// The same with those that have been emptied or filled anew meanwhile.
    under_way: Vec<u32>,
    /// A page found no place since the oldest have been asked to leave.
    refused: bool,
    /// Pages that may stay beyond their time, because others were missed.
    stay: u64,
}

/// Buffers of recompression, for one at a time.
#[derive(Debug)]
struct Bench {
    packed: Vec<u8>,
    page: Vec<u8>,
    out: Vec<u8>,
}

/// Pages by slot. A slot is used by one caller at a time (the owner of the page).
#[derive(Debug)]
pub struct Compressed {
    codec: Codec,
    entries: Table<AtomicU64>,
    words: Table<AtomicU64>,
    inner: Mutex<Inner>,
    /// Nothing is under way any more.
    arrived: Condvar,
    bytes: AtomicU64,
    same: AtomicU64,
    limit: AtomicU64,
    /// With a file behind it: pages that it keeps in memory at most.
    before_file: Option<u64>,
    /// There may be pages that Zstandard has not been tried on.
    untried: AtomicBool,
    zstd: Zstd,
    bench: Mutex<Bench>,
}

/// What [`Compressed::put`] fails with if a page hardly compresses and there is a file for such.
pub const INCOMPRESSIBLE: i32 = libc::E2BIG;

fn full() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

impl Compressed {
    /// Room for `slots` pages in at most `limit` bytes.
    ///
    /// # Errors
    /// Address space for the tables.
    pub fn new(slots: u32, limit: u64, codec: Codec) -> io::Result<Self> {
        let two = matches!(codec, Codec::Lz4ThenZstd(_));
        Ok(Self {
            codec,
            entries: Table::new(slots as usize)?,
            words: Table::new(slots as usize)?,
            inner: Mutex::new(Inner {
                slab: Slab::new(),
                tiers: Tiers::default(),
                ages: if two { Some(Ages::new(slots)?) } else { None },
                recompressing: None,
                leaving: Vec::new(),
                under_way: Vec::new(),
                refused: false,
                stay: 0,
            }),
            arrived: Condvar::new(),
            bytes: AtomicU64::new(0),
            same: AtomicU64::new(0),
            untried: AtomicBool::new(false),
            limit: AtomicU64::new(limit),
            before_file: None,
            zstd: Zstd::default(),
            bench: Mutex::new(Bench {
                packed: vec![0; SCRATCH],
                page: vec![0; PAGE],
                out: vec![0; SCRATCH],
            }),
        })
    }

    /// There is a file for what it refuses: pages that hardly compress, which would take as much memory as before they
    /// were evicted, and all beyond the first `pages` that take memory.
    ///
    /// # Errors
    /// Address space for the order of the pages.
    pub fn before_file(mut self, pages: u64) -> io::Result<Self> {
        self.before_file = Some(pages);
        let ages = Ages::new(self.entries.len() as u32)?;
        self.lock().ages = Some(ages);
        Ok(self)
    }

    /// How it compresses.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Bytes that the tables take for a slot that is, or has been, used.
    pub fn bytes_a_slot(&self) -> u64 {
        // Its neighbours in a list, and since when it has been there.
        let ages = match (self.has_tiers(), self.before_file) {
            (true, _) => 12,
            (false, Some(_)) => 8,
            (false, None) => 0,
        };
        // Words of same-filled pages are few.
        size_of::<AtomicU64>() as u64 + ages
    }

    /// The most it may take.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Of the limit, what first-tier pages leave to recompression.
    fn reserve(&self) -> u64 {
        match self.has_tiers() {
            true => (self.limit() / 8).min(16 * CHUNK as u64),
            false => 0,
        }
    }

    /// The most that pages may take as they come.
    fn may_take(&self) -> u64 {
        self.limit().saturating_sub(self.reserve())
    }

    /// From now on it may take so much; when this returns, nobody takes more. What is there stays.
    pub fn set_limit(&self, bytes: u64) {
        let _nobody_grows = self.lock();
        self.limit.store(bytes, Relaxed);
    }

    /// What it holds.
    pub fn tiers(&self) -> Tiers {
        Tiers {
            same_pages: self.same.load(Relaxed),
            ..self.lock().tiers
        }
    }

    /// True if the slot holds a page.
    pub fn has(&self, slot: u32) -> bool {
        self.entries[slot as usize].load(Relaxed) != 0
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("compressed memory")
    }

    fn entry(&self, slot: u32) -> Entry {
        Entry::unpack(self.entries[slot as usize].load(Acquire))
    }

    fn set(&self, slot: u32, e: Entry) {
        self.entries[slot as usize].store(e.pack(), Release);
    }

    /// Keeps a page, in place of what the slot held.
    ///
    /// # Errors
    /// `StorageFull` at the limit, if it may not take what it needs, or `E2BIG` if it hardly compresses and is one [for
    /// the file](Self::before_file); the slot is empty then.
    pub fn put(
        &self,
        slot: u32,
        page: &[u8],
        scratch: &mut [u8],
        grow: Grow<'_>,
    ) -> io::Result<()> {
        self.remove(slot);
        meanwhile();
        if let Some(word) = same_filled(page) {
            self.words[slot as usize].store(word, Relaxed);
            self.same.fetch_add(1, Relaxed);
            self.set(slot, Entry::Same);
            return Ok(());
        }
        let by_zstd = self.codec == Codec::Zstd;
        let len = if by_zstd {
            self.zstd.compress(page, scratch)
        } else {
            lz4(page, scratch)
        };
        let data = len.map_or(page, |n| &scratch[..n]);
        let mut inner = self.lock();
        if let Some(most) = self.before_file {
            if len.is_none() {
                return Err(io::Error::from_raw_os_error(INCOMPRESSIBLE));
            }
            if inner.tiers.pages() >= most {
                return Err(full());
            }
        }
        let limit = self.may_take();
        let inserted = self.insert(&mut inner, slot, data, limit, grow);
        let h = inserted.inspect_err(|_| inner.refused = true)?;
        let e = match len {
            None => Entry::Raw(h),
            Some(n) if by_zstd => Entry::Zstd(h, n),
            Some(n) => Entry::Lz4(h, n),
        };
        inner.tiers.count(e, 1);
        let untried = self.has_tiers();
        if let Some(ages) = &mut inner.ages {
            let list = if untried { List::Untried } else { List::Final };
            ages.push(list, slot, self.now());
        }
        if untried {
            self.untried.store(true, Relaxed);
        }
        self.set(slot, e);
        Ok(())
    }

    fn insert(
        &self,
        inner: &mut Inner,
        slot: u32,
        data: &[u8],
        limit: u64,
        grow: Grow<'_>,
    ) -> io::Result<super::slab::Handle> {
        let slab = &mut inner.slab;
        let may = slab.bytes() + CHUNK as u64 <= limit;
        let (own_size, any_size) = match grow {
            _ if !slab.must_grow(data.len()) => (true, false),
            _ if !may => (false, false),
            Grow::Freely => (true, false),
            Grow::Asking(ask) => (ask(), false),
            Grow::ForAll => (false, true),
        };
        let h = match own_size {
            true => slab.insert(data, slot)?,
            // A place that is too large is better than none.
            false => match slab.insert_here(data, slot) {
                None if any_size => slab.insert_for_all(data, slot)?,
                place => place.ok_or_else(full)?,
            },
        };
        self.bytes.store(slab.bytes(), Relaxed);
        Ok(h)
    }

    /// Brings a page back; the slot keeps it.
    ///
    /// # Errors
    /// The slot is empty, perhaps because the page has gone to the file, or its contents are damaged.
    pub fn get(&self, slot: u32, page: &mut [u8], scratch: &mut [u8]) -> io::Result<()> {
        let damaged = |_| io::Error::new(io::ErrorKind::InvalidData, format!("swap slot {slot}"));
        let word = match self.entry(slot) {
            Entry::Empty => return Err(damaged(full())),
            Entry::Same => self.words[slot as usize].load(Relaxed),
            _ => {
                meanwhile();
                // Looked at again with the lock: recompression may have moved it. Copied out, so
                // that nobody waits for the decompression.
                let inner = self.lock();
                let e = self.entry(slot);
                let Some((h, len)) = e.object() else {
                    return Err(damaged(full()));
                };
                let data = inner.slab.get(h, len);
                if let Entry::Raw(_) = e {
                    page.copy_from_slice(data);
                    return Ok(());
                }
                scratch[..len].copy_from_slice(data);
                drop(inner);
                let from = &scratch[..len];
                return match e {
                    Entry::Zstd(..) => self.zstd.decompress(from, page),
                    _ => unlz4(from, page),
                }
                .map_err(damaged);
            }
        };
        let words = page.chunks_exact_mut(8);
        words.for_each(|c| c.copy_from_slice(&word.to_ne_bytes()));
        Ok(())
    }

    /// Empties a slot.
    pub fn remove(&self, slot: u32) {
        match self.entry(slot) {
            Entry::Empty => {}
            Entry::Same => {
                self.same.fetch_sub(1, Relaxed);
                self.set(slot, Entry::Empty);
            }
            _ => {
                let mut inner = self.lock();
                inner.leaving.retain(|&s| s != slot);
                self.forget(&mut inner, slot);
            }
        }
    }

    /// Forgets the object of a slot, if it has not gone to the file a moment ago.
    fn forget(&self, inner: &mut Inner, slot: u32) {
        let e = self.entry(slot);
        let Some((h, _)) = e.object() else { return };
        inner.slab.remove(h);
        inner.tiers.count(e, -1);
        if let Some(ages) = &mut inner.ages {
            ages.remove(slot);
        }
        if inner.recompressing == Some(slot) {
            inner.recompressing = None;
        }
        self.bytes.store(inner.slab.bytes(), Relaxed);
        self.set(slot, Entry::Empty);
    }

    /// Its page has been evicted once more, and was as it is here.
    pub fn evicted_again(&self, slot: u32) {
        self.renew(&mut self.lock(), slot);
    }

    /// It is the youngest now.
    fn renew(&self, inner: &mut Inner, slot: u32) {
        if let Some(ages) = &mut inner.ages {
            ages.renew(slot, self.now());
        }
    }

    /// In seconds, if anybody asks.
    fn now(&self) -> u32 {
        match self.has_tiers() {
            true => (clock::now() / 1_000_000_000) as u32,
            false => 0,
        }
    }

    /// Pages may go from one tier to the other.
    pub fn has_tiers(&self) -> bool {
        matches!(self.codec, Codec::Lz4ThenZstd(_))
    }

    /// First-tier pages use more than seven eighths of what they may, and some could be smaller.
    pub fn crowded(&self) -> bool {
        let may = self.may_take();
        self.has_tiers() && self.bytes() > may - may / 8 && self.untried.load(Relaxed)
    }
}

#[cfg(test)]
#[path = "compressed_tests.rs"]
mod tests;
