//! Swap read-ahead window (`docs/rules/swap.md`).

use std::ops::Range;

/// Read-ahead state of a swap device or of a mapping.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwapReadahead {
    hits: u64,
    prev_offset: u64,
    prev_window: u64,
}

impl SwapReadahead {
    /// A page read ahead was used.
    pub fn hit(&mut self) {
        self.hits += 1;
    }

    /// Slots to read for a fault at `offset` of an area of `slots` slots: an aligned block that
    /// holds the offset, of at most `2^page_cluster` slots. Takes the hits counted so far.
    pub fn window(&mut self, offset: u64, page_cluster: u32, slots: u64) -> Range<u64> {
        let max = 1u64 << page_cluster.min(63);
        let wanted = std::mem::take(&mut self.hits).saturating_add(2);
        let size = if wanted == 2 {
            let adjacent = offset.abs_diff(self.prev_offset) == 1;
            1 + u64::from(adjacent)
        } else {
            wanted.max(4).checked_next_power_of_two().unwrap_or(max)
        };
        let size = size.min(max).max(self.prev_window / 2).min(max).max(1);
        // Half of a window that is a power of two is one as well: the block can be aligned.
        debug_assert!(size.is_power_of_two());
        self.prev_offset = offset;
        self.prev_window = size;
        let start = offset & !(size - 1);
        start..(start + size).min(slots.max(offset + 1))
    }
}

/// True if a fault reads its page straight into place, past the swap cache: the device is synchronous
/// (zram, ramdisk), and the kernel is older than 7.0 (`swap_cache_always`).
pub fn bypasses_cache(synchronous: bool, always_cached: bool) -> bool {
    synchronous && !always_cached
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn machine_c7_readahead() {
        let mut r = SwapReadahead {
            prev_offset: 50,
            prev_window: 1,
            hits: 0,
        };
        assert_eq!(r.window(100, 3, 1000), 100..101);
        assert_eq!(r.window(101, 3, 1000), 100..102);
        (0..3).for_each(|_| r.hit());
        assert_eq!(r.window(203, 3, 1000), 200..208);
        assert_eq!(r.window(500, 3, 1000), 500..504);
        assert_eq!(r.window(700, 3, 1000), 700..702);
    }

    #[test]
    fn bounds() {
        let mut r = SwapReadahead::default();
        (0..100).for_each(|_| r.hit());
        assert_eq!(
            r.window(10, 0, 1000),
            10..11,
            "page-cluster 0 reads one page"
        );
        (0..100).for_each(|_| r.hit());
        assert_eq!(r.window(13, 3, 14), 8..14, "cut at the end of the area");
        assert!(bypasses_cache(true, false) && !bypasses_cache(true, true));
        assert!(!bypasses_cache(false, false));
    }

    proptest! {
        #[test]
        fn the_window_holds_the_fault(
            faults in prop::collection::vec((0u64..4096, 0u64..12), 1..100), cluster in 0u32..6,
        ) {
            let mut r = SwapReadahead::default();
            for (offset, hits) in faults {
                (0..hits).for_each(|_| r.hit());
                let w = r.window(offset, cluster, 4096);
                prop_assert!(w.contains(&offset));
                prop_assert!(w.end - w.start <= 1 << cluster);
                prop_assert!(w.end <= 4096);
            }
        }
    }
}
