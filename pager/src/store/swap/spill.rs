//! Pages of compressed memory go to the file behind it, each to the place that its slot has there.

use super::{offset, Swap, IN_FILE, IN_MEMORY};
use crate::meanwhile::meanwhile;
use crate::store::compressed::Compressed;
use crate::store::storage::{write_all, Storage, Write};
use crate::sys::memory::PageBuf;
use crate::sys::PAGE;
use std::sync::atomic::Ordering::*;

/// Pages that go together.
const TOGETHER: usize = 32;

impl Swap {
    /// Some pages of compressed memory go to the file. Returns how many; 0 if there are none, there is no file, or it does
    /// not take them, and then they are where they were.
    pub fn spill(&self) -> usize {
        let (Some(memory), Some(file)) = (&self.memory, &self.file) else {
            return 0;
        };
        let Ok(mut buf) = PageBuf::new(TOGETHER) else {
            return 0;
        };
        let _alone = self.spilling.lock().expect("spilling");
        loop {
            let slots = memory.copy_sparsest(buf.bytes_mut());
            let (moved, refused) = self.spill_copies(memory, &**file, &slots, &mut buf);
            // If their owners have emptied all of them meanwhile, or filled them anew, there still are others.
            if moved > 0 || refused || slots.is_empty() {
                return moved;
            }
        }
    }

    /// The oldest pages of compressed memory go to the file: as many as `coming`, if there is no place for those, and those
    /// that [have been away too long](Compressed::copy_oldest), with `resident` pages in memory as they are. At most as many
    /// as `buf` has room for. Returns how many; 0 also if others are about it.
    pub fn spill_oldest(&self, coming: usize, resident: u64, buf: &mut PageBuf) -> usize {
        let (Some(memory), Some(file), Some(evictions)) =
            (&self.memory, &self.file, &self.evictions)
        else {
            return 0;
        };
        let Ok(_alone) = self.spilling.try_lock() else {
            return 0;
        };
        let slots = memory.copy_oldest(buf.bytes_mut(), coming, resident, evictions);
        self.spill_copies(memory, &**file, &slots, buf).0
    }

    /// Copies of the pages in `slots` go to the file. How many pages have left compressed memory, and whether the file has
    /// refused any.
    fn spill_copies(
        &self,
        memory: &Compressed,
        file: &dyn Storage,
        slots: &[u32],
        copies: &mut PageBuf,
    ) -> (usize, bool) {
        meanwhile();
        let pages = copies.bytes_mut().chunks_exact_mut(PAGE);
        pages.zip(slots).for_each(|(p, &s)| self.seals.seal(s, p));
        let pages = copies.bytes().chunks_exact(PAGE).zip(slots);
        let mut writes: Vec<Write<'_>> = pages.map(|(p, &s)| Write::new(p, offset(s))).collect();
        write_all(file, &mut writes);
        meanwhile();
        let refused = writes.iter().any(|w| w.done.is_err());
        let mut written = writes.iter().map(|w| w.done.is_ok()).zip(slots).peekable();
        let mut moved = 0;
        memory.left(|slot| {
            // In the order of the slots, without those that have been used meanwhile.
            while written.next_if(|(_, &s)| s < slot).is_some() {}
            let done = written
                .next_if(|(_, &s)| s == slot)
                .is_some_and(|(ok, _)| ok)
                && self.is_in_file_now(slot);
            moved += usize::from(done);
            done
        });
        (moved, refused)
    }

    /// Not if its owner is about to empty it, or has not said yet that it is in memory.
    fn is_in_file_now(&self, slot: u32) -> bool {
        // Counted first: its owner may empty it as soon as it is there.
        self.in_file.fetch_add(1, Relaxed);
        meanwhile();
        let tier = &self.tier[slot as usize];
        let moved = tier.compare_exchange(IN_MEMORY, IN_FILE, AcqRel, Acquire);
        if moved.is_err() {
            self.in_file.fetch_sub(1, Relaxed);
        }
        moved.is_ok()
    }
}
