//! Pages that go from compressed memory to the swap file, when the budget gets smaller or nothing else is left to give
//! up. The kernel's name for it is writeback of zswap.

use super::super::entry::Entry;
use super::{unlz4, Compressed, Inner, PAGE};
use std::io;

impl Compressed {
    /// Copies pages of the chunk that holds the fewest bytes, as many as `pages` has room for, to write them elsewhere.
    /// Returns their slots, in ascending order. One caller at a time, until [`Self::left`].
    pub fn copy_out(&self, pages: &mut [u8]) -> Vec<u32> {
        let mut inner = self.lock();
        let Some(chunk) = inner.slab.sparsest() else {
            return Vec::new();
        };
        let mut slots: Vec<u32> = inner.slab.owners(chunk).collect();
        slots.sort_unstable();
        let mut buffers = pages.chunks_exact_mut(PAGE);
        let mut next = buffers.next();
        // What is damaged stays, for its reader to find out.
        slots.retain(|&slot| {
            let Some(page) = next.as_deref_mut() else {
                return false;
            };
            let good = self.unpack(&inner, slot, page).is_ok();
            if good {
                next = buffers.next();
            }
            good
        });
        inner.leaving.clone_from(&slots);
        slots
    }

    fn unpack(&self, inner: &Inner, slot: u32, page: &mut [u8]) -> io::Result<()> {
        let e = self.entry(slot);
        let (h, len) = e.object().expect("owners have an object");
        let data = inner.slab.get(h, len);
        match e {
            Entry::Zstd(..) => self.zstd.decompress(data, page),
            Entry::Lz4(..) => unlz4(data, page),
            _ => {
                page.copy_from_slice(data);
                Ok(())
            }
        }
    }

    /// Forgets of the pages that were copied out those that `elsewhere` says have another place now. It is asked of none
    /// whose slot its owner has emptied or filled anew meanwhile.
    pub fn left(&self, mut elsewhere: impl FnMut(u32) -> bool) {
        let mut inner = self.lock();
        for slot in std::mem::take(&mut inner.leaving) {
            if elsewhere(slot) {
                self.forget(&mut inner, slot);
            }
        }
    }
}
