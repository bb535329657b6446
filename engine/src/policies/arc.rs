//! ARC: two lists, of folios used once and of folios used again, whose sizes follow from what comes
//! back after it was evicted.
//!
//! N. Megiddo, D. S. Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003. Names are
//! the paper's. Its order is kept where the host looks at shadows first (`refault`, `victim`,
//! `insert`); where room is made before, the list that gives it up is chosen by the target alone.

use super::{Ghosts, ListPolicy, Pages, Queue};
use crate::ids::FolioId;

/// Folios used once recently.
const T1: usize = 0;
/// Folios used at least twice recently.
const T2: usize = 1;
/// Fractional bits of the target. Its steps are ratios, and many of them add up to a whole number again, which it is
/// compared with; so it is rounded to [`TOLD_APART`] bits there, and what is lost in each step does not matter.
const FRACTION: u32 = 64;
/// Fractional bits of the target where it is compared.
const TOLD_APART: u32 = 40;

/// T1 and T2 by last use, B1 and B2 as their ghosts.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Arc {
    t: [Queue; 2],
    b: [Ghosts; 2],
    /// Target size of T1, pages with [`FRACTION`] bits behind the point.
    p: u128,
    /// c as of the last eviction, pages.
    c: u64,
    /// The folio to be inserted next was in B2.
    was_in_b2: bool,
}

impl Arc {
    /// The target in units of 2^-[`TOLD_APART`] pages, to the nearest.
    fn target(&self) -> u128 {
        let less = FRACTION - TOLD_APART;
        (self.p + (1 << (less - 1))) >> less
    }

    /// |B1| + |T1| <= c and all four together <= 2c.
    fn trim(&mut self) {
        let (t1, t2) = (self.t[T1].pages(), self.t[T2].pages());
        self.b[T1].shrink(self.c.saturating_sub(t1));
        let others = t1 + t2 + self.b[T1].pages();
        self.b[T2].shrink((2 * self.c).saturating_sub(others));
    }
}

impl ListPolicy for Arc {
    fn queues(&self) -> &[Queue] {
        &self.t
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.t
    }

    /// REPLACE of the paper: the victim comes from T1 while that exceeds its target.
    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        self.c = p.capacity();
        let t1 = u128::from(self.t[T1].pages()) << TOLD_APART;
        let target = self.target();
        let over = t1 > target || (self.was_in_b2 && t1 == target);
        let from = match (self.t[T1].tail(), self.t[T2].tail()) {
            (Some(_), Some(_)) if over => T1,
            (_, Some(_)) => T2,
            _ => T1,
        };
        self.t[from].tail()
    }

    fn insert(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.t[p.list(id)].push_head(p, id);
        self.was_in_b2 = false;
        self.trim();
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.listed(id) {
            self.t[p.list(id)].remove(p, id);
            p.set_list(id, T2);
            self.t[T2].push_head(p, id);
        } else {
            p.set_list(id, T2);
        }
    }

    fn evicted(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.b[p.list(id)].push(p.eviction(), p.size(id));
        self.trim();
    }

    fn refault(&mut self, p: &mut Pages<'_>, id: FolioId) -> bool {
        let (b1, b2) = (self.b[T1].pages(), self.b[T2].pages());
        let step = |other: u64, own: u64| {
            ((u128::from(other) << FRACTION) / u128::from(own.max(1))).max(1 << FRACTION)
        };
        if self.b[T1].take(p.eviction()) {
            self.p = (self.p + step(b2, b1)).min(u128::from(self.c) << FRACTION);
        } else if self.b[T2].take(p.eviction()) {
            self.p = self.p.saturating_sub(step(b1, b2));
            self.was_in_b2 = true;
        } else {
            return false;
        }
        p.set_list(id, T2);
        true
    }

    fn forget(&mut self, eviction: u64) {
        self.b.iter_mut().for_each(|b| {
            b.take(eviction);
        });
    }

    fn ghosts(&self) -> Vec<&Ghosts> {
        self.b.iter().collect()
    }
}
