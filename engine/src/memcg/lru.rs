//! The multi-gen memcg LRU (`docs/rules/memcg-lru.md`): which memcg global reclaim visits next.
//!
//! One per node. Members sit in one of two generations, old and young (a third index only separates
//! them from stale readers), spread over eight randomly chosen bins. Global reclaim walks the old
//! generation; a memcg that was aged, is protected or has nothing left moves to the young one, and
//! when the old one runs empty the young one takes its place.

use crate::ids::MemcgId;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const NR_GENS: usize = 3;
const NR_BINS: usize = 8;

/// Where within its generation the last operation put a memcg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum LruSeg {
    /// Neither of the others.
    #[default]
    Default,
    /// Preferred: above its v1 soft limit.
    Head,
    /// Visited once and put off.
    Tail,
}

/// A move in the memcg LRU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruOp {
    /// To the head of the current generation.
    Head,
    /// To the tail of the current generation.
    Tail,
    /// To the head of the old generation.
    Old,
    /// To the tail of the young generation.
    Young,
}

/// What to do with a memcg before reclaiming from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeVisit {
    /// Do not reclaim; the visit's result is this operation.
    Skip(LruOp),
    /// Reclaim; if `low_event`, count event LOW first.
    Shrink {
        /// memory.low is being broken.
        low_event: bool,
    },
}

/// Protection check at the start of a visit.
pub fn before_visit(below_min: bool, below_low: bool, seg: LruSeg) -> BeforeVisit {
    if below_min {
        BeforeVisit::Skip(LruOp::Young)
    } else if below_low && seg != LruSeg::Tail {
        BeforeVisit::Skip(LruOp::Tail)
    } else {
        BeforeVisit::Shrink {
            low_event: below_low,
        }
    }
}

/// Result of a visit that reclaimed: `rotate` as the lruvec's reclaim said, `sizable` if enough is
/// left at this priority (offline: anything). `None`: stay.
pub fn after_visit(rotate: bool, online: bool, sizable: bool, seg: LruSeg) -> Option<LruOp> {
    if rotate && online {
        Some(LruOp::Young)
    } else if !rotate && sizable {
        None
    } else if seg != LruSeg::Tail {
        Some(LruOp::Tail)
    } else {
        Some(LruOp::Young)
    }
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct Link {
    prev: MemcgId,
    next: MemcgId,
    gen: u8,
    bin: u8,
    seg: LruSeg,
    on: bool,
}

const OFF: Link = Link {
    prev: MemcgId::NONE,
    next: MemcgId::NONE,
    gen: 0,
    bin: 0,
    seg: LruSeg::Default,
    on: false,
};

#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct List {
    head: MemcgId,
    tail: MemcgId,
}

const EMPTY: List = List {
    head: MemcgId::NONE,
    tail: MemcgId::NONE,
};

/// The memcg LRU of one node.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct MemcgLru {
    seq: u64,
    lists: [[List; NR_BINS]; NR_GENS],
    nr: [u32; NR_GENS],
    links: Vec<Link>,
    rng: Xoshiro256PlusPlus,
}

/// One walk of global reclaim. The generation is fixed at entry.
#[derive(Clone, Debug)]
pub struct LruWalk {
    gen: u8,
    first_bin: u8,
    bin: u8,
    /// The memcg visited last, `NONE` before the first of a bin.
    current: MemcgId,
    result: Option<LruOp>,
    ended: bool,
}

impl LruWalk {
    /// Result of the visit of the memcg that the walk stands on; applied when the walk moves on.
    pub fn set_result(&mut self, op: Option<LruOp>) {
        debug_assert!(self.current.is_some());
        self.result = op;
    }
}

impl MemcgLru {
    /// An empty LRU whose bins are drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seq: 0,
            lists: [[EMPTY; NR_BINS]; NR_GENS],
            nr: [0; NR_GENS],
            links: Vec::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Sequence number of the old generation.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Members of a generation index (0 to 2).
    pub fn nr_memcgs(&self, gen: usize) -> u32 {
        self.nr[gen]
    }

    /// Generation index of a member.
    pub fn gen(&self, id: MemcgId) -> Option<usize> {
        self.link(id).map(|l| usize::from(l.gen))
    }

    /// Segment of a member.
    pub fn seg(&self, id: MemcgId) -> LruSeg {
        self.link(id).map_or(LruSeg::Default, |l| l.seg)
    }

    fn link(&self, id: MemcgId) -> Option<&Link> {
        self.links.get(id.idx()).filter(|l| l.on)
    }

    fn old(&self) -> u8 {
        (self.seq % NR_GENS as u64) as u8
    }

    fn young(&self) -> u8 {
        ((self.seq + 1) % NR_GENS as u64) as u8
    }

    fn random_bin(&mut self) -> u8 {
        (self.rng.next_u64() >> 61) as u8
    }

