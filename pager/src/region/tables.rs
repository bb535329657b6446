//! Which blocks have pages in memory, and a page table of the kernel's for them.

use super::area::{Area, BLOCK};
use crate::sys::PAGE;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Area {
    /// A page is in memory: the kernel has a table for its block.
    pub(crate) fn count_in(&self, page: usize) {
        let b = self.book.records.make_block(page / BLOCK);
        b.in_memory.fetch_add(1, SeqCst);
        if !self.is_explicit() && b.table.load(SeqCst) == 0 && b.table.swap(1, SeqCst) == 0 {
            self.tables.fetch_add(self.table_bytes(), Relaxed);
        }
    }

    /// Bytes of the kernel's table for a block. Regions of less than one lie side by side, and share theirs.
    fn table_bytes(&self) -> u64 {
        let pages = self.pages().min(BLOCK);
        (pages * PAGE / BLOCK) as u64
    }

    /// A page is in memory no more. True if it was the last of its block.
    pub(crate) fn count_out(&self, page: usize) -> bool {
        let b = self.book.records.make_block(page / BLOCK);
        b.in_memory.fetch_sub(1, SeqCst) == 1
    }

    /// Gives the kernel's table of a block back that has no page in memory. It still holds the marks of
    /// write protection of pages that have left; these are taken away first.
    ///
    /// A page may come in meanwhile. It then counts as written since it was stored, and is mapped
    /// again when it is used next: both are said of pages that are not in that state all the time.
    pub(crate) fn release_table(&self, b: usize) {
        let Some(block) = self.known_block(b) else {
            return;
        };
        if block.table.swap(0, SeqCst) == 0 {
            return;
        }
        self.tables.fetch_sub(self.table_bytes(), Relaxed);
        let range = self.block(b);
        let unmarked = block.in_memory.load(SeqCst) == 0
            && !self.memory.is_torn()
            && self
                .memory
                .unprotect(range.start * PAGE, range.len() * PAGE);
        if unmarked {
            self.memory.zap(range.start * PAGE, range.len() * PAGE);
        } else if block.table.swap(1, SeqCst) == 0 {
            self.tables.fetch_add(self.table_bytes(), Relaxed);
        }
    }

    /// Tables of a region that goes away.
    pub(crate) fn forget_tables(&self) {
        let known = (0..self.blocks()).filter_map(|b| self.known_block(b));
        let had = known.filter(|b| b.table.swap(0, SeqCst) != 0).count();
        let bytes = had as u64 * self.table_bytes();
        self.tables.fetch_sub(bytes, Relaxed);
    }
}
