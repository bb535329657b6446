//! How much a slab shrinker scans (`docs/rules/zones.md#slab`), and how many shadow-only index nodes are
//! worth freeing (`docs/rules/workingset.md#shadow`).

use crate::ids::Pages;

/// Cost of recreating an object, of most shrinkers.
pub const DEFAULT_SEEKS: u64 = 2;
/// Objects scanned at once, of most shrinkers.
pub const DEFAULT_BATCH: u64 = 128;

/// A shrinker's constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrinker {
    /// Cost of recreating an object; 0 = free.
    pub seeks: u64,
    /// Objects scanned at once.
    pub batch: u64,
}

impl Default for Shrinker {
    fn default() -> Self {
        Self {
            seeks: DEFAULT_SEEKS,
            batch: DEFAULT_BATCH,
        }
    }
}

/// One call of a shrinker: an iterator of batch sizes. The host scans each batch, may stop early by
/// dropping the iterator out of its loop, and at the end takes [`SlabScan::deferred`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlabScan {
    freeable: u64,
    /// Deferred work plus this call's share, before the cap.
    due: u64,
    total: u64,
    batch: u64,
    scanned: u64,
}

impl SlabScan {
    /// Plans a call: `freeable` countable objects, `deferred` objects left over by earlier calls
    /// (the host's stored count is zeroed by this), reclaim `priority`. `None` if there is nothing
    /// to free; the deferred count then stays with the host.
    pub fn new(shrinker: Shrinker, freeable: u64, deferred: u64, priority: u32) -> Option<Self> {
        if freeable == 0 {
            return None;
        }
        let shifted = |v: u64| v.checked_shr(priority).unwrap_or(0);
        let delta = match shrinker.seeks {
            0 => freeable / 2,
            seeks => shifted(freeable).saturating_mul(4) / seeks,
        };
        let total = shifted(deferred)
            .saturating_add(delta)
            .min(freeable.saturating_mul(2));
        let due = deferred.saturating_add(delta);
        Some(Self {
            freeable,
            due,
            total,
            batch: shrinker.batch.max(1),
            scanned: 0,
        })
    }

    /// Objects handed out so far (SLABS_SCANNED).
    pub fn scanned(&self) -> u64 {
        self.scanned
    }

    /// What the host adds to its stored deferred count.
    pub fn deferred(&self) -> u64 {
        self.due
            .saturating_sub(self.scanned)
            .min(self.freeable.saturating_mul(2))
    }
}

impl Iterator for SlabScan {
    type Item = u64;

    /// Size of the next batch; it counts as scanned.
    fn next(&mut self) -> Option<u64> {
        if self.total < self.batch && self.total < self.freeable {
            return None;
        }
        let n = self.batch.min(self.total);
        self.total -= n;
        self.scanned += n;
        (n > 0).then_some(n)
    }
}

/// Index nodes with only shadows that are worth freeing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShadowCount {
    /// No such node: the shrinker may be skipped until there is one.
    Empty,
    /// Nodes beyond the density target; the shadow shrinker's seeks are 0, so all of them
    /// are free to take.
    Nodes(u64),
}

/// Constants of the shadow shrinker.
pub const SHADOW_SHRINKER: Shrinker = Shrinker {
    seeks: 0,
    batch: DEFAULT_BATCH,
};

/// Freeable shadow-only nodes of `nodes` such nodes, given the memory they are to describe: the
/// memcg's LRU and slab pages on the node, or the node's present pages without a memcg. The target
/// is one 64-slot node in eight pages.
pub fn shadow_count(nodes: u64, pages: Pages) -> ShadowCount {
    match nodes {
        0 => ShadowCount::Empty,
        n => ShadowCount::Nodes(n.saturating_sub(pages >> 3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(freeable: u64, deferred: u64, priority: u32) -> (Vec<u64>, u64) {
        let mut s = SlabScan::new(Shrinker::default(), freeable, deferred, priority).unwrap();
        let batches = s.by_ref().collect();
        (batches, s.deferred())
    }

    #[test]
    fn r6_slab() {
        assert_eq!(run(10_000, 0, 12), (vec![], 4));
        assert_eq!(run(10_000, 0, 6), (vec![128, 128], 56));
        assert_eq!(run(10_000, 90, 6), (vec![128, 128], 146));
        assert_eq!(run(100, 0, 0), (vec![128], 72));
    }

    #[test]
    fn nothing_and_small_counts() {
        assert_eq!(SlabScan::new(Shrinker::default(), 0, 50, 0), None);
        // Fewer objects than a batch, twice over: one batch empties the plan.
        assert_eq!(run(10, 0, 0), (vec![20], 0));
        let free = SlabScan::new(SHADOW_SHRINKER, 600, 0, 12).unwrap();
        assert_eq!(free.collect::<Vec<_>>(), [128, 128]);
    }

    #[test]
    fn early_stop_defers_the_rest() {
        let mut s = SlabScan::new(Shrinker::default(), 10_000, 0, 6).unwrap();
        assert_eq!(s.next(), Some(128));
        assert_eq!((s.scanned(), s.deferred()), (128, 184));
    }

    #[test]
    fn w7_shadow_nodes() {
        assert_eq!(shadow_count(0, 4096), ShadowCount::Empty);
        assert_eq!(shadow_count(512, 4000 + 96), ShadowCount::Nodes(0));
        assert_eq!(shadow_count(600, 4000 + 96), ShadowCount::Nodes(88));
    }

    proptest! {
        #[test]
        fn never_more_than_twice_the_objects(c in 1u64..1 << 40, d in 0u64..1 << 50, p in 0u32..13) {
            let mut s = SlabScan::new(Shrinker::default(), c, d, p).unwrap();
            for n in s.by_ref().take(10_000) {
                prop_assert!(n <= 128);
            }
            prop_assert!(s.scanned() <= 2 * c);
            prop_assert!(s.deferred() <= 2 * c);
        }
    }
}
