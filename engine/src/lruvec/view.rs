//! What a lruvec holds, in the form of the debug dump (`docs/rules/aging.md`).

use super::{LruList, Lruvec, LruvecLists};
use crate::ids::LruType;
use crate::mglru::{MultiGen, MAX_NR_TIERS};

/// One generation as a debug dump shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GenView {
    /// Its number; larger is younger.
    pub seq: u64,
    /// Time since its birth, ns.
    pub age: u64,
    /// Anonymous pages; `None` if the type's oldest generation is younger.
    pub anon: Option<u64>,
    /// File pages; none if the type has no such generation.
    pub file: Option<u64>,
}

/// What the refault controller knows of a tier, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierView {
    /// Refaulted since the last carry-over.
    pub refaulted: u64,
    /// Evicted since then.
    pub evicted: u64,
    /// Protected since then.
    pub protected: u64,
    /// Moving average of refaults.
    pub avg_refaulted: u64,
    /// Moving average of evictions and protections.
    pub avg_total: u64,
}

/// The lists of one lruvec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LruvecView {
    /// Generations, oldest first, and tiers by type.
    MultiGen {
        /// From the oldest to the youngest.
        gens: Vec<GenView>,
        /// Anonymous, file.
        tiers: Box<[[TierView; MAX_NR_TIERS]; 2]>,
    },
    /// Pages of each list (active and inactive, or the one list of each type).
    Lists(Vec<(LruList, u64)>),
}

impl LruvecView {
    /// A view of `lruvec` at time `now`, ns.
    pub(crate) fn of(lruvec: &Lruvec, now: u64) -> Self {
        match &lruvec.lists {
            LruvecLists::MultiGen(m) => LruvecView::MultiGen {
                gens: gens(m, now),
                tiers: Box::new(LruType::ALL.map(|t| {
                    let c = &m.ctrl[t.idx()];
                    std::array::from_fn(|i| TierView {
                        refaulted: c.refaulted[i],
                        evicted: c.evicted[i],
                        protected: c.protected[i],
                        avg_refaulted: c.avg_refaulted[i],
                        avg_total: c.avg_total[i],
                    })
                })),
            },
            _ => LruvecView::Lists(
                LruList::ALL
                    .iter()
                    .map(|&l| (l, lruvec.size_all(l)))
                    .collect(),
            ),
        }
    }
}

fn gens(m: &MultiGen, now: u64) -> Vec<GenView> {
    let oldest = m.min_seq[0].min(m.min_seq[1]);
    (oldest..=m.max_seq)
        .map(|seq| {
            let slot = MultiGen::slot(seq);
            let pages = |t: LruType| (seq >= m.min_seq[t.idx()]).then(|| m.gen_pages(slot, t));
            GenView {
                seq,
                age: now.saturating_sub(m.timestamps[slot]),
                anon: pages(LruType::Anon),
                file: pages(LruType::File),
            }
        })
        .collect()
}
