//! Memory for objects of 1 to 4096 bytes: size classes in steps of 64 bytes, chunks of 64 KiB that
//! go back to the system when they are empty.

use crate::sys::memory::PageBuf;
use std::io;

const STEP: usize = 64;
const CLASSES: usize = 4096 / STEP;
const CHUNK_PAGES: usize = 16;
/// Bytes of a chunk.
pub const CHUNK: usize = CHUNK_PAGES * crate::sys::PAGE;

/// Names an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    /// Chunk.
    pub chunk: u32,
    /// Object in it.
    pub object: u16,
}

#[derive(Debug)]
struct Chunk {
    memory: PageBuf,
    class: u8,
    used: u16,
    /// Freed objects.
    free: Vec<u16>,
    /// Objects from here on were never used.
    fresh: u16,
    /// Who keeps what in each object; `NOBODY`: it is free.
    owners: Vec<u32>,
}

const NOBODY: u32 = u32::MAX;

impl Chunk {
    /// Of an object.
    fn steps(&self) -> usize {
        self.class as usize + 1
    }

    fn capacity(&self) -> u16 {
        (CHUNK / (self.steps() * STEP)) as u16
    }
}

/// The allocator.
#[derive(Debug)]
pub struct Slab {
    chunks: Vec<Option<Chunk>>,
    holes: Vec<u32>,
    /// Chunks of each class with room; may name chunks that are full or gone.
    open: Vec<Vec<u32>>,
    live: usize,
    /// Steps of places in use.
    used: usize,
}

impl Slab {
    /// An empty slab.
    pub fn new() -> Self {
        Self {
            chunks: Vec::new(),
            holes: Vec::new(),
            open: vec![Vec::new(); CLASSES],
            live: 0,
            used: 0,
        }
    }

    /// Bytes taken from the system.
    pub fn bytes(&self) -> u64 {
        (self.live * CHUNK) as u64
    }

    /// Bytes of the places that objects have, rounded up to their steps.
    pub fn used_bytes(&self) -> u64 {
        (self.used * STEP) as u64
    }

    /// Would an object of this size need a new chunk?
    pub fn must_grow(&mut self, len: usize) -> bool {
        self.room(class_of(len)).is_none()
    }

    /// An open chunk of the class.
    fn room(&mut self, class: usize) -> Option<u32> {
        while let Some(&at) = self.open[class].last() {
            let fits = self.chunks[at as usize]
                .as_ref()
                .is_some_and(|c| c.class as usize == class && c.used < c.capacity());
            if fits {
                return Some(at);
            }
            self.open[class].pop();
        }
        None
    }

    /// An open chunk of a larger class, the nearest there is.
    fn room_above(&mut self, class: usize) -> Option<u32> {
        (class + 1..CLASSES).find_map(|c| self.room(c))
    }

    /// Keeps a copy of `data`, in a new chunk if there is no other for its size.
    pub fn insert(&mut self, data: &[u8], owner: u32) -> io::Result<Handle> {
        let class = class_of(data.len());
        let at = match self.room(class) {
            Some(at) => at,
            None => self.grow(class)?,
        };
        Ok(self.insert_at(at, data, owner))
    }

    /// Keeps a copy of `data` in the chunks there are, in a place for larger ones if need be. None: that
    /// takes a new chunk.
    pub fn insert_here(&mut self, data: &[u8], owner: u32) -> Option<Handle> {
        let class = class_of(data.len());
        let at = self.room(class).or_else(|| self.room_above(class))?;
        Some(self.insert_at(at, data, owner))
    }

    /// Keeps a copy of `data` in a new chunk, which has places for objects of any size.
    pub fn insert_for_all(&mut self, data: &[u8], owner: u32) -> io::Result<Handle> {
        let at = self.grow(CLASSES - 1)?;
        Ok(self.insert_at(at, data, owner))
    }

    fn insert_at(&mut self, at: u32, data: &[u8], owner: u32) -> Handle {
        let c = self.chunks[at as usize].as_mut().expect("open chunk");
        let object = c.free.pop().unwrap_or_else(|| {
            c.fresh += 1;
            c.fresh - 1
        });
        c.used += 1;
        self.used += c.steps();
        c.owners[object as usize] = owner;
        let from = object as usize * c.steps() * STEP;
        c.memory.bytes_mut()[from..from + data.len()].copy_from_slice(data);
        Handle { chunk: at, object }
    }

