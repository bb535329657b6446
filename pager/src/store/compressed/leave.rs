//! Pages that go from compressed memory to the swap file: the oldest as others come, and any when the budget gets smaller
//! or nothing else is left to give up. The kernel's name for it is writeback of zswap.

use super::super::age::List;
use super::super::entry::Entry;
use super::super::evictions::Evictions;
use super::{unlz4, Compressed, Inner, PAGE};
use std::io;

/// Pages that may stay for one that has been missed: a miss from a file takes about so many times as long as one from
/// compressed memory (`docs/figures.md`).
const WORTH: u64 = 8;

impl Inner {
    /// Slots, those first whose pages have been evicted longest ago, as near as the two lists know.
    fn oldest<'a>(&'a self, evictions: &'a Evictions) -> impl Iterator<Item = u32> + 'a {
        let since = |slot| evictions.since(slot).unwrap_or(0);
        let list = |l| self.ages.iter().flat_map(move |a| a.oldest(l)).peekable();
        let (mut last, mut untried) = (list(List::Final), list(List::Untried));
        std::iter::from_fn(move || match (last.peek(), untried.peek()) {
            (Some(&a), Some(&b)) if since(a) < since(b) => untried.next(),
            (None, _) => untried.next(),
            _ => last.next(),
        })
    }
}

impl Compressed {
    /// Copies pages of the chunk that holds the fewest bytes, as many as `pages` has room for, to write them elsewhere.
    /// Returns their slots, in ascending order. One caller at a time, until [`Self::left`].
    pub fn copy_sparsest(&self, pages: &mut [u8]) -> Vec<u32> {
        let mut inner = self.lock();
        let chunk = inner.slab.sparsest();
        let slots = chunk.map(|c| inner.slab.owners(c).collect());
        self.copy_out(&mut inner, slots.unwrap_or_default(), pages)
    }

    /// The same of the oldest pages: as many as `coming` that there is no place for, and otherwise those after which more
    /// pages have been evicted than are in memory, `resident` of them as they are. For each of the latter that has been
    /// missed since, `WORTH` others stay once more as long.
    pub fn copy_oldest(
        &self,
        pages: &mut [u8],
        coming: usize,
        resident: u64,
        evictions: &Evictions,
    ) -> Vec<u32> {
        let mut inner = self.lock();
        let refused = std::mem::take(&mut inner.refused);
        let for_others = match refused || self.is_short_of(&inner, coming) {
            true => coming,
            false => 0,
        };
        let held = resident + inner.tiers.pages();
        let old = |slot| evictions.since(slot).is_some_and(|since| since > held);
        let oldest = inner.oldest(evictions).take(pages.len() / PAGE).enumerate();
        let due = oldest.take_while(|&(i, slot)| i < for_others || old(slot));
        let mut slots: Vec<u32> = due.map(|(_, slot)| slot).collect();
        let most_stay = slots.len().saturating_sub(for_others);
        let stay = most_stay.min(inner.stay as usize);
        inner.stay -= stay as u64;
        for slot in slots.split_off(slots.len() - stay) {
            evictions.note(slot);
            self.renew(&mut inner, slot);
        }
        self.copy_out(&mut inner, slots, pages)
    }

    /// A page comes back from the file, `since` evictions after its own. True: it would have been here if the oldest stayed
    /// twice as long as while as many pages are evicted as are in memory, `resident` of them as they are.
    pub fn missed(&self, since: u64, resident: u64) -> bool {
        let mut inner = self.lock();
        let pages = inner.tiers.pages();
        let held = resident + pages;
        if since > held && since <= 2 * held {
            inner.stay = (inner.stay + WORTH).min(pages);
        }
        since <= 2 * held
    }

    /// There is no place for so many pages of the usual size.
    fn is_short_of(&self, inner: &Inner, pages: usize) -> bool {
        let (pages, has) = (pages as u64, inner.tiers.pages());
        let used = inner.slab.used_bytes();
        let usual = used.checked_div(has).unwrap_or(PAGE as u64 / 2);
        let too_many = self.before_file.is_some_and(|most| has + pages > most);
        too_many || used + pages * usual > self.may_take()
    }

    fn copy_out(&self, inner: &mut Inner, mut slots: Vec<u32>, pages: &mut [u8]) -> Vec<u32> {
        slots.sort_unstable();
        let mut buffers = pages.chunks_exact_mut(PAGE);
        let mut next = buffers.next();
        // What is damaged stays, for its reader to find out.
        slots.retain(|&slot| {
            let Some(page) = next.as_deref_mut() else {
                return false;
            };
            let good = self.unpack(inner, slot, page).is_ok();
            if good {
                next = buffers.next();
            }
            good
        });
        inner.leaving.clone_from(&slots);
        inner.under_way.clone_from(&slots);
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
        inner.under_way.clear();
        drop(inner);
        self.arrived.notify_all();
    }

    /// Waits until no copy of these slots is on its way, not even an older one.
    pub fn wait_for(&self, slots: impl Fn(u32) -> bool) {
        let inner = self.lock();
        let some = |inner: &mut Inner| inner.under_way.iter().any(|&s| slots(s));
        drop(
            self.arrived
                .wait_while(inner, some)
                .expect("compressed memory"),
        );
    }
}
