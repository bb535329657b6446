//! The multi-generational LRU (`mglru.md`): state, aging, eviction.
//!
//! | file | section of `mglru.md` |
//! |---|---|
//! | `mod.rs` | 1 data model |
//! | `refs.rs` | 3 references and tiers |
//! | `insert.rs` | 2 where folios enter, 4 moving between generations |
//! | `aging.rs` | 5.4 to 5.6 new generations, dropping old ones |
//! | `walk.rs` | 5.1, 5.2 page-table walks, cursor and Bloom filters |
//! | `look_around.rs` | 5.3 |
//! | `controller.rs` | 6 refault controller |
//! | `scan.rs` | 7.2 to 7.4 isolate, scan, sort |
//! | `shrink.rs` | 7.1, 8, 11 evict and the reclaim loops |
//! | `node.rs` | 9, 10 root reclaim over the memcg LRU, initial priority, min_ttl |

pub mod aging;
pub mod bloom;
pub mod controller;
pub mod insert;
pub mod look_around;
pub mod refs;
pub mod scan;
pub mod walk;

#[cfg(test)]
mod tests;

use crate::folio::List;
use crate::ids::LruType;
use crate::lruvec::MAX_ZONES;
use bloom::BloomPair;

/// Generations an lruvec keeps at most.
pub const MAX_NR_GENS: usize = 4;
/// Generations that must remain after eviction.
pub const MIN_NR_GENS: u64 = 2;
/// Tiers of the refault controller.
pub const MAX_NR_TIERS: usize = 4;
/// Pages after which isolation stops, and the eviction unit of the smaller batch.
pub const MIN_LRU_BATCH: u64 = 64;

/// The generations of one lruvec.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct MultiGen {
    /// Youngest sequence number.
    pub max_seq: u64,
    /// Oldest sequence number by type.
    pub min_seq: [u64; 2],
    /// Birth time of each generation, by slot.
    pub timestamps: [u64; MAX_NR_GENS],
    /// Lists by slot, type and zone; head = newest.
    pub lists: [[[List; MAX_ZONES]; 2]; MAX_NR_GENS],
    /// Pages by slot, type and zone. A promoted folio counts in its new generation while it still
    /// is on the old list (`mglru.md` 14.2).
    pub nr_pages: [[[i64; MAX_ZONES]; 2]; MAX_NR_GENS],
    /// Refault controller.
    pub ctrl: [controller::Tiers; 2],
    /// Progress of page-table walks.
    pub walk: WalkProgress,
}

/// Where the lruvec's page-table walks are (`mglru.md` 5.1).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct WalkProgress {
    /// A walk for this sequence number has finished.
    pub seq: u64,
    /// Next position in the memcg's list of address spaces, while a pass is under way.
    pub cursor: Option<usize>,
    /// Address spaces known when the previous pass ended; later ones are walked with force.
    pub known: usize,
    /// Filters by sequence parity.
    pub filters: BloomPair,
}

impl MultiGen {
    /// Three populated-to-be generations 0..=3, all born now.
    pub fn new(now: u64) -> Self {
        Self {
            max_seq: 3,
            min_seq: [0; 2],
            timestamps: [now; MAX_NR_GENS],
            lists: Default::default(),
            nr_pages: Default::default(),
            ctrl: Default::default(),
            walk: WalkProgress {
                seq: 2,
                cursor: None,
                known: 0,
                filters: BloomPair::default(),
            },
        }
    }

    /// Slot of a sequence number.
    #[inline]
    pub const fn slot(seq: u64) -> usize {
        (seq % MAX_NR_GENS as u64) as usize
    }

    /// Generations of a type, 2..=4.
    #[inline]
    pub fn nr_gens(&self, t: LruType) -> u64 {
        self.max_seq - self.min_seq[t.idx()] + 1
    }

    /// True if the generation counts as "active" in statistics: the two youngest.
    #[inline]
    pub fn is_active(&self, slot: usize) -> bool {
        slot == Self::slot(self.max_seq) || slot == Self::slot(self.max_seq - 1)
    }

    /// Pages of a generation and type, all zones, clamped at 0.
    pub fn gen_pages(&self, slot: usize, t: LruType) -> u64 {
        self.nr_pages[slot][t.idx()]
            .iter()
            .map(|&n| n.max(0) as u64)
            .sum()
    }

    /// Smallest min_seq over the evictable types.
    pub fn min_seq_of(&self, types: EvictableTypes) -> u64 {
        match types {
            EvictableTypes::File => self.min_seq[1],
            EvictableTypes::Anon => self.min_seq[0],
            EvictableTypes::Both => self.min_seq[0].min(self.min_seq[1]),
        }
    }

    /// Pages of the evictable types in all generations.
    pub fn evictable_pages(&self, types: EvictableTypes) -> u64 {
        let mut sum = 0;
        for &t in types.list() {
            for seq in self.min_seq[t.idx()]..=self.max_seq {
                sum += self.gen_pages(Self::slot(seq), t);
            }
        }
        sum
    }

    /// `[seq, anonymous pages, file pages]` for each generation, oldest first.
    pub fn dump(&self) -> Vec<[u64; 3]> {
        let oldest = self.min_seq[0].min(self.min_seq[1]);
        (oldest..=self.max_seq)
            .map(|seq| {
                let pages = |t: LruType| {
                    if seq < self.min_seq[t.idx()] {
                        0
                    } else {
                        self.gen_pages(Self::slot(seq), t)
                    }
                };
                [seq, pages(LruType::Anon), pages(LruType::File)]
            })
            .collect()
    }
}

/// Which types may be evicted under a swappiness (`mglru.md` 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictableTypes {
    /// Swappiness 0.
    File,
    /// Swappiness 201.
    Anon,
    /// Everything else.
    Both,
}

/// The swappiness of a request for anonymous memory only.
pub(crate) const ANON_ONLY: u16 = 201;

impl EvictableTypes {
    /// By swappiness 0..=201.
    #[inline]
    pub const fn of(swappiness: u16) -> Self {
        match swappiness {
            0 => EvictableTypes::File,
            ANON_ONLY.. => EvictableTypes::Anon,
            _ => EvictableTypes::Both,
        }
    }

    /// The types, anonymous first.
    #[inline]
    pub const fn list(self) -> &'static [LruType] {
        match self {
            EvictableTypes::File => &[LruType::File],
            EvictableTypes::Anon => &[LruType::Anon],
            EvictableTypes::Both => &LruType::ALL,
        }
    }

    /// True if `t` may be evicted.
    #[inline]
    pub fn contains(self, t: LruType) -> bool {
        self.list().contains(&t)
    }
}
