//! Swap: slots, read-ahead window and compressed devices (`docs/rules/swap.md`, `docs/rules/machine.md#devices`). What a slot
//! holds and who is charged for it is kept elsewhere.

mod area;
pub mod readahead;
pub mod slots;
pub mod zram;

use crate::ids::Pages;
pub use readahead::{bypasses_cache, SwapReadahead};
pub use slots::{SlotCacheConfig, SwapError, SwapSlot, SwapSlots};
pub use zram::{PageClass, PageMix, Zram, ZramAlgorithm, ZramError, ZramParams};

/// Swap use of one memcg: usage, swap.high and swap.max, pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemcgSwap {
    /// Slots charged to the memcg.
    pub usage: Pages,
    /// swap.high; [`Pages::MAX`] = none.
    pub high: Pages,
    /// swap.max; [`Pages::MAX`] = none.
    pub max: Pages,
}

/// True if a memcg of the folio's path is at half of its swap allowance (`docs/rules/swap.md#charging`).
pub fn memcg_swap_half_full(path: impl IntoIterator<Item = MemcgSwap>) -> bool {
    path.into_iter().any(|m| {
        let twice = m.usage.saturating_mul(2);
        (m.high != Pages::MAX && twice >= m.high) || (m.max != Pages::MAX && twice >= m.max)
    })
}

/// True if swap is scarce for a folio: more than half of all slots are used, or a memcg of its path
/// is at half of its allowance. Reclaim then frees the slots of reactivated folios.
pub fn swap_full(free: Pages, total: Pages, path: impl IntoIterator<Item = MemcgSwap>) -> bool {
    more_than_half_used(free, total) || memcg_swap_half_full(path)
}

/// True if more than half of the slots are used.
pub fn more_than_half_used(free: Pages, total: Pages) -> bool {
    free.saturating_mul(2) < total
}

/// True if a slot is freed when its page is swapped in: swap is scarce, or the folio has one owner
/// who is about to write to it.
pub fn frees_slot_at_swap_in(swap_full: bool, exclusive: bool, will_write: bool) -> bool {
    swap_full || (exclusive && will_write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scarcity() {
        let none = MemcgSwap {
            usage: 1 << 40,
            high: Pages::MAX,
            max: Pages::MAX,
        };
        assert!(!swap_full(50, 100, [none]));
        assert!(swap_full(49, 100, []));
        let high = MemcgSwap {
            usage: 50,
            high: 100,
            max: Pages::MAX,
        };
        assert!(swap_full(100, 100, [none, high]));
        assert!(!swap_full(100, 100, [MemcgSwap { usage: 49, ..high }]));
        assert!(memcg_swap_half_full([MemcgSwap {
            usage: 5,
            high: Pages::MAX,
            max: 10
        }]));
        assert!(frees_slot_at_swap_in(true, false, false));
        assert!(frees_slot_at_swap_in(false, true, true));
        assert!(!frees_slot_at_swap_in(false, true, false));
    }
}
