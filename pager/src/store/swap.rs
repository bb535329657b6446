//! Where anonymous pages go: compressed memory first, then a file.

mod spill;

use super::compressed::{Codec, Compressed, Grow, Recompressed, Tiers, INCOMPRESSIBLE, SCRATCH};
use super::evictions::Evictions;
use super::room::Room;
use super::seal::Seals;
use super::slab::CHUNK;
use super::storage::{read_all, read_exact, write_all, Read, Storage, Write};
use crate::error::copy_of;
use crate::meanwhile::meanwhile;
use crate::sys::memory::{PageBuf, Table};
use crate::sys::PAGE;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const IN_MEMORY: u8 = 1;
const IN_FILE: u8 = 2;

/// Anonymous pages by slot. A slot is used by one caller at a time (the owner of the page).
#[derive(Debug)]
pub struct Swap {
    memory: Option<Compressed>,
    file: Option<Arc<dyn Storage>>,
    /// What pages of the file are checked by.
    seals: Seals,
    room: Room,
    tier: Table<AtomicU8>,
    in_file: AtomicU64,
    slots: u32,
    /// Held while pages go from compressed memory to the file.
    spilling: Mutex<()>,
    /// With compressed memory and a file: which pages belong where.
    evictions: Option<Evictions>,
}

/// Pages to store, and what became of each.
#[derive(Debug)]
pub struct Put {
    /// Slot.
    pub slot: u32,
    /// Page of the buffer.
    pub at: usize,
    /// Outcome.
    pub result: io::Result<()>,
}

impl Swap {
    /// A swap of `slots` pages. The file, if any, must have room for all of them; `room`: how long to wait for room that
    /// comes later.
    ///
    /// # Errors
    /// Address space for the tables; no random numbers.
    pub(crate) fn new(
        slots: u32,
        memory: Option<Compressed>,
        file: Option<Arc<dyn Storage>>,
        encrypt: bool,
        room: Room,
    ) -> io::Result<Self> {
        let seals = match encrypt {
            true => Seals::encryption(slots)?,
            false => Seals::checksums(slots)?,
        };
        let both = memory.is_some() && file.is_some();
        Ok(Self {
            memory,
            file,
            seals,
            room,
            tier: Table::new(slots as usize)?,
            in_file: AtomicU64::new(0),
            slots,
            spilling: Mutex::new(()),
            evictions: both.then(|| Evictions::new(slots)).transpose()?,
        })
    }

    /// What it is, for messages.
    pub(crate) fn name(&self) -> &str {
        self.room.what()
    }