    /// A memcg was created: tail of the old generation.
    pub fn online(&mut self, id: MemcgId) {
        if self.links.len() <= id.idx() {
            self.links.resize(id.idx() + 1, OFF);
        }
        assert!(!self.links[id.idx()].on, "memcg {} is on the LRU", id.0);
        self.insert(id, self.old(), LruSeg::Default, false);
    }

    /// A memcg went offline: head of the old generation, so that its pages go first.
    pub fn offline(&mut self, id: MemcgId) {
        self.apply(id, LruOp::Old);
    }

    /// A memcg is released.
    pub fn release(&mut self, id: MemcgId) {
        if self.link(id).is_some() {
            let gen = self.unlink(id);
            self.advance_if_empty(gen);
        }
    }

    /// Moves a member, outside of any walk: limit reclaim that aged a memcg applies YOUNG. Does
    /// nothing for a memcg that is not a member.
    pub fn apply(&mut self, id: MemcgId, op: LruOp) {
        if self.link(id).is_none() {
            return;
        }
        let from = self.unlink(id);
        let (to, seg) = match op {
            LruOp::Head => (from, LruSeg::Head),
            LruOp::Tail => (from, LruSeg::Tail),
            LruOp::Old => (self.old(), LruSeg::Default),
            LruOp::Young => (self.young(), LruSeg::Default),
        };
        self.insert(id, to, seg, matches!(op, LruOp::Head | LruOp::Old));
        self.advance_if_empty(from);
    }

    fn advance_if_empty(&mut self, gen: u8) {
        if self.nr[usize::from(gen)] == 0 && gen == self.old() {
            self.seq += 1;
        }
    }

    fn unlink(&mut self, id: MemcgId) -> u8 {
        let l = std::mem::replace(&mut self.links[id.idx()], OFF);
        let list = &mut self.lists[usize::from(l.gen)][usize::from(l.bin)];
        if l.prev.is_some() {
            self.links[l.prev.idx()].next = l.next;
        } else {
            list.head = l.next;
        }
        if l.next.is_some() {
            self.links[l.next.idx()].prev = l.prev;
        } else {
            list.tail = l.prev;
        }
        self.nr[usize::from(l.gen)] -= 1;
        l.gen
    }

    fn insert(&mut self, id: MemcgId, gen: u8, seg: LruSeg, at_head: bool) {
        let bin = self.random_bin();
        let list = &mut self.lists[usize::from(gen)][usize::from(bin)];
        let mut l = Link {
            gen,
            bin,
            seg,
            on: true,
            ..OFF
        };
        if at_head {
            l.next = std::mem::replace(&mut list.head, id);
            if l.next.is_some() {
                self.links[l.next.idx()].prev = id;
            } else {
                list.tail = id;
            }
        } else {
            l.prev = std::mem::replace(&mut list.tail, id);
            if l.prev.is_some() {
                self.links[l.prev.idx()].next = id;
            } else {
                list.head = id;
            }
        }
        self.links[id.idx()] = l;
        self.nr[usize::from(gen)] += 1;
    }

    /// Starts a walk: the old generation as of now, from a random bin.
    pub fn walk_begin(&mut self) -> LruWalk {
        let bin = self.random_bin();
        LruWalk {
            gen: self.old(),
            first_bin: bin,
            bin,
            current: MemcgId::NONE,
            result: None,
            ended: false,
        }
    }

    /// The next memcg to visit, after applying the result of the last visit; `None` when all bins
    /// of the generation are done. The memcg must not be released while the walk stands on it.
    pub fn walk_next(&mut self, walk: &mut LruWalk) -> Option<MemcgId> {
        while !walk.ended {
            // The successor is read before the result moves the visited memcg away.
            let (next, foreign) = if walk.current.is_some() {
                match self.link(walk.current) {
                    Some(l) => (l.next, l.gen != walk.gen),
                    None => (MemcgId::NONE, true),
                }
            } else {
                let list = &self.lists[usize::from(walk.gen)][usize::from(walk.bin)];
                (list.head, false)
            };
            self.apply_result(walk);
            walk.current = next;
            if next.is_some() {
                if self.gen(next) == Some(usize::from(walk.gen)) {
                    return Some(next);
                }
            } else if !foreign {
                walk.bin = (walk.bin + 1) % NR_BINS as u8;
                walk.ended = walk.bin == walk.first_bin;
            }
        }
        None
    }

    /// Ends a walk early, applying the result of the last visit.
    pub fn walk_stop(&mut self, walk: &mut LruWalk) {
        self.apply_result(walk);
        walk.current = MemcgId::NONE;
        walk.ended = true;
    }

    fn apply_result(&mut self, walk: &mut LruWalk) {
        if let Some(op) = walk.result.take() {
            self.apply(walk.current, op);
        }
    }
}
