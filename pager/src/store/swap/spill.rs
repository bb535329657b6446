//! Pages of compressed memory go to the file behind it, each to the place that its slot has there.

use super::{meanwhile, offset, Swap, IN_FILE, IN_MEMORY};
use crate::store::storage::{write_all, Write};
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
        // From before a page is copied until its copy is in its place: its owner may write a newer one there next.
        let _alone = self.spilling.write().expect("spilling");
        let slots = memory.copy_out(buf.bytes_mut());
        meanwhile();
        let pages = buf.bytes_mut().chunks_exact_mut(PAGE);
        pages.zip(&slots).for_each(|(p, &s)| self.seals.seal(s, p));
        let pages = buf.bytes().chunks_exact(PAGE).zip(&slots);
        let mut writes: Vec<Write<'_>> = pages.map(|(p, &s)| Write::new(p, offset(s))).collect();
        write_all(&**file, &mut writes);
        meanwhile();
        let mut written = writes.iter().map(|w| w.done.is_ok()).zip(&slots).peekable();
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
        moved
    }

    /// Not if its owner is about to empty it, or has not said yet that it is in memory.
    fn is_in_file_now(&self, slot: u32) -> bool {
        let tier = &self.tier[slot as usize];
        let moved = tier.compare_exchange(IN_MEMORY, IN_FILE, AcqRel, Acquire);
        if moved.is_ok() {
            self.in_file.fetch_add(1, Relaxed);
        }
        moved.is_ok()
    }
}