    /// Slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// There is a file, to which pages of compressed memory may go.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, Compressed::bytes)
    }

    /// Bytes of memory it may take.
    pub fn limit(&self) -> u64 {
        self.memory.as_ref().map_or(0, Compressed::limit)
    }

    /// Compressed memory may take so much from now on; what is there stays.
    pub fn set_limit(&self, bytes: u64) {
        if let Some(m) = &self.memory {
            m.set_limit(bytes);
        }
    }

    /// Bytes that the tables take for a slot that is, or has been, used.
    pub fn bytes_a_slot(&self) -> u64 {
        let memory = self.memory.as_ref().map_or(0, Compressed::bytes_a_slot);
        let file = self.file.as_ref().map_or(0, |_| self.seals.bytes_a_slot());
        let evictions = self.evictions.as_ref().map_or(0, |_| 4);
        size_of::<AtomicU8>() as u64 + memory + file + evictions
    }

    /// What is where.
    pub fn tiers(&self) -> Tiers {
        Tiers {
            file_pages: self.in_file.load(Relaxed),
            ..self
                .memory
                .as_ref()
                .map(Compressed::tiers)
                .unwrap_or_default()
        }
    }

    /// How long a page stays in the first tier; none if there is no second.
    pub fn cold_after(&self) -> Option<Duration> {
        match self.memory.as_ref()?.codec() {
            Codec::Lz4ThenZstd(after) => Some(after),
            _ => None,
        }
    }

    /// The second tier should be used soon.
    pub fn crowded(&self) -> bool {
        self.memory.as_ref().is_some_and(Compressed::crowded)
    }

    /// One page of that age to the second tier; `chunk` says whether that may take one chunk more.
    pub fn recompress(&self, age: Duration, chunk: &mut dyn FnMut() -> bool) -> Recompressed {
        let m = self.memory.as_ref();
        m.map_or(Recompressed::Nothing, |m| m.recompress(age, chunk))
    }

    /// Into compressed memory. Without a file for what does not fit, some pages go to the second
    /// tier first if they must.
    fn put_in_memory(
        &self,
        slot: u32,
        page: &[u8],
        scratch: &mut [u8],
        growth: &mut u64,
    ) -> io::Result<()> {
        let Some(m) = &self.memory else {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        };
        let mut chunk = || {
            let rest = growth.checked_sub(CHUNK as u64);
            *growth = rest.unwrap_or(*growth);
            rest.is_some()
        };
        let mut result = m.put(slot, page, scratch, Grow::Asking(&mut chunk));
        if self.file.is_none() && result.is_err() {
            // There is no other place for it, nor will there be for those after it.
            result = m.put(slot, page, scratch, Grow::ForAll);
        }
        for _ in 0..ROUNDS {
            if result.is_ok() || self.file.is_some() {
                break;
            }
            let batch = (0..BATCH).map(|_| m.recompress(Duration::ZERO, &mut chunk));
            let any = batch.take_while(|&r| r == Recompressed::Page).count() > 0;
            result = m.put(slot, page, scratch, Grow::ForAll);
            if result.is_err() && m.has_tiers() {
                // There may be room, in places that are too small.
                m.make_places_for(page, scratch);
                result = m.put(slot, page, scratch, Grow::ForAll);
            }
            if !any {
                break;
            }
        }
        result
    }

    fn set_tier(&self, slot: u32, tier: u8) -> u8 {
        let was = self.tier[slot as usize].swap(tier, AcqRel);
        match (was == IN_FILE, tier == IN_FILE) {
            (false, true) => self.in_file.fetch_add(1, Relaxed),
            (true, false) => self.in_file.fetch_sub(1, Relaxed),
            _ => 0,
        };
        was
    }

    /// Stores pages of `buf`. Compressed memory grows by no more than these pages take, or by 64 KiB;
    /// what that is not enough for goes to the file or, if there is none, to one chunk more for each 16
    /// pages. `run` gathers pages whose slots follow each other for one write.
    pub fn put_all(&self, puts: &mut [Put], buf: &PageBuf, run: &mut PageBuf) {
        let mut to_file: Vec<usize> = Vec::new();
        let mut growth = ((puts.len() * PAGE) as u64).max(CHUNK as u64);
        for (i, p) in puts.iter_mut().enumerate() {
            let scratch = &mut run.bytes_mut()[..SCRATCH];
            // As soon as it is in memory it may go to the file, but not before this says that it is there: as long as
            // it said so of the page before, what follows would be said of a page that has gone.
            self.set_tier(p.slot, 0);
            meanwhile();
            if let Some(evictions) = &self.evictions {
                evictions.note(p.slot);
            }
            p.result = self.put_in_memory(p.slot, buf.page(p.at), scratch, &mut growth);
            if p.result.is_ok() {
                meanwhile();
                self.set_tier(p.slot, IN_MEMORY);
            } else if self.file.is_some() {
                to_file.push(i);
                let error = p.result.as_ref().map_err(io::Error::raw_os_error);
                if let (Err(Some(INCOMPRESSIBLE)), Some(evictions)) = (error, &self.evictions) {
                    // It will not do better next time.
                    evictions.forget(p.slot);
                }
            }
        }
        let Some(file) = &self.file else { return };
        to_file.sort_unstable_by_key(|&i| puts[i].slot);
        let most = run.bytes().len() / PAGE;
        for part in to_file.chunks(most) {
            self.put_in_file(&**file, puts, part, buf, run);
        }
    }

    /// Pages in the order of their slots: neighbours in one write, all writes together.
    fn put_in_file(
        &self,
        file: &dyn Storage,
        puts: &mut [Put],
        part: &[usize],
        buf: &PageBuf,
        run: &mut PageBuf,
    ) {
        if let Some(m) = &self.memory {
            // An older page of a slot may be on its way to the same place.
            let mine = |slot| part.binary_search_by_key(&slot, |&i| puts[i].slot).is_ok();
            m.wait_for(mine);
        }
        for (k, &i) in part.iter().enumerate() {
            run.page_mut(k).copy_from_slice(buf.page(puts[i].at));
            self.seals.seal(puts[i].slot, run.page_mut(k));
        }
        let mut writes: Vec<Write<'_>> = Vec::new();
        let mut k = 0;
        while k < part.len() {
            let (from, slot) = (k, puts[part[k]].slot);
            while k < part.len() && puts[part[k]].slot == slot + (k - from) as u32 {
                k += 1;
            }
            let bytes = &run.bytes()[from * PAGE..k * PAGE];
            writes.push(Write::new(bytes, offset(slot)));
        }
        meanwhile();
        write_all(file, &mut writes);
        meanwhile();
        self.room.write_again(file, &mut writes);
        let mut pages = part.iter();
        for w in &writes {
            for &i in pages.by_ref().take(w.buf.len() / PAGE) {
                puts[i].result = match &w.done {
                    Ok(_) => Ok(()),
                    Err(e) => Err(copy_of(e)),
                };
                self.set_tier(puts[i].slot, if w.done.is_ok() { IN_FILE } else { 0 });
            }
        }
    }

    /// So many pages more have been evicted, anonymous or not.
    pub fn evicted(&self, pages: u64) {
        if let Some(evictions) = &self.evictions {
            evictions.add(pages);
        }
    }

    /// The page of a slot has been evicted once more, and was as it is here.
    pub fn evicted_again(&self, slot: u32) {
        let (Some(m), Some(evictions)) = (&self.memory, &self.evictions) else {
            return;
        };
        if evictions.since(slot).is_some() {
            evictions.note(slot);
        }
        m.evicted_again(slot);
    }

    /// A page comes back from the file, with `resident` pages in memory as they are. True: compressed memory would have been
    /// the better place, at least if the oldest had stayed there twice as long as they do.
    pub fn came_back_soon(&self, slot: u32, resident: u64) -> bool {
        let since = self.evictions.as_ref().and_then(|e| e.since(slot));
        let (Some(m), Some(since)) = (&self.memory, since) else {
            return false;
        };
        m.missed(since, resident)
    }

    /// Are the contents of a slot in the file, and not in memory?
    pub fn is_in_file(&self, slot: u32) -> bool {
        self.tier[slot as usize].load(Relaxed) == IN_FILE
    }

    /// Brings a page back; the slot keeps it.
    ///
    /// # Errors
    /// The slot is empty, its contents are damaged, or the file cannot be read.
    pub fn get(&self, slot: u32, page: &mut [u8], scratch: &mut [u8]) -> io::Result<()> {
        loop {
            let tier = self.tier[slot as usize].load(Acquire);
            meanwhile();
            let done = match (tier, &self.memory, &self.file) {
                (IN_MEMORY, Some(m), _) => m.get(slot, page, scratch),
                (IN_FILE, _, Some(f)) => {
                    read_exact(&**f, page, PAGE, offset(slot))?;
                    self.seals.open(slot, page)
                }
                _ => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("swap slot {slot} is empty"),
                )),
            };
            // It may have gone from memory to the file since the first look, once.
            if done.is_ok() || self.tier[slot as usize].load(Acquire) == tier {
                return done;
            }
        }
    }

    /// Brings several pages back, those of the file together: `slots` names the slot of each page of
    /// `pages`; pages without one are left alone.
    ///
    /// # Errors
    /// As [`Self::get`]; what the pages hold then is undefined.
    pub fn get_many(
        &self,
        slots: &[Option<u32>],
        pages: &mut [u8],
        scratch: &mut [u8],
    ) -> io::Result<()> {
        let mut from_file: Vec<Read<'_>> = Vec::new();
        let mut sealed = Vec::new();
        for (page, slot) in pages.chunks_exact_mut(PAGE).zip(slots) {
            let Some(slot) = *slot else { continue };
            if self.tier[slot as usize].load(Acquire) == IN_FILE {
                from_file.push(Read::new(page, offset(slot)));
                sealed.push(slot);
            } else {
                self.get(slot, page, scratch)?;
            }
        }
        if let Some(file) = self.file.as_ref().filter(|_| !from_file.is_empty()) {
            meanwhile();
            read_all(&**file, &mut from_file);
            for (r, slot) in from_file.into_iter().zip(sealed) {
                r.done?;
                self.seals.open(slot, r.buf)?;
            }
        }
        Ok(())
    }

    /// Empties a slot.
    pub fn remove(&self, slot: u32) {
        if self.set_tier(slot, 0) == IN_MEMORY {
            meanwhile();
            if let Some(m) = &self.memory {
                m.remove(slot);
            }
        }
    }
}

/// Pages recompressed at once for want of room, and how often before a page is refused.
const BATCH: usize = 32;
const ROUNDS: usize = 32;

fn offset(slot: u32) -> u64 {
    u64::from(slot) * PAGE as u64
}

#[cfg(test)]
#[path = "swap_tests.rs"]
mod tests;
