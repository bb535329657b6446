//! How many pages move at once between a zone and the lists of its CPUs (`docs/rules/zones.md#lists-of-the-cpus`).

use crate::ids::Pages;

/// Lists of the CPUs of a zone, taken as one. Refills get larger while nothing is freed in between, and what is drained
/// while nothing is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuLists {
    batch: Pages,
    high: Pages,
    /// A refill is the batch times this power of two.
    growth: u8,
    /// Pages freed in a row.
    freed: Pages,
}

/// No refill is more than the batch times this power of two, and no more pages freed in a row count.
const GROWTH_MAX: u8 = 5;

impl CpuLists {
    /// Lists of at most `high` pages that are refilled and drained by `batch` or more.
    pub fn new(batch: Pages, high: Pages) -> Self {
        Self {
            batch,
            high: high.max(batch),
            growth: 0,
            freed: 0,
        }
    }

    /// CPUs keep no pages.
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.batch == 0
    }

    /// Most pages that move at once.
    fn most(&self) -> Pages {
        (self.high - self.batch).max(self.batch)
    }

    /// A page is taken from lists that have none: how many come from the zone.
    pub(super) fn refill(&mut self) -> Pages {
        let pages = self.batch << self.growth;
        if pages < self.most() && self.growth < GROWTH_MAX {
            self.growth += 1;
        }
        pages.min(self.most())
    }

    /// A page has been taken.
    pub(super) fn taken(&mut self) {
        self.freed /= 2;
    }

    /// So many pages have been freed, and the lists have `held` now: how many go to the zone.
    pub(super) fn drain(&mut self, pages: Pages, held: Pages) -> Pages {
        self.growth = self.growth.saturating_sub(pages.min(u8::MAX.into()) as u8);
        self.freed = (self.freed + pages).min(self.batch << GROWTH_MAX);
        match held >= self.high {
            true => self.freed.clamp(self.batch, self.most()).min(held),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_at_once_grows_while_it_goes_one_way() {
        let mut lists = CpuLists::new(63, 252);
        assert_eq!(
            [lists.refill(), lists.refill(), lists.refill()],
            [63, 126, 189]
        );
        assert_eq!((lists.refill(), lists.drain(1, 200)), (189, 0));
        assert_eq!(lists.refill(), 126, "one page was freed");
        assert_eq!(lists.drain(100, 251), 0);
        assert_eq!(lists.drain(1, 252), 102);
        assert_eq!(lists.drain(150, 300), 189, "not below the batch");
        (0..8).for_each(|_| lists.taken());
        assert_eq!(lists.drain(1, 252), 63);
        assert_eq!(lists.refill(), 63);
        assert!(CpuLists::default().are_none());
    }
}
