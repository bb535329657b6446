//! The multi-generational LRU: state, aging, isolation. What differs between kernels is in
//! [`rules`](crate::rules), the reclaim loops are in [`reclaim`](crate::reclaim).
//!
//! | file | what | chapter of `docs/rules/` |
//! |---|---|---|
//! | `mod.rs` | the generations of an lruvec | generations |
//! | `insert.rs`, `refs.rs` | entering, promotion, protection; references | generations |
//! | `aging.rs` | new generations, dropping old ones | aging |
//! | `walk.rs`, `mms.rs`, `bloom.rs` | page-table walks; address spaces; which tables to walk | aging |
//! | `look_around.rs` | neighbours of an accessed entry met during eviction | aging |
//! | `controller.rs` | refaults by tier: the PID controller | eviction |
//! | `scan.rs` | isolating victims, what is put aside | eviction |

pub mod aging;
pub mod bloom;
pub mod controller;
pub mod insert;
pub mod look_around;
pub(crate) mod mms;
pub mod refs;
pub mod scan;
pub mod walk;

#[cfg(test)]
mod tests;

pub use mms::{LookAround, Walk, YoungEntry};

use crate::config::MAX_ZONES;
use crate::folio::List;
use crate::ids::{FolioId, LruType};
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
    /// is on the old list (`docs/rules/generations.md`).
    pub nr_pages: [[[i64; MAX_ZONES]; 2]; MAX_NR_GENS],
    /// What the refault controller knows of the tiers, by type.
    pub ctrl: [controller::Tiers; 2],
    /// Progress of page-table walks.
    pub walk: WalkProgress,
}

/// Where the lruvec's page-table walks are (`docs/rules/aging.md#walkers`).
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
    /// Four empty generations, 0 to 3, all born now.
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

    /// The folio of a type that is isolated next, if the oldest generation has any: of the highest zone first.
    pub(crate) fn next_victim(&self, t: LruType) -> Option<FolioId> {
        let zones = &self.lists[Self::slot(self.min_seq[t.idx()])][t.idx()];
        zones.iter().rev().find_map(List::tail)
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

/// Which types may be evicted under a swappiness (`docs/rules/eviction.md#tiers-and-types`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictableTypes {
    /// Only file pages may be evicted: swappiness 0.
    File,
    /// Only anonymous pages may be evicted: swappiness 201.
    Anon,
    /// Both types may be evicted.
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
