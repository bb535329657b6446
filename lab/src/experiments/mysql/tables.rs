//! Where the pages of the tables are in the buffer pool (`docs/reference/experiments.md#mysql`).

use std::ops::Range;

/// Pages of 4 KiB in a page of the engine (16 KiB).
pub const POOL_PAGE: u32 = 4;
/// Children of an upper page of a clustered tree: 16 KiB of keys and page numbers.
const FAN_OUT: u64 = 1000;

/// One table: a root, the level below it, leaves, and a secondary index, one behind the other.
/// Numbers are pages of 4 KiB from the start of the table's part of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    rows: u64,
    rows_per_leaf: u64,
    middle: u32,
    leaves: u32,
    secondary: u32,
}

/// The pages that a look-up of a row leads through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The two hot upper pages: the root, and the part of the level below that holds the key.
    pub upper: [u32; 2],
    /// First 4 KiB of the leaf.
    pub leaf: u32,
    /// The 4 KiB of the leaf with the row.
    pub row: u32,
}

impl Table {
    /// A table of `rows` rows with a secondary index of `secondary` pages of 4 KiB.
    pub fn new(rows: u64, rows_per_leaf: u64, secondary: u32) -> Self {
        let leaves = rows.div_ceil(rows_per_leaf);
        Self {
            rows,
            rows_per_leaf,
            middle: leaves.div_ceil(FAN_OUT) as u32,
            leaves: leaves as u32,
            secondary,
        }
    }

    /// Pages of 4 KiB of the table.
    pub fn pages(&self) -> u32 {
        (1 + self.middle + self.leaves) * POOL_PAGE + self.secondary.next_multiple_of(POOL_PAGE)
    }

    fn leaf_start(&self, leaf: u32) -> u32 {
        (1 + self.middle + leaf) * POOL_PAGE
    }

    /// The way to a row, numbered from 1.
    pub fn path(&self, row: u64) -> Path {
        let (leaf, within) = (
            (row - 1) / self.rows_per_leaf,
            (row - 1) % self.rows_per_leaf,
        );
        let start = self.leaf_start(leaf as u32);
        let quarters = self.middle * POOL_PAGE;
        let middle = leaf * u64::from(quarters) / u64::from(self.leaves);
        Path {
            upper: [0, POOL_PAGE + middle as u32],
            leaf: start,
            row: start + (within * u64::from(POOL_PAGE) / self.rows_per_leaf) as u32,
        }
    }

    /// First pages of the leaves that `count` rows from `row` on lie in; a range ends with the table.
    pub fn leaves_of(&self, row: u64, count: u64) -> impl Iterator<Item = u32> + '_ {
        let last = (row + count - 1).min(self.rows);
        let leaves: Range<u64> =
            (row - 1) / self.rows_per_leaf..(last - 1) / self.rows_per_leaf + 1;
        leaves.map(|leaf| self.leaf_start(leaf as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sizes() {
        let t = Table::new(2_000_000, 73, 34 * 256);
        assert_eq!(t.leaves, 27_398);
        // 428 MiB of leaves; the secondary index beside them.
        assert_eq!(t.leaves * POOL_PAGE / 256, 428);
        let gib = (u64::from(t.pages()) * 48 * 4096) >> 20;
        assert!((21_000..23_000).contains(&gib), "{gib} MiB");
    }

    #[test]
    fn every_row_has_its_place() {
        let t = Table::new(10_000, 73, 8);
        let mut last = 0;
        for row in 1..=10_000 {
            let p = t.path(row);
            assert!(p.row >= p.leaf && p.row < p.leaf + POOL_PAGE);
            assert!(p.row >= last && p.row < t.pages() - 8);
            assert!(p.upper[1] >= POOL_PAGE && p.upper[1] < t.leaf_start(0));
            last = p.row;
        }
        assert_eq!(t.path(73).row, t.path(1).leaf + 3);
        assert_eq!(t.path(74).leaf, t.path(1).leaf + POOL_PAGE);
    }

    #[test]
    fn a_range_touches_two_or_three_leaves_and_stays_inside() {
        let t = Table::new(10_000, 73, 0);
        for row in 1..=9_900 {
            assert!((2..=3).contains(&t.leaves_of(row, 100).count()), "{row}");
        }
        assert_eq!(t.leaves_of(10_000, 100).count(), 1);
        let last = t.leaves_of(10_000, 100).last().unwrap();
        assert_eq!(last + POOL_PAGE, t.pages());
    }
}
