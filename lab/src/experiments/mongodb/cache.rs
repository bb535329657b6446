//! The storage engine's own cache: frames of 32 KiB, approximately LRU, dirty blocks apart
//! (`docs/reference/experiments.md#mongodb`).

use coldset_machine::sim::{Sim, WaitQueue};
use std::collections::BTreeMap;

/// Pages of a frame: no block is larger.
pub const FRAME_PAGES: u32 = 8;

/// Links of the two lists (all frames by use, dirty frames by use).
#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
    on: bool,
}

const NONE: u32 = u32::MAX;

/// A list of frames, most recently used first.
#[derive(Debug)]
struct Lru {
    links: Vec<Link>,
    head: u32,
    tail: u32,
    len: u32,
}

impl Lru {
    fn new(frames: u32) -> Self {
        Self {
            links: vec![
                Link {
                    prev: NONE,
                    next: NONE,
                    on: false
                };
                frames as usize
            ],
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }

    fn remove(&mut self, f: u32) {
        let l = &mut self.links[f as usize];
        if !std::mem::replace(&mut l.on, false) {
            return;
        }
        let (prev, next) = (l.prev, l.next);
        match prev {
            NONE => self.head = next,
            p => self.links[p as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            n => self.links[n as usize].prev = prev,
        }
        self.len -= 1;
    }

    fn refresh(&mut self, f: u32) {
        self.remove(f);
        self.links[f as usize] = Link {
            prev: NONE,
            next: self.head,
            on: true,
        };
        match self.head {
            NONE => self.tail = f,
            h => self.links[h as usize].prev = f,
        }
        self.head = f;
        self.len += 1;
    }
}

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Nothing.
    Free,
    /// A block on its way in or out: hands off.
    Busy(u32),
    /// A block.
    Block(u32),
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    frames: Vec<Frame>,
    dirty: Vec<bool>,
    map: BTreeMap<u32, u32>,
    free: Vec<u32>,
    lru: Lru,
    dirty_lru: Lru,
    waits: BTreeMap<u32, WaitQueue>,
}

/// What a look-up finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// In this frame.
    Hit(u32),
    /// Another worker is reading or writing it.
    Busy,
    /// Not cached.
    Miss,
}

impl Cache {
    /// An empty cache.
    pub fn new(frames: u32) -> Self {
        Self {
            frames: vec![Frame::Free; frames as usize],
            dirty: vec![false; frames as usize],
            map: BTreeMap::new(),
            free: (0..frames).rev().collect(),
            lru: Lru::new(frames),
            dirty_lru: Lru::new(frames),
            waits: BTreeMap::new(),
        }
    }

    /// Frames in use, thousandths of all.
    pub fn used_permille(&self) -> u64 {
        let all = self.frames.len() as u64;
        (all - self.free.len() as u64) * 1000 / all
    }

    /// Dirty frames.
    pub fn dirty(&self) -> u32 {
        self.dirty_lru.len
    }

    /// Dirty frames, thousandths of all.
    pub fn dirty_permille(&self) -> u64 {
        u64::from(self.dirty_lru.len) * 1000 / self.frames.len() as u64
    }

    /// Looks a block up; a hit makes it most recently used.
    pub fn lookup(&mut self, block: u32) -> Lookup {
        match self.map.get(&block) {
            None => Lookup::Miss,
            Some(&f) => match self.frames[f as usize] {
                Frame::Block(_) => {
                    self.lru.refresh(f);
                    if self.dirty[f as usize] {
                        self.dirty_lru.refresh(f);
                    }
                    Lookup::Hit(f)
                }
                _ => Lookup::Busy,
            },
        }
    }

    /// Reserves a free frame for a block that is about to be read.
    pub fn reserve(&mut self, block: u32) -> Option<u32> {
        let f = self.free.pop()?;
        self.frames[f as usize] = Frame::Busy(block);
        self.map.insert(block, f);
        Some(f)
    }

    /// The block has arrived.
    pub fn filled(&mut self, f: u32, block: u32) {
        self.frames[f as usize] = Frame::Block(block);
        self.lru.refresh(f);
        self.wake(block);
    }

    /// The block has been changed.
    pub fn set_dirty(&mut self, f: u32) {
        self.dirty[f as usize] = true;
        self.dirty_lru.refresh(f);
    }

    /// Takes the least recently used block out for eviction (`dirty_only`: the least recently used
    /// dirty one). Returns frame, block, and whether it must be written.
    pub fn victim(&mut self, dirty_only: bool) -> Option<(u32, u32, bool)> {
        let f = if dirty_only {
            self.dirty_lru.tail
        } else {
            self.lru.tail
        };
        if f == NONE {
            return None;
        }
        let Frame::Block(block) = self.frames[f as usize] else {
            unreachable!("listed frames hold blocks")
        };
        let dirty = self.dirty[f as usize];
        self.take_out(f, block);
        Some((f, block, dirty))
    }

    /// Takes a dirty block out to be written at a checkpoint; it stays cached afterwards.
    pub fn next_dirty(&mut self) -> Option<(u32, u32)> {
        let f = self.dirty_lru.tail;
        if f == NONE {
            return None;
        }
        let Frame::Block(block) = self.frames[f as usize] else {
            unreachable!("listed frames hold blocks")
        };
        self.dirty[f as usize] = false;
        self.dirty_lru.remove(f);
        Some((f, block))
    }

    fn take_out(&mut self, f: u32, block: u32) {
        self.lru.remove(f);
        self.dirty_lru.remove(f);
        self.dirty[f as usize] = false;
        self.frames[f as usize] = Frame::Busy(block);
    }

    /// The victim has left.
    pub fn evicted(&mut self, f: u32, block: u32) {
        self.frames[f as usize] = Frame::Free;
        self.map.remove(&block);
        self.free.push(f);
        self.wake(block);
    }

    /// The queue on which to wait for a busy block.
    pub fn wait_queue(&mut self, sim: &Sim, block: u32) -> WaitQueue {
        self.waits
            .entry(block)
            .or_insert_with(|| WaitQueue::new(sim))
            .clone()
    }

    fn wake(&mut self, block: u32) {
        if let Some(q) = self.waits.remove(&block) {
            q.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_the_least_recently_used_and_the_dirty_apart() {
        let mut c = Cache::new(3);
        for b in [10, 11, 12] {
            let f = c.reserve(b).unwrap();
            assert_eq!(c.lookup(b), Lookup::Busy);
            c.filled(f, b);
        }
        assert_eq!(c.reserve(13), None);
        let Lookup::Hit(f11) = c.lookup(11) else {
            panic!("11 is cached")
        };
        c.set_dirty(f11);
        c.lookup(10);
        assert_eq!(c.dirty_permille(), 333);
        assert_eq!(c.victim(false).map(|v| (v.1, v.2)), Some((12, false)));
        assert_eq!(c.victim(true).map(|v| (v.1, v.2)), Some((11, true)));
        c.evicted(f11, 11);
        assert_eq!((c.lookup(11), c.dirty_permille()), (Lookup::Miss, 0));
    }
}
