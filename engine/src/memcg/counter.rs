//! Page counters: usage, limits and protection of one resource of a memcg (`docs/rules/memcg.md`).

use crate::ids::{Pages, PAGE_SIZE};

/// The limit that means "none": the number of pages in the largest signed byte count.
pub const UNLIMITED: Pages = i64::MAX as u64 / PAGE_SIZE;

/// Which counter of a memcg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterKind {
    /// memory.current. The only one that tracks protection.
    Memory,
    /// memory.swap.current.
    Swap,
}

/// Usage, limits and protection of one resource of one memcg. Unit: pages.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct PageCounter {
    pub(super) usage: Pages,
    pub(super) min: Pages,
    pub(super) low: Pages,
    pub(super) high: Pages,
    pub(super) max: Pages,
    pub(super) emin: Pages,
    pub(super) elow: Pages,
    pub(super) min_usage: Pages,
    pub(super) low_usage: Pages,
    pub(super) children_min_usage: Pages,
    pub(super) children_low_usage: Pages,
    pub(super) watermark: Pages,
    pub(super) failcnt: u64,
}

impl Default for PageCounter {
    fn default() -> Self {
        Self {
            usage: 0,
            min: 0,
            low: 0,
            high: UNLIMITED,
            max: UNLIMITED,
            emin: 0,
            elow: 0,
            min_usage: 0,
            low_usage: 0,
            children_min_usage: 0,
            children_low_usage: 0,
            watermark: 0,
            failcnt: 0,
        }
    }
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        impl PageCounter {
            $($(#[$doc])* #[inline] pub fn $name(&self) -> u64 { self.$name })*
        }
    };
}

readers! {
    /// Pages charged here and below, per-CPU stocks included.
    usage,
    /// Hard protection asked for.
    min,
    /// Best-effort protection asked for.
    low,
    /// Usage above which tasks are throttled.
    high,
    /// Hard limit; `usage == max` is allowed.
    max,
    /// Effective `min` as of the last calculation.
    emin,
    /// Effective `low` as of the last calculation.
    elow,
    /// Usage protected by `min`: the smaller of the two.
    min_usage,
    /// Usage protected by `low`: the smaller of the two.
    low_usage,
    /// Sum of the children's `min_usage`.
    children_min_usage,
    /// Sum of the children's `low_usage`.
    children_low_usage,
    /// Highest usage ever.
    watermark,
    /// Charges that this counter's limit refused.
    failcnt,
}

impl PageCounter {
    /// Pages that still fit under `max`.
    #[inline]
    pub fn margin(&self) -> Pages {
        self.max.saturating_sub(self.usage)
    }

    #[inline]
    pub(super) fn raise_watermark(&mut self) {
        self.watermark = self.watermark.max(self.usage);
    }
}
