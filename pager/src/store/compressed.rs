//! Compressed memory: LZ4, a page of one repeated word as that word, hardly compressible pages as
//! they are.

use super::slab::{Handle, Slab};
use crate::sys::memory::Table;
use crate::sys::PAGE;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

/// Bytes a buffer for [`Compressed::put`] and [`Compressed::get`] must have.
pub const SCRATCH: usize = 2 * PAGE;

/// From this size on a page is kept as it is.
const HARDLY: usize = PAGE - PAGE / 8;

/// What a slot holds, packed into 64 bits: kind, length, chunk and object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    Empty,
    Same,
    Lz4(Handle, usize),
    Raw(Handle),
}

impl Entry {
    fn pack(self) -> u64 {
        let at = |h: Handle| u64::from(h.chunk) << 16 | u64::from(h.object);
        match self {
            Entry::Empty => 0,
            Entry::Same => 1,
            Entry::Raw(h) => 2 | at(h) << 16,
            Entry::Lz4(h, len) => 3 | (len as u64) << 2 | at(h) << 16,
        }
    }

    fn unpack(v: u64) -> Self {
        let h = Handle {
            chunk: (v >> 32) as u32,
            object: (v >> 16) as u16,
        };
        match v & 3 {
            0 => Entry::Empty,
            1 => Entry::Same,
            2 => Entry::Raw(h),
            _ => Entry::Lz4(h, (v as u16 >> 2) as usize),
        }
    }
}

/// Pages by slot. A slot is used by one caller at a time (the owner of the page).
#[derive(Debug)]
pub struct Compressed {
    entries: Table<AtomicU64>,
    words: Table<AtomicU64>,
    slab: Mutex<Slab>,
    bytes: AtomicU64,
    limit: u64,
}

/// The word a page repeats, if it does.
pub fn same_filled(page: &[u8]) -> Option<u64> {
    let mut words = page
        .chunks_exact(8)
        .map(|w| u64::from_ne_bytes(w.try_into().expect("8 bytes")));
    let first = words.next()?;
    words.all(|w| w == first).then_some(first)
}

impl Compressed {
    /// Room for `slots` pages in at most `limit` bytes.
    ///
    /// # Errors
    /// Address space for the tables.
    pub fn new(slots: u32, limit: u64) -> io::Result<Self> {
        Ok(Self {
            entries: Table::new(slots as usize)?,
            words: Table::new(slots as usize)?,
            slab: Mutex::new(Slab::new()),
            bytes: AtomicU64::new(0),
            limit,
        })
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The most it may take.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// True if the slot holds a page.
    pub fn has(&self, slot: u32) -> bool {
        self.entries[slot as usize].load(Relaxed) != 0
    }

    /// Keeps a page, in place of what the slot held.
    ///
    /// # Errors
    /// `StorageFull` at the limit; the slot is empty then.
    pub fn put(&self, slot: u32, page: &[u8], scratch: &mut [u8]) -> io::Result<()> {
        self.remove(slot);
        let entry = match same_filled(page) {
            Some(word) => {
                self.words[slot as usize].store(word, Relaxed);
                Entry::Same
            }
            None => match lz4_flex::block::compress_into(page, scratch) {
                Ok(len) if len < HARDLY => Entry::Lz4(self.insert(&scratch[..len])?, len),
                _ => Entry::Raw(self.insert(page)?),
            },
        };
        self.entries[slot as usize].store(entry.pack(), Relaxed);
        Ok(())
    }

    fn insert(&self, data: &[u8]) -> io::Result<Handle> {
        let mut slab = self.slab.lock().expect("slab");
        let full = slab.bytes() + super::slab::CHUNK as u64 > self.limit;
        if full && slab.must_grow(data.len()) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let h = slab.insert(data);
        self.bytes.store(slab.bytes(), Relaxed);
        h
    }

    /// Brings a page back; the slot keeps it.
    ///
    /// # Errors
    /// The slot is empty or its contents are damaged.
    pub fn get(&self, slot: u32, page: &mut [u8], scratch: &mut [u8]) -> io::Result<()> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("swap slot {slot}"));
        match Entry::unpack(self.entries[slot as usize].load(Relaxed)) {
            Entry::Empty => Err(damaged()),
            Entry::Same => {
                let word = self.words[slot as usize].load(Relaxed).to_ne_bytes();
                page.chunks_exact_mut(8)
                    .for_each(|c| c.copy_from_slice(&word));
                Ok(())
            }
            Entry::Raw(h) => {
                let slab = self.slab.lock().expect("slab");
                page.copy_from_slice(slab.get(h, PAGE));
                Ok(())
            }
            Entry::Lz4(h, len) => {
                // Copied out, so that nobody waits for the decompression.
                let slab = self.slab.lock().expect("slab");
                scratch[..len].copy_from_slice(slab.get(h, len));
                drop(slab);
                match lz4_flex::block::decompress_into(&scratch[..len], page) {
                    Ok(PAGE) => Ok(()),
                    _ => Err(damaged()),
                }
            }
        }
    }

    /// Empties a slot.
    pub fn remove(&self, slot: u32) {
        let e = &self.entries[slot as usize];
        match Entry::unpack(e.load(Relaxed)) {
            Entry::Empty => return,
            Entry::Same => {}
            Entry::Raw(h) | Entry::Lz4(h, _) => {
                let mut slab = self.slab.lock().expect("slab");
                slab.remove(h);
                self.bytes.store(slab.bytes(), Relaxed);
            }
        }
        e.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64) -> Vec<u8> {
        let mut x = seed | 1;
        (0..PAGE)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x as u8
            })
            .collect()
    }

    #[test]
    fn pages_come_back_as_they_were() {
        let c = Compressed::new(8, 1 << 20).unwrap();
        let mut scratch = vec![0; SCRATCH];
        let text: Vec<u8> = b"the quick brown fox "
            .iter()
            .copied()
            .cycle()
            .take(PAGE)
            .collect();
        let pages = [vec![0; PAGE], vec![0xAB; PAGE], text, noise(7)];
        for (i, p) in pages.iter().enumerate() {
            c.put(i as u32, p, &mut scratch).unwrap();
        }
        let mut back = vec![1; PAGE];
        for (i, p) in pages.iter().enumerate() {
            c.get(i as u32, &mut back, &mut scratch).unwrap();
            assert_eq!(&back, p, "page {i}");
        }
        assert!(c.bytes() > 0);
        (0..4).for_each(|i| c.remove(i));
        assert_eq!(c.bytes(), 0);
        assert!(c.get(1, &mut back, &mut scratch).is_err());
    }

    #[test]
    fn a_full_store_says_so_and_forgets_nothing_else() {
        let c = Compressed::new(64, 2 * super::super::slab::CHUNK as u64).unwrap();
        let mut scratch = vec![0; SCRATCH];
        let stored = (0..64)
            .take_while(|&i| c.put(i, &noise(u64::from(i) + 1), &mut scratch).is_ok())
            .count();
        assert_eq!(stored, 32, "two chunks of sixteen raw pages");
        let mut back = vec![0; PAGE];
        for i in 0..32 {
            c.get(i, &mut back, &mut scratch).unwrap();
            assert_eq!(back, noise(u64::from(i) + 1));
        }
    }
}