    fn grow(&mut self, class: usize) -> io::Result<u32> {
        let mut chunk = Chunk {
            memory: PageBuf::new(CHUNK_PAGES)?,
            class: class as u8,
            used: 0,
            free: Vec::new(),
            fresh: 0,
            owners: Vec::new(),
        };
        chunk.owners.resize(chunk.capacity().into(), NOBODY);
        let at = match self.holes.pop() {
            Some(at) => at,
            None => {
                self.chunks.push(None);
                self.chunks.len() as u32 - 1
            }
        };
        self.chunks[at as usize] = Some(chunk);
        self.open[class].push(at);
        self.live += 1;
        Ok(at)
    }

    /// The object's bytes.
    pub fn get(&self, h: Handle, len: usize) -> &[u8] {
        let c = self.chunks[h.chunk as usize].as_ref().expect("live object");
        let from = h.object as usize * c.steps() * STEP;
        &c.memory.bytes()[from..from + len]
    }

    /// Who has an object in the chunk.
    pub fn owners(&self, chunk: u32) -> impl Iterator<Item = u32> + '_ {
        let c = self.chunks[chunk as usize].as_ref().expect("live chunk");
        c.owners.iter().copied().filter(|&o| o != NOBODY)
    }

    /// The chunk that holds the fewest bytes.
    pub fn sparsest(&self) -> Option<u32> {
        let live = (0..)
            .zip(&self.chunks)
            .filter_map(|(at, c)| Some((at, c.as_ref()?)));
        live.min_by_key(|(_, c)| c.used as usize * c.steps())
            .map(|(at, _)| at)
    }

    /// All objects of a chunk are about to get other places. It takes nothing more until it is reset.
    pub fn close(&mut self, chunk: u32) {
        let c = self.chunks[chunk as usize].as_mut().expect("live chunk");
        self.used -= usize::from(c.used) * c.steps();
        c.class = CLASSES as u8;
    }

    /// Forgets what was in a closed chunk; it is one for objects of `class` from now on.
    pub fn reset(&mut self, chunk: u32, class: usize) {
        let c = self.chunks[chunk as usize].as_mut().expect("live chunk");
        c.class = class as u8;
        c.used = 0;
        c.free.clear();
        c.fresh = 0;
        c.owners.clear();
        c.owners.resize(c.capacity().into(), NOBODY);
        self.open[class].push(chunk);
    }

    /// Forgets an object.
    pub fn remove(&mut self, h: Handle) {
        let slot = &mut self.chunks[h.chunk as usize];
        let c = slot.as_mut().expect("live object");
        let class = c.class as usize;
        let was_full = c.used == c.capacity();
        c.used -= 1;
        self.used -= c.steps();
        c.owners[h.object as usize] = NOBODY;
        c.free.push(h.object);
        if c.used == 0 {
            *slot = None;
            self.holes.push(h.chunk);
            self.live -= 1;
        } else if was_full {
            self.open[class].push(h.chunk);
        }
    }
}

/// The step of an object of so many bytes: objects of one step take the same memory.
pub fn class_of(len: usize) -> usize {
    assert!((1..=4096).contains(&len), "object of {len} bytes");
    (len - 1) / STEP
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn objects_keep_their_bytes(ops in prop::collection::vec((any::<bool>(), 1usize..=4096, any::<u8>()), 1..if cfg!(miri) { 20 } else { 400 })) {
            let mut slab = Slab::new();
            let mut live: Vec<(Handle, usize, u8)> = Vec::new();
            for (remove, len, fill) in ops {
                if remove && !live.is_empty() {
                    let (h, ..) = live.swap_remove(len % live.len());
                    slab.remove(h);
                } else {
                    live.push((slab.insert(&vec![fill; len], 0).unwrap(), len, fill));
                }
                for (h, len, fill) in &live {
                    prop_assert!(slab.get(*h, *len).iter().all(|b| b == fill));
                }
            }
            let places = live.iter().map(|(_, len, _)| len.next_multiple_of(STEP) as u64);
            prop_assert_eq!(slab.used_bytes(), places.sum::<u64>());
            for (h, ..) in live {
                slab.remove(h);
            }
            prop_assert_eq!((slab.bytes(), slab.used_bytes()), (0, 0));
        }
    }
}
